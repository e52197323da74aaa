"""On real Kafka: what cannot be read or written stops alone, is told, and goes on when it may."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from mesh.client import MeshClient, connect
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.operate.links.stops import StoppedSource, accept, stops_on_link, wait_resumed
from mesh.operate.messages.dead_letters import Letter, read_letters
from mesh.transport.kafka import RealKafka
from mesh.transport.node_topics import node_topics
from mesh.transport.port import TopicPartition
from mesh.view.mesh_view import MeshView, RunningMesh
from mesh.worker.process.clock import MonotonicClock
from tests.conftest import ClustersOf
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

CLOCK = MonotonicClock()
SMALL = 20_000


@dataclass(slots=True)
class Pair:
    """Nodes a and b on a Kafka cluster each, and an endpoint `b/e` for everything."""

    fleet: Fleet
    names: TopicNames
    kafka: dict[str, RealKafka]
    view: MeshView
    clients: dict[str, MeshClient]

    @property
    def seen(self) -> RunningMesh:
        topology = self.fleet.topology
        return RunningMesh(topology=topology, kafka=self.kafka, view=self.view, beats={})

    def publish(self, *payloads: str) -> None:
        for payload in payloads:
            self.clients["a"].publish("x", payload.encode(), key=b"k")
        self.clients["a"].flush()

    def received(self, wanted: int, endpoint: str = "e") -> list[str]:
        """Return the payloads at an endpoint of b from its beginning, as soon as so many are there."""
        stream = self.clients["b"].deliveries(endpoint)
        found: list[str] = []

        def all_there() -> bool:
            found.extend((message.payload or b"").decode() for message in stream.read(0.5))
            return len(found) >= wanted

        wait_until(f"{wanted} messages", all_there, so_far=lambda: found)
        return found

    def letters(self, wanted: int) -> list[Letter]:
        """Return the dead letters of b, as soon as there are so many."""
        found: list[Letter] = []

        def all_there() -> bool:
            found[:] = read_letters(self.fleet.topology, self.kafka["far"], "b", 1_000)
            return len(found) >= wanted

        wait_until(f"{wanted} dead letters", all_there, pace_s=0.5, so_far=lambda: found)
        return found

    def stopped(self) -> list[StoppedSource]:
        found: list[StoppedSource] = []

        def is_stopped() -> bool:
            self.view.refresh()
            found[:] = stops_on_link(self.seen, "a", "b")
            return bool(found)

        wait_until("a source has stopped", is_stopped)
        return found

    def resume(self) -> None:
        found = self.stopped()
        accept(self.seen, found)
        assert not wait_resumed(self.seen, found, PATIENCE_S)


@pytest.fixture
def pair(kafka_clusters: ClustersOf, tmp_path: Path) -> Iterator[Pair]:
    near, far = kafka_clusters(2)
    prefix = f"t{uuid.uuid4().hex[:8]}."
    topology = topology_from_mapping(
        {
            "prefix": prefix,
            "kafka": {
                "near": {"bootstrap.servers": near},
                "far": {"bootstrap.servers": far},
            },
            "nodes": {"a": {"kafka": "near"}, "b": {"kafka": "far"}},
            "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
            "limits": [{"endpoint": "small", "bytes": SMALL, "whenFull": "dead-letter"}],
            "quarantineAfter": 2,
        }
    )
    write_topology(topology, tmp_path / "mesh.yaml")
    fleet = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path)
    kafka: dict[str, RealKafka] = {name: fleet.kafka(name) for name in topology.kafka}
    view = MeshView(topology, kafka, CLOCK.now_ms)
    clients = {node: connect(topology, node) for node in topology.nodes}
    try:
        for node in topology.nodes:
            fleet.start_node(node)
        clients["b"].wait(clients["b"].subscribe("e", ">"), PATIENCE_S)
        yield Pair(fleet, TopicNames(prefix), kafka, view, clients)
    finally:
        for client in clients.values():
            client.close()
        view.close()
        for cluster in kafka.values():
            cluster.close()
        fleet.stop()


def test_a_deleted_stretch_of_an_outbox_stops_the_link_and_comes_again(pair: Pair) -> None:
    """The exact range is told; once accepted, the sender sends it again. Spec: R6, K11, K20."""
    pair.publish("1", "2")
    assert pair.received(2) == ["1", "2"]
    pair.fleet.kill_node("b")
    outbox = pair.names.outbox("a", "b", MessageClass.GUARANTEED)
    admin = pair.kafka["near"].admin()
    places = [TopicPartition(outbox, partition) for partition in range(4)]
    reader = pair.kafka["near"].reader("outbox")
    reader.assign(admin.ends(places))
    pair.publish("3")
    wait_until("it is in the outbox", lambda: reader.read(0.2, 10))
    reader.close()
    ends = admin.ends(places)
    admin.delete_before({at: end for at, end in ends.items() if end})
    pair.fleet.start_node("b")
    [stopped] = pair.stopped()
    assert (stopped.node, stopped.stop.topic, stopped.stop.reason) == ("b", outbox, "retention")
    assert stopped.stop.next == ends[TopicPartition(outbox, stopped.stop.partition)]
    pair.resume()
    pair.publish("4")
    assert pair.received(4) == ["1", "2", "3", "4"]


def test_an_outbox_recreated_under_way_loses_nothing(pair: Pair) -> None:
    """The reader notices by the topic id, the chain brings what is missing. Spec: R6, K-2, K20."""
    pair.publish("1", "2")
    assert pair.received(2) == ["1", "2"]
    outbox = pair.names.outbox("a", "b", MessageClass.GUARANTEED)
    servers = pair.fleet.topology.kafka["near"].options["bootstrap.servers"]
    remover = AdminClient({"bootstrap.servers": servers})
    remover.delete_topics([outbox])[outbox].result(PATIENCE_S)
    pair.publish("3")
    assert pair.stopped()[0].stop.reason == "recreated"
    pair.resume()
    pair.publish("4")
    assert pair.received(4) == ["1", "2", "3", "4"]


def test_a_node_whose_progress_was_deleted_waits_for_a_person(pair: Pair) -> None:
    """Nothing recreates it, a restart neither: it would deliver what the ingress keeps again."""
    pair.publish("1", "2")
    assert pair.received(2) == ["1", "2"]
    progress, admin = pair.names.progress("b"), pair.kafka["far"].admin()
    [made] = [one for one in node_topics(pair.fleet.topology, "b") if one.name == progress]
    servers = pair.fleet.topology.kafka["far"].options["bootstrap.servers"]
    remover = AdminClient({"bootstrap.servers": servers})
    remover.delete_topics([progress])[progress].result(PATIENCE_S)

    def is_told() -> bool:
        pair.view.refresh()
        stop = pair.view.nodes["b"].stops.get(TopicPartition(progress, 0))
        return stop is not None and stop.reason == "unreadable"

    wait_until("b tells of it", lambda: is_told() or pair.publish("3"), pace_s=0.5)
    assert not admin.describe([progress])
    assert set(pair.received(2)) == {"1", "2"}
    admin.create([made])
    assert "3" in pair.received(3)


def test_an_endpoint_that_refuses_is_held_and_the_other_goes_on(pair: Pair) -> None:
    """What a topic does not take holds up nobody else, and comes in order later. Spec: K20."""
    client = pair.clients["b"]
    client.wait(client.subscribe("f", ">"), PATIENCE_S)
    pair.publish("1")
    assert (pair.received(1), pair.received(1, "f")) == (["1"], ["1"])
    admin = pair.kafka["far"].admin()
    endpoint = pair.names.endpoint("b", "e")
    admin.change(endpoint, {"max.message.bytes": "100"})
    pair.publish("2", "3")
    assert pair.received(3, "f") == ["1", "2", "3"]
    assert pair.received(1) == ["1"]
    admin.change(endpoint, {"max.message.bytes": "1000000"})
    pair.publish("4")
    assert pair.received(4, "f") == ["1", "2", "3", "4"]
    assert pair.received(4) == ["1", "2", "3", "4"]


def test_a_record_that_an_endpoint_never_takes_is_put_aside(pair: Pair) -> None:
    """The rest comes in order; what is lost is announced in its place. Spec: R12, K20."""
    pair.publish("1")
    assert pair.received(1) == ["1"]
    endpoint = pair.names.endpoint("b", "e")
    pair.kafka["far"].admin().change(endpoint, {"max.message.bytes": "1500"})
    big = "x" * 1_500
    pair.publish("2", big, "3", "4")
    assert pair.received(4) == ["1", "2", "3", "4"]
    [letter] = pair.letters(1)
    assert letter.header is not None
    assert (letter.header.reason, letter.header.target) == ("QUARANTINED", endpoint)
    assert letter.header.value_size == len(big)
    stream = pair.clients["b"].deliveries("e")
    seen: list[str] = []
    while len(seen) < 4:
        seen += [(message.payload or b"").decode() for message in stream.read(0.5)]
    [loss] = stream.losses
    assert letter.header.identity == (
        f"{loss.topic_id}/{loss.partition}/{loss.generation}/{loss.first}"
    )


def test_the_oldest_of_an_endpoint_that_is_full_become_dead_letters(pair: Pair) -> None:
    """Nothing is in both, nothing in neither, and the loss is announced. Spec: R14."""
    client = pair.clients["b"]
    client.wait(client.subscribe("small", ">"), PATIENCE_S)
    sent = [f"{number:03d}" + "x" * 997 for number in range(60)]
    for payload in sent:
        pair.publish(payload)
    given_up = [letter for letter in pair.letters(len(sent) // 2) if letter.header is not None]
    assert {letter.header.reason for letter in given_up if letter.header} == {"ENDPOINT_FULL"}
    kept = pair.received(len(sent) - len(given_up), "small")
    assert kept == sent[len(given_up) :]
    assert pair.received(len(sent)) == sent


def test_control_topics_deleted_under_way_are_made_and_read_again(pair: Pair) -> None:
    """Of the node that wants something: what it offers from then on is known, and waited for.

    Spec: K16, K23, K24.
    """
    pair.publish("1")
    assert pair.received(1) == ["1"]
    servers = pair.fleet.topology.kafka["far"].options["bootstrap.servers"]
    remover = AdminClient({"bootstrap.servers": servers})
    gone = [
        pair.names.control("b"),
        pair.names.clients("b"),
        pair.names.to_control("b", "a"),
    ]
    before = pair.kafka["far"].admin().describe(gone)
    for deleting in remover.delete_topics(gone).values():
        deleting.result(PATIENCE_S)

    def are_new() -> bool:
        found = pair.kafka["far"].admin().describe(gone)
        return len(found) == len(gone) and all(
            found[one].topic_id != before[one].topic_id for one in gone
        )

    wait_until("they are made again", are_new, pace_s=0.2)
    with connect(pair.fleet.topology, "b") as client:  # as an application that starts now
        assert not client.wait(client.subscribe("f", ">"), PATIENCE_S)
    pair.publish("2")
    assert pair.received(1, "f") == ["2"]
