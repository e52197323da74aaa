"""Frames of a neighbour: what is wrong is refused with a reason, and nothing behind it is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.lane.messages.gaps import EMPTY
from mesh.model.frames import FrameFlags, FrameHeader
from mesh.wire.deliveries import decode_delivery
from mesh.wire.frames import decode_header, decode_value, encode_header, encode_value
from mesh.wire.state import decode_dead_letter, decode_ledger
from tests.component.worker.conftest import SmallMesh, subject

OUTBOX = "mesh.a.to.b.g"


def sent_frame(mesh: SmallMesh) -> tuple[FrameHeader, bytes]:
    """Publish one message and return the frame that a wrote for b."""
    mesh.publish(b"v", [subject("x")])
    mesh.run()
    frame = mesh.read(OUTBOX)[-1]
    return decode_header(frame.key()), frame.value()


def send_by(mesh: SmallMesh, path: tuple[str, ...]) -> None:
    """Behind one frame have b read two more: the first came by a path, the second from a."""
    header, value = sent_frame(mesh)
    for offset, its_path in ((1, path), (2, header.hop.path)):
        chain = replace(header.hop.chain, previous=offset - 1, first=offset, last=offset)
        hop = replace(header.hop, path=its_path, chain=chain)
        mesh.write(OUTBOX, value, key=encode_header(replace(header, hop=hop)))
    mesh.run()


def dropped(mesh: SmallMesh, node: str) -> list[str]:
    return [
        drop.reason
        for ledger in mesh.read(mesh.names.ledger(node))
        for drop in decode_ledger(ledger.value()).dropped
    ]


def test_a_frame_played_again_is_dropped_and_counted(mesh: SmallMesh) -> None:
    """Spec: K11, K-3 of scenarios.md, R4."""
    header, value = sent_frame(mesh)
    mesh.write(OUTBOX, value, key=encode_header(header))
    mesh.run()
    assert len(mesh.delivered()) == 1
    assert dropped(mesh, "b") == ["duplicate"]


def test_a_gap_asks_for_a_repair_and_accepts_nothing_of_that_source(mesh: SmallMesh) -> None:
    """The request is taken back when the repair has come. Spec: K11, K20, R4."""
    header, value = sent_frame(mesh)
    chain = replace(header.hop.chain, previous=50, first=51, last=51)
    broken = replace(header, hop=replace(header.hop, chain=chain))
    mesh.write(OUTBOX, value, key=encode_header(broken))
    mesh.run()
    assert len(mesh.delivered()) == 1
    assert dropped(mesh, "b") == ["gap"]
    requests = [r for r in mesh.read("mesh.b.to.a.c") if r.key().startswith(b"repair ")]
    assert [request.value() is None for request in requests] == [False, True]


def test_the_end_of_a_repair_takes_nothing_back(mesh: SmallMesh) -> None:
    """A repair may bring more than the lane had sent: that is known after a death too. K11, K20."""
    header, value = sent_frame(mesh)
    repaired = replace(header, flags=FrameFlags.REPAIR)
    chain = replace(header.hop.chain, previous=0, first=5, last=5)
    brought = encode_header(replace(repaired, hop=replace(header.hop, chain=chain)))
    nothing = replace(header.origin, count=0, subjects=())
    chain = replace(chain, first=0, last=0)
    ended = replace(repaired, origin=nothing, hop=replace(header.hop, chain=chain))
    mesh.write(OUTBOX, value, key=brought)
    mesh.write(OUTBOX, EMPTY, key=encode_header(ended))
    mesh.run()
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.write(OUTBOX, value, key=brought)
    mesh.run(5_000)
    assert len(mesh.delivered()) == 2
    assert dropped(mesh, "b") == ["duplicate"]


def test_a_loop_is_an_error_with_a_name(mesh: SmallMesh) -> None:
    """Spec: R10."""
    header, value = sent_frame(mesh)
    chain = replace(header.hop.chain, previous=0, first=1, last=1)
    looped = replace(header, hop=replace(header.hop, path=("a", "b"), chain=chain))
    mesh.write(OUTBOX, value, key=encode_header(looped))
    mesh.run()
    [letter] = mesh.dead_letters("b")
    assert decode_dead_letter(letter.headers()[-1][1]).reason == "LOOP_TRACE"


def test_nothing_goes_back_to_where_it_has_been(mesh: SmallMesh) -> None:
    """Nodes that follow a change at different moments form rings; c wants it all. Spec: K28."""
    send_by(mesh, ("c", "a"))
    assert len(mesh.delivered()) == 2  # c has what came after it, and no gap before that
    assert len(mesh.read("mesh.b.to.c.g")) == 2
    refused = [
        (one.neighbour, str(one.reason), one.messages)
        for ledger in mesh.read(mesh.names.ledger("b"))
        for one in decode_ledger(ledger.value()).not_forwarded
        if one.neighbour == "c"
    ]
    assert refused == [("c", "arrival_link", 1)]


def test_what_went_round_breaks_no_chain(mesh: SmallMesh) -> None:
    """Links that were refused a moment too late cost a dead letter, and no repair. Spec: R10, K11."""
    send_by(mesh, ("b", "a"))
    [letter] = mesh.dead_letters("b")
    assert decode_dead_letter(letter.headers()[-1][1]).reason == "LOOP_TRACE"
    assert len(mesh.delivered()) == 2
    assert not [r for r in mesh.read("mesh.b.to.a.c") if r.key().startswith(b"repair ")]


@pytest.mark.parametrize("damage", ["key", "value", "none"])
def test_an_undecodable_frame_is_a_dead_letter_and_the_next_one_is_served(
    mesh: SmallMesh, damage: str
) -> None:
    """Spec: kafka.md 1, reliability.md R12."""
    mesh.subscribe("b", "here", ">")
    mesh.run()
    header, value = sent_frame(mesh)
    chain = replace(header.hop.chain, previous=0, first=1, last=1)
    key = encode_header(replace(header, hop=replace(header.hop, chain=chain)))
    if damage == "key":
        key = key[:20]
    elif damage == "value":
        value = value[:-3]
    else:
        key = None
    mesh.write(OUTBOX, value, key=key)
    mesh.run()
    assert decode_dead_letter(mesh.dead_letters("b")[0].headers()[-1][1]).reason == "CODEC"


def test_a_split_copies_what_a_newer_minor_version_added(mesh: SmallMesh) -> None:
    """Spec: K10, R19: hops and splits copy ext."""
    mesh.subscribe("c", "s", ">", None)
    mesh.subscribe("c", "only", "wanted")
    mesh.run()
    mesh.publish(b"1", [subject("wanted")])
    mesh.run()
    mesh.subscribe("b", "all", ">")
    mesh.run()
    mesh.publish(b"2", [subject("wanted")])
    mesh.publish(b"3", [subject("other")])
    mesh.run()
    last = mesh.read(OUTBOX)[-1]
    header = decode_header(last.key())
    chain = replace(header.hop.chain, previous=header.hop.chain.last, first=50, last=51)
    newer = replace(header, hop=replace(header.hop, chain=chain), ext={"new": b"x"})
    before = len(mesh.read("mesh.b.to.c.g"))
    mesh.write(OUTBOX, last.value(), key=encode_header(newer))
    mesh.run()
    copies = mesh.read("mesh.b.to.c.g")[before:]
    assert [(decode_header(r.key()).ext, decode_header(r.key()).origin.count) for r in copies] == [
        ({"new": b"x"}, 1)
    ]


def test_what_is_split_off_a_frame_is_what_its_client_wrote(mesh: SmallMesh) -> None:
    """With key, headers and create time, wherever it stood in the frame. Spec: K5, K7, K8."""
    mesh.subscribe("c", "s", ">", None)
    mesh.subscribe("c", "only", "wanted")
    mesh.subscribe("b", "all", ">")
    mesh.run()
    for number, text in enumerate(("other", "wanted", "other", "wanted")):
        own = ("own", b"%d" % number)
        at_ms = 1_000_000 + 60_000 * number
        mesh.publish(b"%d" % number, [own, subject(text)], key=b"k", timestamp=at_ms)
    mesh.run()
    assert [decode_header(one.key()).origin.count for one in mesh.read(OUTBOX)] == [4]
    found = mesh.read(mesh.names.endpoint("c", "only"))
    assert [(one.key(), one.value(), one.headers()[0], one.timestamp()[1]) for one in found] == [
        (b"k", b"1", ("own", b"1"), 1_060_000),
        (b"k", b"3", ("own", b"3"), 1_180_000),
    ]


def test_an_unknown_version_stops_the_link_and_loses_nothing(mesh: SmallMesh) -> None:
    """Spec: K10, R19."""
    header, value = sent_frame(mesh)
    key = encode_header(header)[:2] + b"\x0e" + encode_header(header)[3:]
    mesh.write(OUTBOX, value, key=key)
    mesh.publish(b"behind", [subject("x")])
    mesh.run()
    assert len(mesh.delivered()) == 1
    assert mesh.dead_letters("b") == []


def test_a_messages_ext_arrives_in_its_delivery(mesh: SmallMesh) -> None:
    """A newer minor version's additions pass nodes that do not know them. Spec: K8, K10, R19."""
    header, value = sent_frame(mesh)
    (message,) = decode_value(value, header)
    added = encode_value([replace(message, ext={"next.minor": b"1"})], header.origin)
    chain = replace(header.hop.chain, previous=header.hop.chain.last, first=90, last=90)
    newer = replace(header, hop=replace(header.hop, chain=chain))
    mesh.write(OUTBOX, added, key=encode_header(newer))
    mesh.run()
    exts = [decode_delivery(dict(record.headers())["mesh"]).ext for record in mesh.delivered()]
    assert exts == [{}, {"next.minor": b"1"}]
