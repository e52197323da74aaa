"""A mesh that is watched: who is up, what crosses its links, and what is on record of the past."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.model.state import DeliveredCount, Ledger, NotForwarded, SentCount
from mesh.model.topology import Topology
from mesh.operate.minutes import MINUTE_MS
from mesh.operate.watch import ASK_MS, Watch
from mesh.wire.state import encode_ledger
from tests.component.in_memory_mesh import CHAIN, Mesh, put_in_force


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    """The chain a-b-c; c wants everything."""
    made = Mesh(topology_from_mapping(CHAIN))
    made.subscribe("c", "all", ">")
    yield made
    made.close()


def _watch(mesh: Mesh) -> Watch:
    watch = Watch(
        mesh.topology,
        lambda _topology, names: {name: mesh.world.kafka[name] for name in names},
        mesh.now_ms,
        mesh.now_ms,
    )
    watch.begin(mesh.pause)
    return watch


def _live(mesh: Mesh, watch: Watch, seconds: int) -> None:
    for _ in range(seconds):
        mesh.pause(1)
        watch.look()


def test_watch_counts_what_crosses_links_and_reaches_endpoints(mesh: Mesh) -> None:
    """Rates of the moment and counts of the minute, from ledgers alone."""
    watch = _watch(mesh)
    for _ in range(10):
        mesh.publish("a", "x/y")
    _live(mesh, watch, 2)
    assert watch.traffic.links["a", "b"].rates[0] > 0
    assert watch.traffic.links["a", "b"].rates == watch.traffic.links["b", "c"].rates
    assert ("b", "a") not in watch.traffic.links
    minutes = watch.traffic.delivered["c", "all"].guaranteed
    now = mesh.now_ms() // MINUTE_MS
    assert sum(minutes.between(now - 2, now)) == 10
    _live(mesh, watch, 10)
    assert watch.traffic.links["a", "b"].rates == (0.0, 0.0)


@pytest.mark.parametrize("messages", [-5, 2**62])
def test_an_account_that_no_lane_can_have_written_counts_for_nothing(
    mesh: Mesh, messages: int
) -> None:
    """It ended looks, and `mesh top`: what was to be told in them was never told."""
    guaranteed = MessageClass.GUARANTEED
    forged = Ledger(
        node="a",
        lane=0,
        lane_epoch=1,
        sent=(SentCount("b", guaranteed, messages, 1),),
        delivered=(DeliveredCount("e", guaranteed, messages),),
        not_forwarded=(NotForwarded("b", "no_interest", guaranteed, messages),),
    )
    watch = _watch(mesh)
    writer = mesh.world.kafka["left"].writer("stranger")
    for _ in range(5):
        writer.produce("mesh.a.ledger", encode_ledger(forged), None, 0)
    writer.flush()
    mesh.publish("a", "x/y")
    _live(mesh, watch, 3)
    now = mesh.now_ms() // MINUTE_MS
    assert sum(watch.traffic.links["a", "b"].guaranteed.between(now - 2, now)) == 1
    assert watch.traffic.not_forwarded.get(("a", "b")) is None


def test_watch_fills_in_what_was_before_it(mesh: Mesh) -> None:
    """Who comes later sees the same counts, and no rate that is over."""
    for _ in range(7):
        mesh.publish("a", "x/y")
    mesh.pause(3)
    watch = _watch(mesh)
    _live(mesh, watch, 3)
    now = mesh.now_ms() // MINUTE_MS
    assert watch.traffic.is_whole
    link = watch.traffic.links["a", "b"]
    assert sum(link.guaranteed.between(now - 2, now)) == 7
    assert link.rates == (0.0, 0.0)
    assert (link.total, link.read, watch.traffic.in_flight) == (7, 7, 0)
    assert 1 <= link.frames <= 7


def test_watch_tells_who_is_up_and_who_died(mesh: Mesh) -> None:
    """A node is down once it has not beaten for five seconds, and up with its first beat."""
    watch = _watch(mesh)
    _live(mesh, watch, 2)
    assert watch.seen.beats == {"a": True, "b": True, "c": True}
    mesh.world.kill("b")
    _live(mesh, watch, 8)
    assert watch.seen.beats == {"a": True, "b": False, "c": True}
    mesh.world.start("b")
    _live(mesh, watch, 8)
    assert watch.seen.beats["b"]


def test_a_watch_that_begins_later_takes_no_old_beat_for_life(mesh: Mesh) -> None:
    """The last heartbeat of a dead node stays in its topic for ever."""
    mesh.pause(2)
    mesh.world.kill("b")
    mesh.pause(30)
    watch = _watch(mesh)
    assert watch.seen.beats == {"a": True, "b": False, "c": True}


def test_what_was_seen_does_not_change_any_more(mesh: Mesh) -> None:
    """Threads answer from a look while the next one is under way."""
    watch = _watch(mesh)
    before = watch.seen
    assert list(before.view.nodes["a"].subscriptions) == []
    mesh.subscribe("a", "late", "l/>")
    _live(mesh, watch, 2)
    assert list(before.view.nodes["a"].subscriptions) == []
    assert list(watch.seen.view.nodes["a"].subscriptions) == [("late", "l/>")]


def _with_a_node_more() -> Topology:
    nodes = {**CHAIN["nodes"], "d": {"kafka": "left"}}  # type: ignore[dict-item]
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["a", "d"]]}}
    return topology_from_mapping({**CHAIN, "nodes": nodes, "zones": zones})


def test_watch_follows_a_change_of_the_topology(mesh: Mesh) -> None:
    """What is put in force is seen without starting again."""
    watch = _watch(mesh)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    put_in_force(2, _with_a_node_more(), mesh.world.kafka)
    _live(mesh, watch, 2 + ASK_MS // 1000)
    assert watch.seen.in_force.number == 2
    assert list(watch.seen.topology.nodes) == ["a", "b", "c", "d"]
    assert watch.seen.beats["d"] is False
