"""Canaries on a simulated mesh: asked for, sent, carried and timed as any client's messages are."""

from __future__ import annotations

import json
import threading

from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.view.mesh_view import MeshView
from streaming.audits.canaries import EVERY_S, Canaries, CanaryWay, ways_of
from streaming.job.canaries import LEASE_S, RENEW_S, Flock, Side
from tests.component.in_memory_mesh import Mesh


def sides(mesh: Mesh, canaries: Canaries) -> list[Side]:
    """Return the auditor's hands at every Kafka cluster, by the mesh's own clock."""
    lock = threading.Lock()
    return [
        Side(name, kafka, canaries, lock, clock=lambda: mesh.now_ms() / 1000)
        for name, kafka in mesh.world.kafka.items()
    ]


def live(mesh: Mesh, hands: list[Side], seconds: float) -> None:
    until_ms = mesh.now_ms() + seconds * 1000
    while mesh.now_ms() < until_ms:
        for side in hands:
            side.step(mesh.topology)
        mesh.pause(0.02)


def test_each_way_is_timed_by_a_message_that_goes_it(mesh: Mesh) -> None:
    """Over two Kafka clusters; nothing of it is certified, for it is direct."""
    canaries = Canaries("r1")
    canaries.follow(ways_of(mesh.topology), mesh.now_ms() / 1000)
    hands = sides(mesh, canaries)
    live(mesh, hands, 2 * EVERY_S + 5)
    told = canaries.take_changed()
    assert [str(way) for way, _, _ in told] == ["a->b", "b->a", "b->c", "c->b"]
    for _, zones, tally in told:
        assert (zones, tally.sent, tally.arrived, tally.lost) == (("Z",), 2, 2, 0)
        assert all(0 < seconds < 1 for seconds in tally.recent_s)
    asked = MeshView(mesh.topology, mesh.world.kafka, mesh.now_ms)
    asked.refresh()
    subscription = Subscription(message_class=MessageClass.DIRECT, lease_s=LEASE_S)
    assert asked.nodes["c"].subscriptions["audit-canary", "audit-canary/*/c"] == subscription


def test_a_lease_ends_what_an_auditor_that_has_gone_had_asked_for(mesh: Mesh) -> None:
    """While it runs it renews it."""
    canaries = Canaries("r1")
    canaries.follow(ways_of(mesh.topology), mesh.now_ms() / 1000)
    live(mesh, sides(mesh, canaries), LEASE_S + RENEW_S)
    view = MeshView(mesh.topology, mesh.world.kafka, mesh.now_ms)
    view.refresh()
    assert view.nodes["c"].subscriptions
    mesh.pause(LEASE_S + 10)
    view.refresh()
    assert not view.nodes["c"].subscriptions


def test_what_others_publish_there_ends_nothing(mesh: Mesh) -> None:
    canaries = Canaries("r1")
    canaries.follow({CanaryWay("a", "c"): ()}, mesh.now_ms() / 1000)
    hands = sides(mesh, canaries)
    live(mesh, hands, 3)
    for payload in (b"", b"[]", b'{"run": 5}', b"\xff", b'{"run": "r1", "number": "x"}'):
        mesh.publish("a", "audit-canary/a/c", payload)
    mesh.publish("a", "audit-canary/x/c", b'{"run": "r1", "number": 1}')
    live(mesh, hands, EVERY_S)
    ((_, _, tally),) = canaries.take_changed()
    assert (tally.sent, tally.arrived) == (1, 1)


def test_none_fly_before_a_topology_wants_some(mesh: Mesh) -> None:
    flock = Flock(Canaries("r1"), {}, threading.Event(), print)
    assert flock.outputs() == ()
    flock.follow(mesh.topology)
    assert (flock.canaries.ways, list(flock.outputs())) == ({}, [])


def test_what_is_news_is_written_under_the_way(mesh: Mesh) -> None:
    canaries, way = Canaries("r1"), CanaryWay("a", "b")
    flock = Flock(canaries, {}, threading.Event(), print)
    flock.follow(mesh.topology)
    canaries.follow({way: ("Z",)}, 0.0)
    assert list(canaries.go(["a"], EVERY_S)) == [(way, 1)]
    canaries.come(way, "r1", 1, EVERY_S + 0.25)
    (output,) = flock.outputs()
    said = json.loads(output.value or "")
    assert (output.topic, output.key) == ("mesh.audit.canaries", "a->b")
    assert (said["for"], said["latency_ms"], said["lost"]) == (["Z"], 250.0, 0)
