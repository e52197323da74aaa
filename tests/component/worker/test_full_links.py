"""Full links let go again: what a neighbour has read is told apart from what may be deleted."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.wire.keys import subscription_key
from mesh.worker.process.errands import SteppedErrands
from tests.said import Said

NAMES = TopicNames()


CHAIN = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}}
RING = {"Z": {"kind": "one-hop", "nodes": ["a", "b", "c"]}}
RING_OF_CLUSTERS = {
    **{zone: {"kind": "cluster", "nodes": list(zone.lower())} for zone in ("AB", "CD", "EF")},
    **{zone: {"kind": "external", "links": [list(zone.lower())]} for zone in ("BC", "DE", "FA")},
}


class Limited:
    """Nodes on one Kafka cluster whose links or endpoints have limits."""

    def __init__(self, zones: dict, limits: list[dict], nodes: str = "abc") -> None:
        spec = {"kafka": {"k": {}}, "nodes": {one: {} for one in nodes}}
        self.world = World(topology_from_mapping({**spec, "limits": limits, "zones": zones}), 1)
        for node in nodes:
            self.world.start(node)

    def run(self, ms: int) -> None:
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 2 * ms)

    def write(
        self, topic: str, value: bytes, key: bytes | None, partition: int, headers=()
    ) -> None:
        writer = self.world.kafka["k"].writer("client")
        writer.produce(topic, value, key, partition, headers=headers)
        assert writer.flush() == 0

    def subscribe(self, node: str, endpoint: str) -> None:
        self.write(NAMES.clients(node), b"{}", subscription_key(endpoint, ">"), 0)

    def publish(self, node: str, number: int, size: int) -> None:
        headers = [(SUBJECT_HEADER, b"t")]
        topic = NAMES.ingress(node, MessageClass.GUARANTEED)
        self.write(topic, b"%d" % number + b"." * size, None, number % 4, headers)

    def delivered(self, node: str, endpoint: str) -> int:
        topic, reader = NAMES.endpoint(node, endpoint), self.world.kafka["k"].reader("test")
        reader.assign({TopicPartition(topic, number): BEGINNING for number in range(4)})
        return len(reader.read(0, 10_000))


@pytest.mark.parametrize(
    ("zones", "nodes", "links"),
    [(RING, "abc", ("ab", "bc", "ac")), (RING_OF_CLUSTERS, "abcdef", ("ab", "bc", "cd", "de", "ef", "af"))],
    ids=["nodes", "clusters"],
)  # fmt: skip
def test_links_in_a_ring_that_were_full_all_round_flow_again(
    said: Said, zones: dict, nodes: str, links: tuple[str, ...]
) -> None:
    """Each holds for the next, and none needs another to be relieved first. Spec: K5, K20, R14."""
    limits = [{"link": list(ends), "outboxBytes": 3000, "whenFull": "stop"} for ends in links]
    mesh = Limited(zones, limits, nodes)
    for node in nodes:
        mesh.subscribe(node, "e")
    mesh.run(4_000)
    for node in nodes:
        mesh.publish(node, 0, 400)
    mesh.run(4_000)
    reached = [mesh.delivered(node, "e") for node in nodes]
    for node in nodes:
        mesh.world.workers[node].isolate([other for other in nodes if other != node])
    for number in range(1, 30):
        for node in nodes:
            mesh.publish(node, number, 400)
        mesh.run(100)
    for node in nodes:
        assert len(mesh.world.workers[node].lanes.owned[0].held_targets) == 2
        mesh.world.workers[node].isolate([])
    mesh.run(60_000)
    full, relieved = said.of("outbox.full"), said.of("outbox.relieved")
    assert {one["neighbour"] for one in full} == set(nodes)
    assert {(one["log_level"], one["lane"]) for one in full} == {("warning", 0)}
    assert all(one["bytes"] > 3000 or one["age_ms"] > 0 for one in full)
    assert {one["neighbour"] for one in relieved} == set(nodes)
    assert min(reached) >= 3
    assert [mesh.delivered(node, "e") for node in nodes] == [30 * count for count in reached]


def test_a_slow_endpoint_behind_a_limited_link_waits_alone() -> None:
    """What the reader keeps for it alone does not count as waiting on the link. Spec: K20, R14."""
    limits = [
        {"link": ["a", "b"], "outboxBytes": 5000, "whenFull": "stop"},
        {"endpoint": "slow", "node": "b", "bytes": 3000},
    ]
    mesh = Limited(CHAIN, limits)
    for node, endpoint in (("b", "slow"), ("b", "fast"), ("c", "far")):
        mesh.subscribe(node, endpoint)
    mesh.run(5_000)
    for number in range(120):
        mesh.publish("a", number, 200)
        mesh.run(100)
    mesh.run(20_000)
    assert (mesh.delivered("b", "fast"), mesh.delivered("c", "far")) == (120, 120)
    assert mesh.delivered("b", "slow") < 60


@pytest.mark.parametrize("when_full", ["stop", "reject"])
def test_a_neighbour_that_starts_fills_no_link(when_full: str) -> None:
    """Its leader speaks before it knows what it has read: all was taken as waiting. K24, R14."""
    limits = [{"link": ["a", "b"], "outboxBytes": 5000, "whenFull": when_full}]
    mesh = Limited(CHAIN, limits)
    mesh.world.errands = lambda: SteppedErrands(rest=lambda: 5)  # a start takes some turns
    mesh.subscribe("b", "e")
    mesh.run(4_000)
    for number in range(60):
        mesh.publish("a", number, 200)
        mesh.run(100)
    mesh.run(2_000)
    assert mesh.delivered("b", "e") == 60
    mesh.world.stop("b")
    mesh.run(1_000)
    mesh.world.start("b")
    backlogs = mesh.world.workers["a"].background.backlogs
    for _ in range(100):
        mesh.run(50)
        assert backlogs.full == {}
    assert mesh.world.workers["b"].is_ready


def test_nothing_is_read_yet_of_an_outbox_that_was_recreated() -> None:
    """Its reader stands still at the loss; how far it had come in the former one says nothing."""
    limits = [{"link": ["a", "b"], "outboxBytes": 5000, "whenFull": "stop"}]
    mesh = Limited(CHAIN, limits)
    mesh.subscribe("b", "e")
    mesh.run(4_000)
    for number in range(60):
        mesh.publish("a", number, 200)
        mesh.run(100)
    mesh.run(2_000)
    backlogs = mesh.world.workers["a"].background.backlogs
    assert (mesh.delivered("b", "e"), backlogs.full) == (60, {})
    mesh.world.kafka["k"].recreate(NAMES.outbox("a", "b", MessageClass.GUARANTEED))
    for number in range(60, 100):
        mesh.publish("a", number, 200)
        mesh.run(100)
    mesh.run(1_000)
    assert list(backlogs.full) == [(0, "b")]
    assert mesh.world.workers["a"].lanes.owned[0].held_targets
