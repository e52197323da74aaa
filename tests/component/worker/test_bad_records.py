"""What others should never write: refused with one reason each, and nothing behind it suffers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.control import UNREADABLE_INTEREST, Interest, Mark, Ownership, Scope, Stop
from mesh.model.effects import WriteStop
from mesh.model.frames import FrameHeader
from mesh.model.link_modes import LinkMode
from mesh.transport.memory_log import MemoryRecord
from mesh.wire.control import encode_advert, encode_mark
from mesh.wire.frames import decode_header, encode_header
from mesh.wire.keys import advert_key, links_key, mark_key
from mesh.wire.links import encode_node_links
from mesh.wire.state import decode_dead_letter, decode_ledger
from mesh.worker.control import control_writer
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

OUTBOX = "mesh.a.to.b.g"
CONTROL = "mesh.c.control"


def sent_frame(mesh: SmallMesh) -> tuple[FrameHeader, bytes]:
    """Publish one message at a; return the frame that a wrote."""
    mesh.publish(b"1", [subject("acme/x")])
    mesh.run()
    [record] = mesh.read(OUTBOX)
    return decode_header(record.key()), record.value()


def dropped(mesh: SmallMesh, node: str) -> dict[str, int]:
    return {
        drop.reason: drop.messages
        for record in mesh.read(f"mesh.{node}.ledger")
        for drop in decode_ledger(record.value()).dropped
    }


def test_a_frame_of_somebody_else_is_a_dead_letter_and_no_part_of_the_chain(
    mesh: SmallMesh,
) -> None:
    """Spec: DESIGN 4.1, R11, R12: the outbox is its node's alone."""
    header, value = sent_frame(mesh)
    chain = replace(header.hop.chain, previous=0, first=9, last=9)
    forged = replace(header, hop=replace(header.hop, path=("a", "c"), chain=chain))
    mesh.write(OUTBOX, value, key=encode_header(forged))
    mesh.run()
    mesh.publish(b"2", [subject("acme/x")])
    mesh.run()
    [letter] = mesh.dead_letters("b")
    assert decode_dead_letter(letter.headers()[-1][1]).reason == "SENDER"
    assert dropped(mesh, "b") == {"sender": 1}
    assert [record.value() for record in mesh.delivered()] == [b"1", b"2"]


def offered(mesh: SmallMesh, node: str) -> dict[bytes, bytes | None]:
    """Return the newest record of every advert and mark on a node's control topic."""
    newest: dict[bytes, bytes | None] = {}
    for record in mesh.read(mesh.names.control(node)):
        if record.key().startswith((b"advert ", b"mark ")):
            newest[record.key()] = record.value()
    return newest


def adverts(offers: dict[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    return {key: value for key, value in offers.items() if key.startswith(b"advert ") and value}


def test_old_control_records_that_come_again_are_written_anew(mesh: SmallMesh) -> None:
    """What a neighbour wanted once attracts nothing for long. Spec: K16, K23, DMR-8."""
    mesh.subscribe("c", "t", "once/>")
    mesh.run()
    played = [
        (record.key(), record.value())
        for record in mesh.read(CONTROL)
        if record.key().startswith((b"advert ", b"mark "))
    ]
    mesh.subscribe("c", "t", "once/>", None)
    mesh.run()
    before = adverts(offered(mesh, "c"))
    for key, value in played:
        mesh.write(CONTROL, value, key=key)
    mesh.run(ms=500)
    assert adverts(offered(mesh, "c")) != before
    mesh.run()
    assert adverts(offered(mesh, "c")) == before
    b = mesh.world.workers["b"]
    assert b.machine is not None
    assert "once/>" not in b.machine.router.table.entries


@pytest.mark.parametrize("kind", [b"advert ", b"mark "])
def test_garbage_in_the_place_of_a_control_record_is_written_over(
    mesh: SmallMesh, kind: bytes
) -> None:
    """A late reader finds what is offered and can prove it. Spec: K16, K23."""
    before = offered(mesh, "c")
    for key in before:
        if key.startswith(kind):
            mesh.write(CONTROL, b"\xff\xfe", key=key)
    mesh.run()
    assert adverts(offered(mesh, "c")) == adverts(before)
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run()
    mesh.publish(b"1", [subject("acme/x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]


def test_who_takes_the_lead_finds_what_strangers_left_there_meanwhile(mesh: SmallMesh) -> None:
    """Garbage in the place of an entry, and one that nobody offers; without a mark too. K16, K23."""
    before = adverts(offered(mesh, "c"))
    scope, wanted = Scope("Z", "b", Ownership.OWN), encode_advert(Interest())
    mesh.world.kill("c")
    for key in before:
        mesh.write(CONTROL, b"\xff\xfe", key=key)
    mesh.write(CONTROL, wanted, key=advert_key(scope, "never/asked/for"))
    mesh.write(CONTROL, None, key=mark_key(scope))
    mesh.world.start("c")
    mesh.run()
    assert adverts(offered(mesh, "c")) == before
    late = mesh.world.workers["b"].machine.learner.neighbours["c"]
    assert late.mode is LinkMode.UP
    mesh.publish(b"1", [subject("acme/x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]


def test_entries_whose_mark_a_stranger_took_away_still_stand() -> None:
    """Readers see them, so who takes the lead must withdraw what is not offered. Spec: K16, R12."""
    scope, value = Scope("Z", "b", Ownership.OWN), encode_advert(Interest())
    found = [(advert_key(scope, "x"), value), (mark_key(scope), None)]
    records = [
        MemoryRecord(CONTROL, 0, offset, key, value, None, (0, 0))
        for offset, (key, value) in enumerate(found)
    ]
    assert control_writer.read_written(records).offers == {scope: {"x": Interest()}}


def test_garbage_over_an_entry_hides_it_from_nobody_who_takes_the_lead() -> None:
    """Readers who came before still hold it: it is written over or withdrawn. Spec: K16, R12."""
    scope = Scope("Z", "b", Ownership.OWN)
    key = advert_key(scope, "x")
    records = [
        MemoryRecord(CONTROL, 0, offset, key, value, None, (0, 0))
        for offset, value in enumerate((encode_advert(Interest()), b"\xff"))
    ]
    assert control_writer.read_written(records).offers == {scope: {"x": UNREADABLE_INTEREST}}


def test_a_mark_that_proves_nothing_keeps_a_late_reader_from_serving(mesh: SmallMesh) -> None:
    """Until its writer has set it right. Spec: K23, DMR-7."""
    mesh.world.kill("c")
    scope = Scope("Z", "b", Ownership.OWN)
    wrong = Mark(epoch=9, number=1, count=1, digest=123)
    mesh.write(CONTROL, encode_mark(wrong), key=mark_key(scope))
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run()
    assert not mesh.world.workers["b"].is_ready
    mesh.world.start("c")
    mesh.run()
    assert mesh.world.workers["b"].is_ready


def test_control_records_that_nobody_can_read_are_counted_and_harm_no_other(
    mesh: SmallMesh,
) -> None:
    """Spec: R12."""
    for topic in (CONTROL, "mesh.c.to.b.c", "mesh.config", "mesh.b.clients"):
        mesh.write(topic, b"\xff", key=b"pause b c *")
        mesh.write(topic, b"\xff", key=b"no such kind")
        mesh.write(topic, b"\xff", key=None)
    mesh.subscribe("b", "here", ">")
    mesh.run()
    mesh.publish(b"1", [subject("acme/x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]
    assert [record.value() for record in mesh.read("mesh.b.ep.here")] == [b"1"]
    assert mesh.world.workers["b"]._listener.refused > 4


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        (CONTROL, b"link"),
        ("mesh.c.to.b.c", b"identity"),
        ("mesh.config", b"heartbeat"),
    ],
)
def test_a_key_that_belongs_to_another_topic_is_counted(
    said: Said, mesh: SmallMesh, topic: str, key: bytes
) -> None:
    """It says nothing here, whoever wrote it."""
    before = mesh.world.workers["b"]._listener.refused
    end = mesh.kafka.topics[topic].logs[0].end
    mesh.write(topic, b"\xff", key=key)
    mesh.run()
    assert mesh.world.workers["b"]._listener.refused == before + 1
    told = said.of("control.refused")
    place = ("warning", topic, end)
    assert {(one["log_level"], one["topic"], one["offset"]) for one in told} == {place}


def test_a_frame_of_another_version_stops_its_link_and_no_other(
    said: Said, mesh: SmallMesh
) -> None:
    """Spec: K10, R6."""
    header, value = sent_frame(mesh)
    mesh.write(
        OUTBOX, value, key=encode_header(header)[:2] + bytes([4]) + encode_header(header)[3:]
    )
    mesh.run()
    mesh.publish(b"2", [subject("acme/x")], partition=0)
    mesh.publish(b"3", [subject("acme/x")], partition=1)
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1", b"3"]
    assert {(one["topic"], one["partition"]) for one in said.of("link.stopped")} == {(OUTBOX, 0)}


def test_who_leads_no_more_leaves_nothing_to_its_next_turn_as_leader(mesh: SmallMesh) -> None:
    """What was asked for after the leadership went would be old when it is back. Spec: K16."""
    leadership = mesh.world.workers["c"]._leadership
    list(leadership.stop())
    leadership.ask(WriteStop("mesh.b.to.c.g", 0, Stop("mesh.b.to.c.g", 0, b"", "retention", 1, 2)))
    mesh.run()
    assert not any((record.key() or b"").startswith(b"stop ") for record in mesh.read(CONTROL))


def test_a_number_without_a_next_one_ends_no_worker(said: Said, mesh: SmallMesh) -> None:
    """Whoever hands a node's own record on may know more than it does: it counts on from there."""
    worker = mesh.world.workers["b"]
    end = (1 << 63) - 1
    records = worker.machine.probing.records
    own = next(one for one in records.values() if one.node == "b")
    forged = replace(own, sequence=end, number=end)
    mesh.write(CONTROL, encode_node_links(forged), key=links_key(own.uuid))
    mesh.run()
    assert worker.machine.probing._least == (end, end)
    assert {one["log_level"] for one in said.of("control.not_written")} == {"error"}
    mesh.publish(b"1", [subject("acme/x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run()
    mesh.publish(b"2", [subject("acme/x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1", b"2"]
