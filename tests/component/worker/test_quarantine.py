"""One record that a target refuses for good is put aside and announced; the rest goes on. R12."""

from __future__ import annotations

import json

import pytest

from mesh.model.record_headers import GAP_HEADER, MESH_HEADER
from mesh.model.state import DeadLetter
from mesh.view.messages import MessageIdentity, announced, received
from mesh.wire.deliveries import decode_delivery
from mesh.wire.state import decode_dead_letter, decode_ledger
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import OUTBOX, STUCK, is_held
from tests.said import Said

LIMIT = 700
BIG = b"x" * LIMIT
OTHER = "mesh.c.ep.t"


def letters(mesh: SmallMesh, node: str) -> list[tuple[DeadLetter, bytes | None]]:
    return [
        (decode_dead_letter(record.headers()[-1][1] or b""), record.value())
        for record in mesh.dead_letters(node)
    ]


def values(mesh: SmallMesh, topic: str) -> list[bytes]:
    """Return what clients read there, in order; b"gap" where a loss is announced."""
    return [b"gap" if announced(record) else record.value() or b"" for record in mesh.read(topic)]


def publish(mesh: SmallMesh, *payloads: bytes) -> None:
    for payload in payloads:
        mesh.publish(payload, [subject("x"), ("own", b"1")])


@pytest.fixture
def tight(mesh: SmallMesh) -> SmallMesh:
    """Besides `c/s` there is `c/t`, which takes anything."""
    mesh.subscribe("c", "t", ">")
    mesh.run()
    return mesh


def test_an_endpoint_goes_on_behind_a_record_that_it_refuses(said: Said, tight: SmallMesh) -> None:
    """In order, once each; in the place of the record stands what is lost. Spec: R12, K20."""
    tight.kafka.topics[STUCK].message_bytes_max = LIMIT
    publish(tight, b"1", b"2", BIG, b"3", b"4")
    tight.run(2_000)
    publish(tight, b"5", BIG + b"2", b"6")
    tight.run(90_000)
    publish(tight, b"7")
    tight.run()
    whole = [b"1", b"2", BIG, b"3", b"4", b"5", BIG + b"2", b"6", b"7"]
    assert values(tight, OTHER) == whole
    assert values(tight, STUCK) == [b"gap" if len(one) > 9 else one for one in whole]
    assert not is_held(tight, "c", STUCK)
    lost = [loss for record in tight.read(STUCK) if (loss := announced(record))]
    there = {received(r).payload: received(r).identity for r in tight.read(OTHER)}
    found = letters(tight, "c")
    assert [(one["target"], str(one["identity"])) for one in said.of("record.quarantined")] == [
        (STUCK, letter.identity) for letter, _ in found
    ]
    for (letter, value), loss, payload in zip(found, lost, (BIG, BIG + b"2"), strict=True):
        assert (letter.reason, letter.target, value) == ("QUARANTINED", STUCK, payload)
        assert "larger" in letter.detail
        assert letter.identity == str(there[payload])
        assert (loss.topic, loss.reason, loss.node) == ("mesh.a.in.g", "quarantined", "c")
        ranged = MessageIdentity(loss.topic_id, loss.partition, loss.generation, loss.first)
        assert (ranged, loss.last) == (there[payload], loss.first)
    [record, _] = tight.dead_letters("c")
    assert [name for name, _ in record.headers()] == ["own", "mesh-subject", MESH_HEADER]


def test_what_is_written_and_what_is_lost_is_counted(tight: SmallMesh) -> None:
    """Spec: K12, R12."""
    tight.kafka.topics[STUCK].message_bytes_max = LIMIT
    publish(tight, b"1", BIG, b"2")
    tight.run(60_000)
    ledgers = [decode_ledger(r.value() or b"") for r in tight.read("mesh.c.ledger")]
    delivered = sum(
        one.messages for told in ledgers for one in told.delivered if one.endpoint == "s"
    )
    dropped = [(one.reason, one.messages) for told in ledgers for one in told.dropped]
    assert (delivered, dropped) == (2, [("quarantined", 1)])


@pytest.mark.parametrize("outbox", [OUTBOX, "mesh.a.to.b.g"])
def test_a_link_goes_on_behind_a_frame_that_its_outbox_refuses(
    tight: SmallMesh, outbox: str
) -> None:
    """The chain fits at the receiver, who asks for nothing and tells its endpoints. Spec: K11."""
    node = outbox.split(".")[1]
    tight.subscribe(node, "t", ">")
    tight.run()
    tight.kafka.topics[outbox].message_bytes_max = LIMIT
    sent = [b"1", BIG, b"2", b"3", BIG, b"4"]
    for payload in sent:
        publish(tight, payload)
        tight.run(500)
    tight.run(120_000)
    publish(tight, b"5")
    tight.run()
    assert values(tight, f"mesh.{node}.ep.t") == [*sent, b"5"]
    wanted = [b"1", b"gap", b"2", b"3", b"gap", b"4", b"5"]
    assert values(tight, STUCK) == values(tight, OTHER) == wanted
    requests = [
        record
        for topic in ("mesh.c.to.b.c", "mesh.b.to.a.c")
        for record in tight.read(topic)
        if record.key().startswith(b"repair ")
    ]
    assert requests == []
    assert [letter.target for letter, _ in letters(tight, node)] == [outbox, outbox]
    assert not is_held(tight, node, outbox)


def test_what_concerns_the_whole_topic_is_waited_for(tight: SmallMesh) -> None:
    """A right that was taken away, however long. Spec: R12."""
    tight.kafka.denied[STUCK] = "not authorised"
    publish(tight, b"1", b"2")
    tight.run(120_000)
    assert letters(tight, "c") == []
    assert is_held(tight, "c", STUCK)
    del tight.kafka.denied[STUCK]
    tight.run(20_000)
    assert values(tight, STUCK) == values(tight, OTHER) == [b"1", b"2"]


def test_a_limit_that_is_raised_in_time_costs_nothing(tight: SmallMesh) -> None:
    tight.kafka.topics[STUCK].message_bytes_max = LIMIT
    publish(tight, b"1", BIG, b"2")
    tight.run(15_000)
    tight.kafka.topics[STUCK].message_bytes_max = 1_000_000
    tight.run(20_000)
    assert letters(tight, "c") == []
    assert values(tight, STUCK) == [b"1", BIG, b"2"]


@pytest.mark.parametrize("seed", range(4))
def test_a_quarantine_outlives_its_worker(tight: SmallMesh, seed: int) -> None:
    """Killed at many moments: one letter, one announcement, nothing twice. Spec: K16, R12."""
    tight.kafka.topics[STUCK].message_bytes_max = LIMIT
    publish(tight, b"1", BIG, b"2")
    for number in range(6):
        tight.run(3_000 + 7_001 * ((seed + number) % 5))
        publish(tight, b"n%d" % number)
        tight.run(10 * (seed + number))
        tight.world.kill("c")
        tight.world.start("c")
    tight.run(90_000)
    whole = [b"1", BIG, b"2", *(b"n%d" % number for number in range(6))]
    assert values(tight, OTHER) == whole
    assert values(tight, STUCK) == [b"gap" if one == BIG else one for one in whole]
    assert len(letters(tight, "c")) == 1
    assert not is_held(tight, "c", STUCK)


def test_many_in_one_frame_are_told_apart(tight: SmallMesh) -> None:
    """A broker judges what it gets at once; each is found, and the others come. Spec: R12."""
    tight.kafka.topics[STUCK].message_bytes_max = LIMIT
    sent = [BIG + b"%d" % n if n % 7 == 3 else b"%d" % n for n in range(40)]
    publish(tight, *sent)
    tight.run(90_000)
    assert values(tight, OTHER) == sent
    assert values(tight, STUCK) == [b"gap" if len(one) > 9 else one for one in sent]
    assert len(letters(tight, "c")) == 6
    records = tight.read(STUCK)
    told = [r.headers()[-1] for r in records]
    assert all(decode_delivery(h[1] or b"") for h in told if h[0] == MESH_HEADER)
    assert sum(json.loads(h[1] or b"")["first"] for h in told if h[0] == GAP_HEADER) > 0
