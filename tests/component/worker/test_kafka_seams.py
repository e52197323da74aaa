"""What Kafka does underneath, and a node must not mistake for something else."""

from __future__ import annotations

import pytest

from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.stops import (
    INGRESS,
    OUTBOX,
    announcements,
    delete_while_down,
    payloads,
    stops,
)

HEADERS = [subject("x")]


def publish_in_transactions(mesh: SmallMesh, *outcomes: tuple[bytes, bool]) -> None:
    """Publish each value in a transaction of its own, which commits or aborts."""
    writer = mesh.kafka.writer("client", "client.transactions")
    for value, is_committed in outcomes:
        writer.begin()
        writer.produce(INGRESS, value, None, 0, headers=HEADERS)
        if is_committed:
            writer.commit()
        else:
            writer.flush()
            writer.abort()


def test_offsets_that_transactions_took_are_no_loss(mesh: SmallMesh) -> None:
    """Markers and aborted records leave gaps in the offsets, and nothing else. Spec: K-1, K11."""
    publish_in_transactions(mesh, (b"1", True), (b"never", False), (b"2", True), (b"3", True))
    mesh.run()
    assert payloads(mesh) == [b"1", b"2", b"3"]
    assert mesh.kafka.admin().ends([TopicPartition(INGRESS, 0)]) == {TopicPartition(INGRESS, 0): 8}
    assert stops(mesh, "a") == stops(mesh, "b") == stops(mesh, "c") == {}
    assert announcements(mesh) == []


def test_a_log_that_begins_later_is_a_loss(mesh: SmallMesh) -> None:
    """Records deleted unread are one; a marker before them counts, as nobody can tell.

    Spec: K-1, R6.
    """
    publish_in_transactions(mesh, (b"1", True))
    mesh.run()
    delete_while_down(mesh, INGRESS, "a", 4)
    [stop] = stops(mesh, "a").values()
    assert (stop.first, stop.next) == (1, 4)


@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_not_committed_is_not_read(mesh: SmallMesh, is_committed: bool) -> None:
    """An open transaction holds up what was published after it; its end tells. Spec: K-4, K16."""
    writer = mesh.kafka.writer("client", "client.transactions")
    writer.begin()
    writer.produce(INGRESS, b"open", None, 0, headers=HEADERS)
    writer.flush()
    mesh.publish(b"behind", HEADERS)
    mesh.run()
    assert payloads(mesh) == []
    (writer.commit if is_committed else writer.abort)()
    mesh.run()
    assert payloads(mesh) == ([b"open"] if is_committed else []) + [b"behind"]


@pytest.mark.parametrize("lanes", [1, 2])
def test_partitions_that_are_added_are_read_and_no_target_moves(lanes: int) -> None:
    """An operator grew the ingress, an outbox and the endpoint. Spec: K-6, K3."""
    nodes = {name: {"lanes": lanes, "partitions": 2} for name in "abc"}
    mesh = SmallMesh({**CHAIN, "nodes": nodes})
    mesh.publish(b"before", HEADERS, partition=1)
    mesh.run()
    for topic in (INGRESS, OUTBOX, mesh.names.endpoint("c", "s")):
        mesh.kafka.grow(topic, 5)
    for partition in range(5):
        mesh.publish(b"%d" % partition, HEADERS, partition=partition)
    mesh.run(12_000)
    found = {record.value(): record.partition() for record in mesh.delivered()}
    assert found == {b"before": 1, **{b"%d" % number: number % 2 for number in range(5)}}
    assert len(mesh.delivered()) == 6
    assert stops(mesh, "a") == stops(mesh, "b") == {}
