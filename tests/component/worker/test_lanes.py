"""Lanes: where they write, when they commit, and what a failed transaction leaves behind."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.lane import following
from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.model.record_headers import MESH_HEADER
from mesh.transport.port import TopicPartition
from mesh.wire.deliveries import decode_delivery
from mesh.wire.keys import subscription_key
from mesh.wire.state import decode_fact, decode_ledger
from mesh.worker.lanes.pace import BATCH_RECORDS
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

TWO = {
    "kafka": {"k1": {}, "k2": {}},
    "nodes": {
        "a": {"kafka": "k1", "lanes": 1, "partitions": 4},
        "b": {"kafka": "k2", "lanes": 1, "partitions": 3},
    },
    "zones": {"Z": {"kind": "one-hop", "links": [["a", "b"]]}},
}


def test_a_node_writes_only_to_its_own_kafka_cluster_and_keeps_partitions() -> None:
    """Partition i of a source goes to partition i mod P of the target. Spec: K1, K3, R1."""
    world = World(topology_from_mapping(TWO), seed=1)
    for node in "ab":
        world.start(node)
    writer = world.kafka["k2"].writer("client")
    writer.produce("mesh.b.clients", b"{}", subscription_key("s", ">"), 0)
    end = world.clock.ms + 4000
    world.run_until(lambda: world.clock.ms >= end, 8000)
    publisher = world.kafka["k1"].writer("client")
    for partition in range(4):
        publisher.produce("mesh.a.in.g", b"v", None, partition, headers=[subject("x")])
    end = world.clock.ms + 4000
    world.run_until(lambda: world.clock.ms >= end, 8000)
    for kafka, node in (("k1", "a"), ("k2", "b")):
        owners = {name.split(".")[1] for name in world.kafka[kafka].topics}
        assert owners == {node, "config"}  # operators write the latter
    sent = [log.end > 0 for log in world.kafka["k1"].topics["mesh.a.to.b.g"].logs]
    assert sent == [True] * 4
    delivered = world.kafka["k2"].topics["mesh.b.ep.s"].logs
    counts = [sum(entry is not None for entry in log.entries) for log in delivered]
    assert counts == [2, 1, 1]


def test_records_that_a_reader_hands_out_twice_are_routed_once(said: Said, mesh: SmallMesh) -> None:
    """No reader should, and if one does it is told. Spec: K18."""
    at = TopicPartition("mesh.a.in.g", 0)
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
    mesh.run()
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    records = [one for one in mesh.read(at.topic) if one.partition() == at.partition]
    list(lanes.route({at: records}, mesh.world.clock.ms))
    mesh.run()
    assert [one.value() for one in mesh.delivered()] == [b"1", b"2", b"3"]
    [told] = said.of("source.rewound")
    place = {"topic": at.topic, "partition": at.partition}
    assert told == {"log_level": "error", **place}


def test_a_message_is_known_by_where_it_was_published(mesh: SmallMesh) -> None:
    """Topic id, partition, generation, offset of its ingress. Spec: K9."""
    mesh.publish(b"1", [subject("x")])
    mesh.publish(b"2", [subject("x")])
    mesh.run()
    told = [decode_delivery(dict(record.headers())[MESH_HEADER]) for record in mesh.delivered()]
    topic_id = mesh.kafka.topics["mesh.a.in.g"].info.topic_id
    assert [one.source.topic_id for one in told] == [topic_id] * 2
    assert [(one.source.partition, one.generation, one.offset) for one in told] == [
        (0, 0, 0),
        (0, 0, 1),
    ]


def test_a_batch_closes_when_it_is_full_even_inside_of_a_fetch(mesh: SmallMesh) -> None:
    """One fetch of frames may hold far more than a transaction should. Spec: K17."""
    count = 2 * BATCH_RECORDS + 500
    for value in range(count):
        mesh.publish(b"%d" % value, [subject("x")])
    mesh.run(10_000)
    assert [int(record.value()) for record in mesh.delivered()] == list(range(count))
    for node in "abc":
        ledgers = [decode_ledger(r.value()) for r in mesh.read(mesh.names.ledger(node))]
        read = [sum(source.messages for source in ledger.sources) for ledger in ledgers]
        # A frame is never cut by a commit, and for b, which hands it on, it is one record.
        assert node == "b" or max(read) < BATCH_RECORDS + 2_000
        assert sum(read) == count


def test_after_a_failed_transaction_the_lane_goes_on_from_what_is_committed(
    mesh: SmallMesh,
) -> None:
    """What the batch held in memory is dropped, and read again. Spec: R3, R7, K16."""
    worker = mesh.world.workers["a"]
    for round_ in range(5):
        mesh.publish(b"%d" % round_, [subject("x")])
        worker.turn(0)  # read, not yet committed
        mesh.kafka.writer("thief", mesh.names.lane_transactions("a", 0)).close()
        mesh.run(2_000)
    assert [int(record.value()) for record in mesh.delivered()] == list(range(5))


def test_what_nobody_wants_is_passed_for_good(mesh: SmallMesh) -> None:
    """Positions are committed where nothing else is, and tell which topic they are of. Spec: R5."""
    mesh.subscribe("c", "s", ">", None)
    mesh.run()
    ingress = TopicPartition(mesh.names.ingress("a", MessageClass.GUARANTEED), 0)
    for number in range(1, 4):
        mesh.publish(b"v", [subject("x")])
        mesh.run()
        told = [decode_fact(one.value()) for one in mesh.read(mesh.names.progress("a"))]
        last = [one for one in told if isinstance(one, SourceAt) and one.at == ingress][-1]
        assert (last.next, last.topic_id) == (
            number,
            mesh.kafka.topics[ingress.topic].info.topic_id,
        )
    assert mesh.read(mesh.names.outbox("a", "b", MessageClass.GUARANTEED)) == []


def test_cuts_are_told_again_before_the_ledger_forgets_them(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who begins to audit a mesh where nobody subscribes takes all for owed to nobody. K25."""

    def told() -> list[tuple[str, int, int]]:
        found = [decode_ledger(one.value()) for one in mesh.read(mesh.names.ledger("a"))]
        return [
            (one.uuid, one.position, one.clients_offset)
            for ledger in found
            for one in ledger.cuts
            if one.topic == ingress and one.partition == 0
        ]

    ingress = mesh.names.ingress("a", MessageClass.GUARANTEED)
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    before = told()
    (subscribed,) = [one for one in before if one[2] == 0]
    monkeypatch.setattr(following, "RETELL_MS", 60_000)
    mesh.run(70_000)
    assert told() == before, "a lane that reads nothing writes nothing"
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert (subscribed[0], 1, 0) in told()[len(before) :], "from the message on that is read then"
    before = told()
    mesh.publish(b"2", [subject("x")])
    mesh.run()
    assert told() == before


def test_a_message_between_the_last_unsubscribe_and_its_round_is_still_delivered(
    mesh: SmallMesh,
) -> None:
    """The routing knows the endpoint until the round that takes it out. Spec: K25."""
    worker = mesh.world.workers["c"]
    assert worker.machine is not None
    list(worker.machine.learner.clients.subscription_read(99, "s", ">", None, 0))
    assert "s" not in worker.machine.learner.clients.wanted.endpoints
    mesh.publish(b"late", [subject("x")])
    lane = worker.lanes.owned[0]
    assert lane.is_guaranteed("s")
    mesh.run()
    assert mesh.world.workers["c"] is worker
