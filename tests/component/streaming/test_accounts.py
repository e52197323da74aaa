"""What real nodes tell of direct messages is what their outboxes hold, also when they are killed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from mesh.lane import resuming
from mesh.lane.lane import Lane
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.transport.port import Record
from mesh.transport.port import TopicPartition as Place
from mesh.transport.reading import read_logs
from mesh.wire.frames import decode_header
from mesh.wire.state import decode_ledger
from streaming.audits.accounts import OutboxAccounts
from streaming.audits.finding_register import Finding
from streaming.tables.rows import FramePlace, FrameRow, SourceKey, TopicPartition
from tests.component.in_memory_mesh import Mesh

DIRECT = MessageClass.DIRECT


def lived(mesh: Mesh, seed: int) -> Mesh:
    """Publish direct messages at a for c, while b and c are killed and come again."""
    rng = random.Random(seed)
    mesh.subscribe("c", "s", "acme/>", message_class=DIRECT)
    client = mesh.client("a")
    for number in range(120):
        client.publish(f"acme/{number % 3}", b"x", message_class=DIRECT)
        if rng.random() < 0.3:
            mesh.pause(rng.choice([0.01, 0.2]))
        if rng.random() < 0.05:
            node = rng.choice("bc")
            mesh.world.kill(node)
            mesh.pause(rng.choice([0.1, 3.0]))
            mesh.world.start(node)
    client.flush()
    mesh.pause(20.0)
    return mesh


def records(mesh: Mesh, node: str, topic: str) -> Sequence[Record]:
    kafka = mesh.world.kafka[mesh.topology.nodes[node].kafka]
    partitions = kafka.admin().describe([topic])[topic].partitions
    return list(read_logs(kafka, [Place(topic, n) for n in range(partitions)], name="test"))


def frame_of(record: Record) -> FrameRow:
    """Return what Spark would make of a batch with this one frame."""
    header = decode_header(record.key() or b"")
    place = FramePlace(record.offset(), -1, 0, 0)
    return FrameRow(
        place=TopicPartition(record.topic(), record.partition()),
        is_repair=False,
        kind=str(header.kind),
        zone="Z",
        path=tuple(header.hop.path),
        chain=SourceKey("", 0),
        source=SourceKey("", 0),
        generation=0,
        frames=1,
        messages=header.origin.count,
        first=header.origin.first,
        last=header.origin.last,
        head=place,
        tail=place,
        broken=(),
        late=0,
        most=header.origin.count,
    )


def audited(mesh: Mesh) -> tuple[OutboxAccounts, list[Finding]]:
    """Return what the auditor makes of all outboxes and ledgers."""
    names, accounts = TopicNames(mesh.topology.prefix), OutboxAccounts(mesh.topology.prefix)
    for link in mesh.topology.links:
        for sender, receiver in (link.ends, link.ends[::-1]):
            for record in records(mesh, sender, names.outbox(sender, receiver, DIRECT)):
                accounts.frames([frame_of(record)], [])
    for node in mesh.topology.nodes:
        for record in records(mesh, node, names.ledger(node)):
            accounts.ledger(node, decode_ledger(record.value() or b""))
    return accounts, list(accounts.judge())


@pytest.mark.parametrize("seed", [0, 1])
def test_every_message_is_read_or_passed_over_with_a_word(mesh: Mesh, seed: int) -> None:
    accounts, found = audited(lived(mesh, seed))
    assert found == []
    busy = [account for account in accounts.open.values() if account.sent.messages]
    assert sum(account.sent.messages for account in busy) > 100
    assert any(account.reported.unread for account in busy), "somebody took over in the middle"
    for account in busy:
        assert account.agreed == (account.sent, account.reported), "all of it was compared"


def test_a_node_that_passes_over_frames_without_a_word_is_found(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: who takes over goes on behind what was reserved, and counts nothing."""

    def silent(lane: Lane, at: Place, reason: str, to: int, now_ms: int) -> None:
        if to > (position := lane.position(at)):
            topic_id = lane.progress.topic_ids[at]
            lane.open(now_ms).read(at, topic_id, 0, position, to - 1, 0, records=0)

    monkeypatch.setattr(resuming, "skip", silent)
    _, found = audited(lived(mesh, 0))
    assert {str(one.kind) for one in found} == {"unaccounted"}
