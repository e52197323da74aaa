"""No record ends a process, whatever it is: it is a dead letter, and all else goes on. Spec: R12."""

from __future__ import annotations

import pytest

from mesh.core.routing import Router
from mesh.lane.messages import transit
from mesh.lane.messages.poison import TRIES
from mesh.model.frames import MessageClass
from mesh.model.record_headers import MESH_HEADER
from mesh.model.state import DeadLetter
from mesh.transport.kafka.unpacking import PackedRecord
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_dead_letter, decode_ledger
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

ODD = b"bad\xff\xfe".decode(errors="surrogateescape")
"""A name of a header that is not UTF-8, as the twin writes it."""


def letters(mesh: SmallMesh, node: str = "a") -> list[DeadLetter]:
    return [decode_dead_letter(one.headers()[-1][1]) for one in mesh.dead_letters(node)]


def values(mesh: SmallMesh) -> list[bytes | None]:
    return [record.value() for record in mesh.delivered()]


def test_a_header_name_that_is_not_utf8_is_a_dead_letter(mesh: SmallMesh) -> None:
    """The client library gives no headers out then, and must not be asked twice."""
    mesh.publish(b"1", [subject("x")])
    mesh.publish(b"bad", [subject("x"), (ODD, b"1")], key=b"key")
    mesh.publish(b"2", [subject("x")])
    mesh.run()
    [letter] = letters(mesh)
    assert (letter.reason, letter.offset, letter.value_size) == ("POISON", 1, 3)
    [record] = mesh.dead_letters()
    assert (record.key(), record.value()) == (b"key", b"bad")
    assert [name for name, _ in record.headers()] == [MESH_HEADER]
    assert values(mesh) == [b"1", b"2"]
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.publish(b"3", [subject("x")])
    mesh.run()
    assert values(mesh) == [b"1", b"2", b"3"]
    assert len(letters(mesh)) == 1
    assert mesh.world.troubles == 0


def test_such_a_record_in_an_outbox_is_a_dead_letter_of_the_receiver(mesh: SmallMesh) -> None:
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    mesh.write(outbox, b"stray", key=b"\x02tray", headers=[(ODD, b"1")])
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert values(mesh) == [b"1"]
    assert [letter.value_size for letter in letters(mesh, "b")] == [5]


def cannot_be_unpacked(mesh: SmallMesh, topic: str, offset: int) -> None:
    """Have a record be of a batch that the client library does not unpack."""
    log = mesh.kafka.topics[topic].logs[0]
    assert log.entries[offset - log.start] is not None
    log.entries[offset - log.start] = PackedRecord(TopicPartition(topic, 0), offset)


def test_what_cannot_be_unpacked_is_a_dead_letter_of_which_the_place_is_known(
    mesh: SmallMesh,
) -> None:
    for number in range(3):
        mesh.publish(b"%d" % number, [subject("x")])
    cannot_be_unpacked(mesh, mesh.names.ingress("a", MessageClass.GUARANTEED), 1)
    mesh.run()
    assert [(one.reason, one.offset, one.value_size) for one in letters(mesh)] == [("POISON", 1, 0)]
    assert values(mesh) == [b"0", b"2"]


def test_a_frame_that_cannot_be_unpacked_is_sent_again(mesh: SmallMesh) -> None:
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    mesh.world.cut("b", ["a"])
    for number in range(2):
        mesh.publish(b"%d" % number, [subject("x")])
        mesh.run(2_000)
    cannot_be_unpacked(mesh, outbox, 0)
    mesh.world.cut("b", [])
    mesh.run(6_000)
    assert [one.reason for one in letters(mesh, "b")] == ["CODEC"]
    assert values(mesh) == [b"0", b"1"]


def test_such_a_record_on_a_control_topic_is_left_out(mesh: SmallMesh) -> None:
    for topic in (
        mesh.names.clients("c"),
        mesh.names.control("a"),
        mesh.names.to_control("a", "b"),
    ):
        mesh.write(topic, b"\xff", key=b"\xff\x00", headers=[(ODD, b"1")])
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert values(mesh) == [b"1"]


class Surprise(Exception):  # noqa: N818
    """What nobody thought of."""


@pytest.fixture
def surprising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have routing fail over one subject, in whatever way."""
    route = Router.route

    def wrong(router: Router, subject: str, *more: object) -> object:
        if subject == "cursed":
            raise Surprise("nobody thought of this")
        return route(router, subject, *more)

    monkeypatch.setattr(Router, "route", wrong)


@pytest.mark.usefixtures("surprising")
@pytest.mark.parametrize("message_class", MessageClass)
def test_whatever_one_record_raises_costs_this_record_alone(
    said: Said, mesh: SmallMesh, message_class: MessageClass
) -> None:
    """It is taken alone, and after three failures a dead letter in the same transaction. Spec: R17."""
    topic = mesh.names.ingress("a", message_class)
    for index in range(9):
        address = "cursed" if index in (3, 4, 7) else "x"
        mesh.write(topic, b"%d" % index, headers=[subject(address)])
    mesh.run(8_000)
    assert [(one.reason, one.offset) for one in letters(mesh)] == [
        ("POISON", at) for at in (3, 4, 7)
    ]
    told = said.of("record.poison")
    assert {(one["log_level"], one["offset"]) for one in told} == {
        ("error", at) for at in (3, 4, 7)
    }
    assert "Surprise: nobody thought of this" in letters(mesh)[0].detail
    assert values(mesh) == [b"0", b"1", b"2", b"5", b"6", b"8"]
    counted = {
        drop.reason: drop.messages
        for record in mesh.read(mesh.names.ledger("a"))
        for drop in decode_ledger(record.value()).dropped
    }
    assert counted.keys() == {"poison"}
    assert mesh.world.troubles == 0


@pytest.mark.usefixtures("surprising")
def test_a_successor_finds_it_again_and_goes_on(mesh: SmallMesh) -> None:
    mesh.publish(b"0", [subject("cursed")])
    mesh.run(400)
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.publish(b"1", [subject("x")])
    mesh.run(8_000)
    assert values(mesh) == [b"1"]
    assert [one.offset for one in letters(mesh)] == [0]


def test_a_frame_that_breaks_the_receiver_is_put_aside_and_its_chain_goes_on(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked for again: the frame would come as it was."""
    take = transit._take_frame

    def wrong(run, link, record, peeked):
        if b"cursed" in (record.value() or b""):
            raise Surprise
        take(run, link, record, peeked)

    monkeypatch.setattr(transit, "_take_frame", wrong)
    for value in (b"1", b"cursed", b"2"):
        mesh.publish(value, [subject("x")])
        mesh.run(1_000)
    mesh.run(8_000)
    assert values(mesh) == [b"1", b"2"]
    assert [one.reason for one in letters(mesh, "b")] == ["POISON"]
    asked = [one.key() for one in mesh.read(mesh.names.to_control("b", "a"))]
    assert not [key for key in asked if key.startswith(b"repair")]


@pytest.mark.usefixtures("surprising")
def test_a_catch_up_passes_it_as_the_lane_did(mesh: SmallMesh) -> None:
    """Spec: K20."""
    held = mesh.names.endpoint("c", "s")
    mesh.kafka.denied[held] = "no right to write"
    for index in range(6):
        mesh.write(
            mesh.names.ingress("c", MessageClass.GUARANTEED),
            b"%d" % index,
            headers=[subject("cursed" if index == 2 else "x")],
        )
    mesh.run(20_000)
    assert held in mesh.world.workers["c"].lanes.owned[0].held_targets
    mesh.kafka.denied.clear()
    mesh.run(60_000)
    assert values(mesh) == [b"0", b"1", b"3", b"4", b"5"]
    assert not mesh.world.workers["c"].lanes.owned[0].held_targets
    assert [one.offset for one in letters(mesh, "c")] == [2]


@pytest.mark.usefixtures("surprising")
def test_two_groups_that_fail_one_after_the_other_leave_nothing_behind(mesh: SmallMesh) -> None:
    """The first one's record was put aside in a group, and its source stood still for good."""
    mesh.publish(b"0", [subject("cursed")])
    poison = mesh.world.workers["a"].lanes.poison
    has_failed = lambda: any(tries >= TRIES for tries, _ in poison._failures.values())  # noqa: E731
    assert mesh.world.run_until(has_failed, 10_000)
    # It is put aside in the same fetch in which the next one fails in a group: nothing of that is
    # committed, and only the second group is known as one to be taken one by one.
    mesh.publish(b"1", [subject("cursed")])
    for index in range(2, 8):
        mesh.publish(b"%d" % index, [subject("x")])
    mesh.run(8_000)
    assert values(mesh) == [b"%d" % index for index in range(2, 8)]
    assert [one.offset for one in letters(mesh)] == [0, 1]
