"""The topology changes while messages are on their way: nothing is lost, doubled or reordered."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Stage
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition
from tests.sim.changing import ChangedMesh, on_nodes
from tests.sim.meshes import random_legal_topology


def multi_hop(*pairs: str) -> dict[str, object]:
    return {"kind": "multi-hop", "links": [list(pair) for pair in pairs]}


def topology(nodes: str = "abc", lanes: int = 1, **zones: object) -> Topology:
    declared = {name: {"kafka": f"k{i % 2}", "lanes": lanes} for i, name in enumerate(nodes)}
    kafka = {kafka: {} for kafka in ("k0", "k1")[: len(nodes)]}
    return topology_from_mapping({"kafka": kafka, "nodes": declared, "zones": zones})


def test_a_walk_moves() -> None:
    """Spec: K28."""
    mesh = ChangedMesh(topology(Z=multi_hop("ab")), seed=1)
    mesh.run(2_000, load=True)
    mesh.change_to(topology(Z=multi_hop("ac", "bc")), ["a", "b", "c"])
    mesh.run(2_000, load=True)
    mesh.settle()
    mesh.assert_exact()


@pytest.mark.parametrize("seed", range(6))
def test_random_topologies_follow_each_other(seed: int) -> None:
    """Spec: K24, K27, K28."""
    rng = random.Random(seed)
    first = random_legal_topology(rng, nodes_max=5, lanes_max=2, joined=seed % 2 == 1)
    mesh = ChangedMesh(first, seed=seed)
    for _ in range(2):
        while True:
            drawn = random_legal_topology(rng, nodes_max=5, joined=seed % 2 == 1)
            if set(drawn.nodes) <= set(first.nodes):
                break
        mesh.run(1_000, load=True)
        mesh.change_to(on_nodes(drawn, first.nodes, first), list(first.nodes))
    mesh.run(1_000, load=True)
    mesh.settle()
    mesh.assert_exact()


@pytest.mark.parametrize("seed", range(6))
def test_workers_die_between_and_within_the_stages(seed: int) -> None:
    """Those that start work by what is in force, not by their file. Spec: K16, K28."""
    first = topology("abcd", lanes=2, Z=multi_hop("ab", "bd"), Y=multi_hop("ac"))
    mesh = ChangedMesh(first, seed=seed, workers=2)
    mesh.run(1_000, load=True)
    mesh.kills = 0.02
    there = topology("abcd", lanes=2, Z=multi_hop("ac", "bc", "bd"))
    for target in (there, first):
        mesh.change_to(target, ["a", "b", "c", "d"])
        mesh.run(1_000, load=True)
    mesh.kills = 0.0
    mesh.run(10_000)
    mesh.settle()
    mesh.assert_exact()


def switch(mesh: ChangedMesh, target: Topology) -> None:
    """Put a topology in force where no walk moves: nothing is held and nothing drained."""
    mesh.number += 1
    mesh.say(Stage.SWITCH, target)
    mesh.topology = target
    mesh.await_done(Stage.SWITCH)
    mesh.say(Stage.RUN, target)
    mesh.await_done(Stage.RUN)


def test_untouched_links_never_stop_while_a_leaf_comes_and_goes() -> None:
    """A link, a zone, a join and a leaf node, one after the other. Spec: K28."""
    small = topology("ab", Z=multi_hop("ab"))
    leaf = topology("abc", Z=multi_hop("ab", "bc"))
    zone = topology("abc", Z=multi_hop("ab"), X={"kind": "external", "links": [["b", "c"]]})
    join = topology("abc", Z=multi_hop("ab"), J={"kind": "join", "from": "b", "to": "c"})
    mesh = ChangedMesh(small, seed=5, watched="ab")
    mesh.run(1_000, load=True)
    mesh.world.topology = leaf
    mesh.start("c")  # its file is the new one: it waits for the others
    for target in (leaf, zone, join, leaf, small):
        switch(mesh, target)
        mesh.run(1_000, load=True)
    mesh.settle()
    for node, source in (("b", "a"), ("a", "b")):
        counts = Counter(record.value() for record in mesh.delivered(node))
        sent = [value for value, _, _, _ in mesh.published[source]]
        assert all(counts[value] == 1 for value in sent)
        mesh.assert_in_order(node)
        moments = sorted(mesh.seen_ms[node, value] for value in sent)
        assert max(later - one for one, later in pairwise(moments)) < 400
    from_a = [r for r in mesh.delivered("c") if (r.value() or b"").startswith(b"a")]
    assert len(from_a) > 100
    assert len({record.value() for record in from_a}) == len(from_a)


def test_a_link_that_comes_back_goes_on_where_it_ended() -> None:
    """What waited in the outbox is read then; nothing that went elsewhere comes twice. K11, K28."""
    linked, other = topology(Z=multi_hop("ab", "bc")), topology(Z=multi_hop("ac", "bc"))
    mesh = ChangedMesh(linked, seed=6)
    mesh.run(2_000, load=True)
    mesh.world.cut("b", ["a"])  # so that something is left in the outbox
    mesh.run(1_000, load=True)
    mesh.number += 1
    mesh.say(Stage.HOLD, other, ["a", "b", "c"])
    mesh.await_done(Stage.HOLD, load=False)
    left = [value for value, _, _, _ in mesh.published["a"]]
    mesh.say(Stage.SWITCH, other, ["a", "b", "c"])
    mesh.topology = other
    mesh.await_done(Stage.SWITCH)
    mesh.world.cut("b", [])
    mesh.say(Stage.RUN, other)
    mesh.run(2_000, load=True)
    mesh.settle()
    came = Counter(record.value() for record in mesh.delivered("b"))
    assert set(left) - set(came)
    mesh.change_to(linked, ["a", "b", "c"])
    mesh.run(2_000, load=True)
    mesh.settle()
    came = Counter(record.value() for record in mesh.delivered("b"))
    assert {value for value, _, _, _ in mesh.published["a"]} <= set(came)
    assert max(came.values()) == 1


def test_an_outbox_that_was_recreated_is_no_loss_when_its_link_comes_back() -> None:
    """Spec: K11, K28."""
    linked, other = topology(Z=multi_hop("ab", "bc")), topology(Z=multi_hop("ac", "bc"))
    mesh = ChangedMesh(linked, seed=7)
    mesh.run(1_000, load=True)
    mesh.change_to(other, ["a", "b", "c"])
    mesh.run(1_000, load=True)
    mesh.settle()
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    del mesh.world.kafka[mesh.kafka_of("a")].topics[outbox]
    mesh.change_to(linked, ["a", "b", "c"])
    mesh.run(1_000, load=True)
    mesh.settle()
    mesh.assert_exact()


@pytest.mark.parametrize("killed", ["never", "late", "early"])
def test_a_repair_sends_nothing_that_went_another_way(killed: str) -> None:
    """Frames vanish from an outbox whose link has come back a moment ago. Spec: K11, K20, K28."""
    linked, other = topology(Z=multi_hop("ab", "bc")), topology(Z=multi_hop("ac", "bc"))
    mesh = ChangedMesh(linked, seed=10)
    mesh.run(1_000, load=True)
    mesh.change_to(other, ["a", "b", "c"])
    mesh.run(1_000, load=True)
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    logs = mesh.world.kafka[mesh.kafka_of("a")].topics[outbox].logs
    ends = [len(log.entries) for log in logs]
    mesh.killed_at_switch = ["a"] if killed == "early" else []
    mesh.change_to(linked, ["a", "b", "c"], lambda: mesh.world.cut("b", ["a"]))
    mesh.run(500, load=True)
    for log, end in zip(logs, ends, strict=True):
        assert log.entries[end:]
        log.entries[end:] = [None] * len(log.entries[end:])
    if killed == "late":
        mesh.world.kill("a")
        mesh.world.start("a")
    mesh.world.cut("b", [])
    mesh.run(9_000, load=True)
    mesh.settle()
    mesh.assert_exact()


@pytest.mark.parametrize("is_down", [False, True])
def test_a_stop_ends_with_its_link(is_down: bool) -> None:
    """Also if the link was removed while the worker that knew of the stop was down. Spec: R6, K28."""
    mesh = ChangedMesh(topology(Z=multi_hop("ab", "bc")), seed=9)
    mesh.run(1_000, load=True)
    mesh.world.cut("b", ["a"])
    mesh.run(1_000, load=True)
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    logs = mesh.world.kafka[mesh.kafka_of("a")].topics[outbox].logs
    deleted = {TopicPartition(outbox, at): len(log.entries) for at, log in enumerate(logs)}
    mesh.world.kafka[mesh.kafka_of("a")].admin().delete_before(deleted)
    mesh.world.kill("b")
    mesh.world.cut("b", [])
    mesh.world.start("b")
    mesh.run(8_000)
    assert mesh.stops("b")
    if is_down:
        mesh.world.kill("b")
    mesh.number += 1
    mesh.say(Stage.SWITCH, topology(Z=multi_hop("bc")))
    mesh.topology = topology(Z=multi_hop("bc"))
    mesh.run(1_000)
    if is_down:
        mesh.world.start("b")
    mesh.await_done(Stage.SWITCH, load=False)
    mesh.run(2_000)
    assert not mesh.stops("b")


def test_a_hold_that_is_aborted_changes_nothing() -> None:
    """Spec: K28."""
    before, after = topology(Z=multi_hop("ab", "bc")), topology(Z=multi_hop("ac", "bc"))
    mesh = ChangedMesh(before, seed=8)
    mesh.run(1_000, load=True)
    mesh.number += 1
    mesh.say(Stage.HOLD, after, ["a"])
    mesh.await_done(Stage.HOLD)
    held_ms = mesh.world.clock.ms
    mesh.run(2_000, load=True)
    came = {record.value() for record in mesh.delivered("b")}
    late = [value for value, _, at_ms, _ in mesh.published["a"] if at_ms >= held_ms]
    assert late
    assert not came & set(late)
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(6_000)
    assert mesh.status("a") == (1, Stage.HOLD, True)
    assert not {record.value() for record in mesh.delivered("b")} & set(late)
    mesh.say(Stage.ABORT, after)
    mesh.await_done(Stage.ABORT)
    mesh.run(1_000, load=True)
    mesh.settle()
    mesh.assert_exact()


def test_what_a_node_kept_of_a_link_ends_with_its_topic_and_the_link_may_come_back() -> None:
    """Names of nodes come and go; positions of those that are gone are kept for nobody. K12."""
    before = topology(nodes="abc", Z=multi_hop("ab", "ac"))
    mesh = ChangedMesh(before, seed=1)
    mesh.run(2_000, load=True)
    mesh.change_to(topology(nodes="abc", Z=multi_hop("ab", "bc")), ["a", "b", "c"])
    mesh.run(2_000, load=True)
    mesh.settle()
    home = mesh.world.kafka[before.nodes["a"].kafka]
    assert b"mesh.a.to.c.g" in b" ".join(_keys(home, "mesh.a.progress"))
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(2_000, load=True)
    assert b"mesh.a.to.c.g" in b" ".join(_keys(home, "mesh.a.progress")), "it may come back"
    for letter in "gd":
        home.delete_topic(f"mesh.a.to.c.{letter}")
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(2_000, load=True)
    mesh.settle()
    assert b"mesh.a.to.c.g" not in b" ".join(_keys(home, "mesh.a.progress"))
    mesh.change_to(before, ["a", "b", "c"])
    mesh.run(2_000, load=True)
    mesh.settle()
    mesh.assert_exact()


def _keys(kafka: MemoryKafka, topic: str) -> list[bytes]:
    newest: dict[bytes, object] = {}
    for log in kafka.topics[topic].logs:
        for record in log.entries[: log.stable - log.start]:
            if record is not None:
                newest[record.key() or b""] = record.value()
    return [key for key, value in newest.items() if value is not None]
