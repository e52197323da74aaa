"""Nodes whose topology files differ: whatever the order, the same link of a loop is refused."""

from __future__ import annotations

import itertools
import random

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Change, Stage
from mesh.model.frames import MessageClass
from mesh.model.links import Gate
from mesh.model.topology import Topology
from mesh.transport.port import TopicSpec
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from tests.said import Said
from tests.sim.apart import (
    ApartMesh,
    file,
    held_by_both,
    multi_hop,
    one_hop,
    random_apart,
    with_lanes,
)


def ring(nodes: str) -> dict[str, Topology]:
    """Each node knows its own two links alone."""
    return {
        node: file(nodes, Z=multi_hop(nodes[i - 1] + node, node + nodes[(i + 1) % len(nodes)]))
        for i, node in enumerate(nodes)
    }


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("gap_ms", [0, 3_000])
def test_a_ring_that_nobodys_file_shows(order: tuple[str, ...], gap_ms: int) -> None:
    """Order of start does not matter; both ends show both walks. Spec: K26, K27, EMS-9."""
    mesh = ApartMesh(ring("abc"), seed=1)
    mesh.start(*order, gap_ms=gap_ms)
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    assert mesh.reason("b", "c") == (
        "refused: a would reach c by two walks: a -Z-> c and a -Z-> b -Z-> c; "
        "b-c (Z) is the newest link of it: remove it, or another"
    )
    mesh.assert_settled()


def join(source: str, target: str, **more: object) -> dict[str, object]:
    return {"kind": "join", "from": source, "to": target, **more}


LOOPS = {
    "square": (ring("abcd"), {frozenset("cd")}),
    "one-hop zone closed by another": (
        {
            "a": file("abc", Z=one_hop("ab", "ac")),
            "b": file("abc", Z=one_hop("ab"), Y=multi_hop("bc")),
            "c": file("abc", Z=one_hop("ac"), Y=multi_hop("bc")),
        },
        {frozenset("ac")},
    ),
    "the knowledge base's star": (
        {
            "a": file("abcd", Z=multi_hop("ab", "ac", "ad")),
            "b": file("abcd", Z=multi_hop("ab", "bd")),
            "c": file("abcd", Z=multi_hop("ab", "ac", "ad")),
            "d": file("abcd", Z=multi_hop("ad", "bd")),
        },
        {frozenset("bd")},
    ),
    "a ring of joins": (
        {
            "a": file("abc", J1=join("a", "b"), J3=join("c", "a")),
            "b": file("abc", J1=join("a", "b"), J2=join("b", "c")),
            "c": file("abc", J2=join("b", "c"), J3=join("c", "a")),
        },
        {frozenset("ac")},
    ),
    "a join beside a link": (
        {
            "a": file("abc", Z=multi_hop("ab"), J=join("a", "c")),
            "b": file("abc", Z=multi_hop("ab", "bc")),
            "c": file("abc", Z=multi_hop("bc"), J=join("a", "c")),
        },
        {frozenset("bc")},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_all_kinds(name: str) -> None:
    """Spec: K26, K27, EMS-7, EMS-9, UM-10."""
    files, wanted = LOOPS[name]
    mesh = ApartMesh(dict(files), seed=2)
    mesh.start(*mesh.rng.sample(sorted(files), len(files)), gap_ms=mesh.rng.choice([0, 2_000]))
    mesh.settle()
    assert mesh.refused() == wanted
    mesh.assert_settled()


def cities(**zones: object) -> Topology:
    names = ["tk1", "tk2", "tk3", "ny1", "ny2"]
    nodes = {name: {"kafka": name[:2]} for name in names}
    return topology_from_mapping({"kafka": {"tk": {}, "ny": {}}, "nodes": nodes, "zones": zones})


@pytest.mark.parametrize("seed", range(6))
def test_an_implicit_route_known_to_its_ends_alone(seed: int) -> None:
    """Figure 36 and TK3-NY1, of which only those two know; each file is legal. Spec: EMS-6, K27."""
    tokyo, world = one_hop("tk1-tk2", "tk1-tk3", "tk2-tk3"), multi_hop("tk1-ny1")
    files = dict.fromkeys(("tk1", "tk2", "ny2"), cities(TK=tokyo, NY=one_hop("ny1-ny2"), WO=world))
    files["tk3"] = cities(TK=one_hop("tk1-tk3", "tk2-tk3"), XX=one_hop("tk3-ny1"))
    files["ny1"] = cities(NY=one_hop("ny1-ny2"), WO=world, XX=one_hop("tk3-ny1"))
    mesh = ApartMesh(files, seed=seed)
    order = mesh.rng.sample(sorted(files), len(files))
    mesh.start(*order, gap_ms=mesh.rng.choice([0, 100, 3_000]))
    mesh.settle()
    assert mesh.refused() == {frozenset(("tk3", "ny1"))}
    mesh.assert_settled()


@pytest.mark.parametrize("seed", range(12))
def test_random_files_in_any_order(seed: int) -> None:
    """Messages flow all the time, and none comes twice. Spec: DESIGN 3, K26, K27."""
    rng = random.Random(seed)
    mesh = ApartMesh(random_apart(rng), seed=seed)
    for node in rng.sample(sorted(mesh.files), len(mesh.files)):
        mesh.start(node)
        mesh.run(rng.choice([0, 0, 50, 1_000]), load=True)
    mesh.settle()
    mesh.assert_settled()


@pytest.mark.parametrize("seed", range(5))
def test_nodes_die_and_come_back_while_links_are_judged(seed: int) -> None:
    """What was judged before is known again at the start. Spec: K16, K27."""
    rng = random.Random(seed)
    mesh = ApartMesh(random_apart(rng, nodes_max=6), seed=seed)
    mesh.start(*rng.sample(sorted(mesh.files), len(mesh.files)))
    for _ in range(6):
        mesh.restart(rng.choice(sorted(mesh.files)), after_ms=rng.choice([0, 200, 2_000]))
        mesh.run(rng.choice([0, 200, 3_000]), load=True)
    mesh.settle()
    mesh.assert_settled()


@pytest.mark.parametrize("seed", range(5))
def test_a_refused_link_comes_up_when_its_cause_is_gone(seed: int) -> None:
    """Another link of the loop is taken out at its two ends, one after the other. Spec: K27."""
    rng = random.Random(seed)
    mesh = ApartMesh(ring("abcd"[: rng.choice([3, 4])]), seed=seed)
    mesh.start(*rng.sample(sorted(mesh.files), len(mesh.files)))
    mesh.settle()
    [refused] = mesh.refused()
    a, b = rng.choice(
        [one.ends for one in held_by_both(mesh.files).links if frozenset(one.ends) != refused]
    )
    for node, other in ((a, b), (b, a)):
        rest = [one for one in mesh.files[node].links_of(node) if one.other(node) != other]
        pairs = ["".join(one.ends) for one in rest]
        mesh.restart(node, file("abcd", Z=multi_hop(*pairs)), after_ms=rng.choice([0, 1_000]))
        mesh.run(rng.choice([0, 2_000]), load=True)
    mesh.settle()
    assert not mesh.refused()
    mesh.assert_settled()


def test_a_refused_link_comes_up_after_a_change_of_a_mesh_that_lives(said: Said) -> None:
    """Each node follows what is in force in its own Kafka cluster. Spec: K27, K28."""
    mesh = ApartMesh(ring("abc"), seed=3)
    mesh.start("c", "a", "b")
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    refused = said.of("link.refused")
    assert {(one["log_level"], one["neighbour"]) for one in refused} >= {
        ("warning", "b"),
        ("warning", "c"),
    }
    assert all("by two walks" in one["text"] for one in refused)
    for node, left in (("a", "ac"), ("b", "bc")):
        mesh.files[node] = file("abc", Z=multi_hop(left))
        text = published_text(mesh.files[node])
        for stage in (Stage.SWITCH, Stage.RUN):
            change = Change(1, stage, text)
            mesh.write(node, mesh.names.config(), encode_change(change), change_key())
            mesh.run(3_000, load=True)
    mesh.settle()
    assert not mesh.refused()
    opened = said.of("link.open")
    assert {"log_level": "warning", "neighbour": "b"} in opened
    assert {"log_level": "warning", "neighbour": "c"} in opened
    mesh.assert_settled()


def test_the_link_that_was_created_last_loses_whatever_its_name() -> None:
    """A change with number 5 at both ends adds a-b, the first by its id. Spec: K27."""
    files = ring("abc")
    whole = {node: files[node] for node in "ab"}
    files["a"], files["b"] = file("abc", Z=multi_hop("ac")), file("abc", Z=multi_hop("bc"))
    mesh = ApartMesh(files, seed=4)
    mesh.start("a", "b", "c")
    mesh.settle()
    mesh.assert_settled()
    for node in "ab":
        mesh.files[node] = whole[node]
        for stage in (Stage.SWITCH, Stage.RUN):
            change = Change(5, stage, published_text(whole[node]))
            mesh.write(node, mesh.names.config(), encode_change(change), change_key())
        mesh.run(2_000, load=True)
    mesh.settle()
    assert mesh.refused() == {frozenset("ab")}
    assert not mesh.displaced
    mesh.assert_settled({frozenset("ab"): 5})
    for node in "abc":
        mesh.restart(node, after_ms=500)
    mesh.settle()
    mesh.assert_settled({frozenset("ab"): 5})


@pytest.mark.parametrize("seed", range(6))
def test_two_halves_of_a_loop_are_created_at_one_time(seed: int) -> None:
    """At most one survives, always the same; and nothing goes round meanwhile. Spec: EMS-15."""
    lines = {
        "a": file("abcd", Z=multi_hop("ab")),
        "b": file("abcd", Z=multi_hop("ab")),
        "c": file("abcd", Z=multi_hop("cd")),
        "d": file("abcd", Z=multi_hop("cd")),
    }
    mesh = ApartMesh(dict(lines), seed=seed)
    mesh.start(*mesh.rng.sample("abcd", 4))
    mesh.settle()
    halves = {"a": ("ab", "ac"), "c": ("cd", "ac"), "b": ("ab", "bd"), "d": ("cd", "bd")}
    for node in mesh.rng.sample("abcd", 4):
        mesh.files[node] = file("abcd", Z=multi_hop(*halves[node]))
        for stage in (Stage.SWITCH, Stage.RUN):
            change = Change(1, stage, published_text(mesh.files[node]))
            mesh.write(node, mesh.names.config(), encode_change(change), change_key())
        mesh.run(mesh.rng.choice([0, 0, 20, 200]), load=True)
    mesh.run(5_000, load=True)
    mesh.settle()
    assert mesh.refused() == {frozenset("bd")}
    assert not mesh.displaced
    mesh.assert_settled({frozenset("ac"): 1, frozenset("bd"): 1})


def test_a_node_is_who_it_says_whatever_its_kafka_cluster_is_called() -> None:
    """`b` is found under two aliases of one Kafka cluster, and is one node. Spec: EMS-16."""
    files = ring("abc")
    aliased = {
        "kafka": {"ka": {}, "alias": {}, "kc": {}},
        "nodes": {"a": {"kafka": "ka"}, "b": {"kafka": "alias"}, "c": {"kafka": "kc"}},
        "zones": {"Z": multi_hop("bc", "ac")},
    }
    files["c"] = topology_from_mapping(aliased)
    mesh = ApartMesh(files, seed=5)
    mesh.world.kafka["alias"] = mesh.world.kafka["kb"]
    mesh.start("c", "b", "a")
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    mesh.assert_settled()


def test_a_copy_of_a_control_topic_is_not_taken_for_the_node() -> None:
    """Somebody mirrored it to another Kafka cluster, and the file leads there. Spec: EMS-16."""
    spec = {
        "kafka": {"ka": {}, "kb": {}},
        "nodes": {"a": {"kafka": "ka"}, "b": {"kafka": "kb"}},
        "zones": {"Z": multi_hop("ab")},
    }
    wrong = {**spec, "kafka": {"ka": {}, "copy": {}}}
    wrong["nodes"] = {"a": {"kafka": "ka"}, "b": {"kafka": "copy"}}
    mesh = ApartMesh({"a": topology_from_mapping(wrong), "b": topology_from_mapping(spec)}, seed=6)
    mesh.world.add_kafka(mesh.files["b"])
    mesh.start("b", gap_ms=3_000)
    copy = mesh.world.kafka["copy"]
    topic = mesh.names.control("b")
    copy.admin().create([TopicSpec(name=topic, partitions=1)])
    writer = copy.writer("mirror")
    for record in mesh.read("kb", topic):
        writer.produce(topic, record.value(), record.key(), 0)
    assert writer.flush() == 0
    mesh.start("a", gap_ms=3_000)
    assert mesh.reason("a", "b").startswith("refused: the control topic of b is a copy: ")


def test_nodes_of_one_name_do_not_come_into_one_mesh() -> None:
    """A message of one would be taken for one that came back, at the other. Spec: EMS-16, K27."""

    def one_file(kafka: dict[str, str], *pairs: str) -> Topology:
        nodes = {node: {"kafka": of} for node, of in kafka.items()}
        spec = {"kafka": {of: {} for of in kafka.values()}, "zones": {"Z": multi_hop(*pairs)}}
        return topology_from_mapping({**spec, "nodes": nodes})

    here = {"a": "ka", "b": "kb"}
    there = {"a": "other", "c": "kc"}
    files = {
        "a": one_file(here, "ab"),
        "b": one_file({**here, "c": "kc"}, "ab", "bc"),
        "c": one_file({**there, "b": "kb"}, "ca", "bc"),
    }
    mesh = ApartMesh(files, seed=9)
    for one in files.values():
        mesh.world.add_kafka(one)
    mesh.start("a", "b", "c")
    mesh.world.apart["a"] = one_file(there, "ac")
    mesh.world.start("a", 1)  # the one of the other mesh
    mesh.run(20_000)
    assert mesh.reason("b", "c").startswith("refused: a(")
    assert "would be two nodes of one name in one mesh" in mesh.reason("c", "b")
    assert (mesh.reason("a", "b"), mesh.reason("c", "a")) == ("up: ", "up: ")


def test_a_node_with_another_kind_of_the_zone_does_not_touch_the_mesh() -> None:
    """One clear line at both ends of its link; the others go on. Spec: EMS-13, K27."""
    whole = file("abcd", Z=multi_hop("ab", "bc", "cd"))
    files = {**dict.fromkeys("abc", whole), "d": file("abcd", Z=one_hop("cd"))}
    mesh = ApartMesh(files, seed=8)
    mesh.start("a", "b", "c")
    mesh.settle()
    mesh.start("d")
    mesh.settle()
    assert mesh.refused() == {frozenset("cd")}
    assert mesh.reason("c", "d") == (
        "refused: its ends hold different links: c has multi-hop in zone Z, d has one-hop in zone "
        "Z; give both the same zone and kind"
    )
    for node in "abc":
        mesh.publish(node)
    mesh.run(3_000)
    for node in "abc":
        assert sorted(mesh.delivered(node)) == sorted(mesh.published)
    assert not mesh.delivered("d")


def test_parallel_routes_in_different_zones_are_refused() -> None:
    """Each end knows of one of them. Spec: EMS-9, K27."""
    files = {"a": file("ab", Z=multi_hop("ab")), "b": file("ab", Y=multi_hop("ab"))}
    mesh = ApartMesh(files, seed=9)
    mesh.start("b", "a")
    mesh.settle()
    assert mesh.refused() == {frozenset("ab")}


def test_a_link_of_which_the_other_end_knows_nothing_is_refused() -> None:
    """Nothing is queued for it, and it comes up when the other end has it too. Spec: K27."""
    files = {
        "a": file("abc", Z=multi_hop("ab", "ac")),
        "b": file("abc", Z=multi_hop("ab", "ac")),
        "c": file("abc", Z=multi_hop("bc")),
    }
    mesh = ApartMesh(files, seed=10)
    mesh.start("a", "b", "c")
    mesh.run(5_000)
    assert mesh.reason("a", "c").startswith("refused: c holds no link to a: ")
    mesh.publish("b")
    mesh.run(2_000)
    assert not mesh.read("ka", mesh.names.outbox("a", "c", MessageClass.GUARANTEED))
    mesh.restart("c", file("abc", Z=multi_hop("ac")))
    mesh.settle()
    mesh.assert_settled()


def test_nodes_of_one_file_tell_nobody_of_others() -> None:
    """As long as all work by one topology, nothing is judged, awaited or handed on. Spec: K27."""
    mesh = ApartMesh(dict.fromkeys("abcd", file("abcd", Z=multi_hop("ab", "bc", "cd"))), seed=11)
    mesh.start(*"abcd")
    mesh.settle()
    mesh.assert_settled()
    for node in "abcd":
        keys = {record.key() for record in mesh.read(f"k{node}", mesh.names.control(node))}
        assert sum(key.startswith(b"links ") for key in keys if key) == 1


def test_no_half_opens_before_the_other_side_has_heard_of_it() -> None:
    """Both halves are created while the lines between them are cut. Spec: EMS-15, K27."""
    mesh = ApartMesh(ring("abcd"), seed=12)
    for node, left in {"a": "ab", "b": "ab", "c": "cd", "d": "cd"}.items():
        mesh.files[node] = file("abcd", Z=multi_hop(left))
    mesh.start(*"abcd")
    mesh.settle()
    for node, other in itertools.chain(("ab", "ba"), ("cd", "dc")):
        mesh.world.cut(node, [other])
    for node, pairs in {"a": "ab ad", "b": "ab bc", "c": "cd bc", "d": "cd ad"}.items():
        mesh.files[node] = file("abcd", Z=multi_hop(*pairs.split()))
        for stage in (Stage.SWITCH, Stage.RUN):
            change = Change(1, stage, published_text(mesh.files[node]))
            mesh.write(node, mesh.names.config(), encode_change(change), change_key())
            mesh.run(500)
    mesh.run(5_000, load=True)
    assert {mesh.gate(*pair) for pair in ("ad", "da", "bc", "cb")} == {Gate.PROBING}
    assert mesh.reason("a", "d") == ("probing: waits until the links of all nodes are seen by b, c")
    for node in "abcd":
        mesh.world.cut(node, [])
    mesh.run(2_000, load=True)
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    assert not mesh.displaced
    mesh.assert_settled({frozenset("ad"): 1, frozenset("bc"): 1})


@pytest.mark.parametrize("seed", range(4))
def test_all_workers_of_a_node_go_by_what_its_leader_judges(seed: int) -> None:
    """Leaders die, and another worker goes on with what was said. Spec: K16, K25, K27."""
    rng = random.Random(seed)
    files = {node: with_lanes(one, 2) for node, one in ring("abc").items()}
    mesh = ApartMesh(files, seed=seed)
    for node in rng.sample("abc", 3):
        mesh.start(node)
        mesh.world.start(node, 1)
        mesh.run(rng.choice([0, 1_000]), load=True)
    for _ in range(4):
        node = rng.choice("abc")
        mesh.world.kill(node, 0)
        mesh.run(rng.choice([0, 7_000]), load=True)
        mesh.world.start(node, 0)
        mesh.run(rng.choice([0, 3_000]), load=True)
    mesh.settle()
    for node in "bc":
        machines = [mesh.world.workers[name].machine for name in (node, f"{node}#1")]
        assert [one.learner.shut for one in machines if one is not None] == [
            {"c" if node == "b" else "b"}
        ] * 2
    mesh.assert_settled()
