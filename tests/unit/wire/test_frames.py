"""Frames: what the hot path refuses, and why."""

from dataclasses import replace

import pytest

from mesh.errors import DecodeError, LocalProtocolError, UnknownVersionError
from mesh.model.frames import FrameFlags, MessageClass, Origin, SourcePartition
from mesh.model.record_headers import is_reserved
from mesh.wire.deliveries import decode_delivery, delivery_header, delivery_prefix
from mesh.wire.frames import (
    NO_EXT,
    assemble_value,
    decode_ext,
    decode_header,
    decode_messages,
    decode_value,
    encode_header,
    encode_tail,
    encode_value,
    key_tail,
    peek,
    relay_key,
    scan_value,
    subject_table,
)
from mesh.wire.varint import read_zigzag, zigzag
from tests.unit.wire.vector_cases import GAP, HEADER, MESSAGES, OUTBOX

KEY = encode_header(HEADER)
VALUE = encode_value(MESSAGES, HEADER.origin)
TAIL = encode_tail(None, None, b"x")
ORIGIN = Origin(
    node="a",
    source=SourcePartition(OUTBOX, 0),
    generation=0,
    first=10,
    last=12,
    count=2,
    subjects=("s", "t"),
)


def value_of(*numbers: tuple[int, int]) -> bytes:
    """Return a value of messages given as offset delta and subject index."""
    return assemble_value(0, [(offset, subject, 0, TAIL) for offset, subject in numbers])


def test_a_key_of_another_version_is_refused_by_name() -> None:
    """A link with a newer neighbour stops and says so."""
    with pytest.raises(UnknownVersionError, match=r"frame_header: version 2 .* version 1"):
        peek(KEY[:2] + b"\x04" + KEY[3:])


def test_no_byte_of_a_key_may_be_missing_or_left_over() -> None:
    """Every cut key is refused, and so is every one that goes on."""
    for end in range(len(KEY)):
        with pytest.raises(DecodeError):
            peek(KEY[:end])
    with pytest.raises(DecodeError, match="1 bytes follow"):
        peek(KEY + b"\x00")


def test_what_a_key_cannot_say_is_refused_where_it_stands() -> None:
    """An unknown kind or flag, a truth value of 2, a number too large: named, not guessed at."""
    at = KEY.index(b"WO") + 4  # behind zone, hops and join hops
    origin = HEADER.origin
    flags = peek(KEY).table_end
    long = zigzag(1 << 31)
    for spoilt, complaint in [
        (KEY[:3] + b"\x04" + KEY[4:], "the unknown kind 2"),
        (KEY[:3] + b"\x01" + KEY[4:], "the unknown kind -1"),
        (KEY[:at] + b"\x02" + KEY[at + 1 :], f"no truth value at byte {at}"),
        (KEY[: at - 2] + long + KEY[at - 1 :], "2147483648 .* 32-bit"),
        (KEY[:flags] + zigzag(2) + KEY[flags + 1 :], "the unknown flags 2"),
        (KEY[:flags] + zigzag(-1) + KEY[flags + 1 :], "the unknown flags -1"),
        (encode_header(replace(HEADER, origin=replace(origin, count=-1))), "-1 messages"),
    ]:
        with pytest.raises(DecodeError, match=complaint):
            peek(spoilt)


def test_no_byte_of_a_value_may_be_missing_or_left_over() -> None:
    """Every cut value is refused, by those who scan and by those who read."""
    for end in range(len(VALUE)):
        with pytest.raises(DecodeError):
            scan_value(VALUE[:end])
        with pytest.raises(DecodeError):
            decode_value(VALUE[:end], HEADER)
    with pytest.raises(DecodeError, match="1 bytes follow"):
        scan_value(VALUE + b"\x00")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (value_of((0, 0), (0, 0)), "offset delta 0 after 0"),
        (value_of((1, 0), (0, 0)), "offset delta 0 after 1"),
        (value_of((0, 0), (3, 0)), "offset delta 3 after 0, in a stretch of 2"),
        (value_of((-1, 0), (0, 0)), "offset delta -1"),
        (value_of((0, 0), (1, 2)), "subject 2 in a table of 2"),
        (value_of((0, 0), (1, -1)), "subject -1 in a table of 2"),
        (value_of((0, 0)), "1 messages in a frame of 2"),
        (value_of((0, 0), (1, 0), (2, 0)), "3 messages in a frame of 2"),
    ],
)
def test_a_value_that_contradicts_its_key_is_refused(value: bytes, complaint: str) -> None:
    """Source order, the stretch, the subject table and the count hold, or nothing is delivered."""
    with pytest.raises(DecodeError, match=complaint):
        decode_messages(value, ORIGIN)
    with pytest.raises(DecodeError, match=complaint):
        scan_value(value, ORIGIN)
    with pytest.raises(DecodeError, match=complaint):
        decode_messages(value, ORIGIN, [False, False])


@pytest.mark.parametrize(
    "value",
    [
        zigzag(0) + zigzag((1 << 63) - 1),
        zigzag(0) + zigzag(-(1 << 63)) + zigzag(1),
        zigzag(0) + zigzag(-1) + zigzag((1 << 63) - 1) + b"\0\0\0" + TAIL + b"\0",
        zigzag(0) + zigzag(-1) + zigzag(len(TAIL) + 2) + b"\0\0\0" + TAIL + b"\0",
        zigzag(0) + zigzag(1) + b"\0\0\0" + b"\x02" + zigzag((1 << 63) - 1) + b"\0" * 20,
        zigzag(0) + zigzag(1) + b"\0\0\0" + b"\x02" + zigzag(-1) + b"\0" * 20,
        zigzag(0) + zigzag(1) + b"\0\0\0" + b"\x04" + b"\0" * 20,
        zigzag(0) + zigzag(1) + b"\0\0\0" + b"\0" + zigzag(1 << 40) + b"\0" * 20,
        zigzag(0) + zigzag(1) + b"\0\0\0" + b"\0\0\0" + zigzag(1 << 40) + b"\0" * 20,
    ],
)
def test_absurd_lengths_and_counts_are_refused_before_anything_is_made(value: bytes) -> None:
    """A few bytes cannot make the reader take memory, or read what is not there."""
    with pytest.raises(DecodeError):
        scan_value(value)
    with pytest.raises(DecodeError):
        decode_messages(value, replace(ORIGIN, count=1))


@pytest.mark.parametrize(
    "table",
    [
        b"",
        b"\x02",
        zigzag(1 << 40) + b"\0",
        zigzag(-2) + zigzag(4) + b"\x02a\x02b",
        zigzag(-2) + zigzag(4) + b"\x02a\x04b\0",
        zigzag(-2) + zigzag(4) + b"\x02a\x01b\0",
        zigzag(-2) + zigzag(2) + b"\x02a\0",
        zigzag(-1) + zigzag(2) + b"\x03a\0",
        zigzag(-2) + zigzag(-1) + b"\x02a\0",
        zigzag(1) + b"\x02\xff\0",
        zigzag(1) + b"\x02a\0\0",
    ],
)
def test_a_damaged_subject_table_is_refused(table: bytes) -> None:
    """A relay jumps over the table; whoever reads it finds the damage."""
    with pytest.raises(DecodeError):
        subject_table(table)


def test_a_hop_does_not_read_the_subject_table() -> None:
    """Peeking stops at the table's size, so that transit costs the same for any table."""
    peeked = peek(KEY)
    spoilt = KEY.replace(b"acme/orders", b"\xff" * 11)
    assert peek(spoilt).tail == peeked.tail.replace(b"acme/orders", b"\xff" * 11)
    with pytest.raises(DecodeError):
        subject_table(peek(spoilt).table_bytes)


def test_a_gap_frame_stays_one_when_it_is_handed_on() -> None:
    """Kind stands before the hop, so a relay passes it on."""
    peeked = peek(encode_header(GAP))
    assert decode_header(relay_key(peeked.hop, peeked.tail, peeked.kind)) == GAP


def test_the_tail_of_a_key_is_the_same_for_every_link() -> None:
    """A sender makes it once for all links that get the same messages."""
    tail = key_tail(HEADER.origin, HEADER.flags, HEADER.ext)
    assert tail == peek(KEY).tail
    assert relay_key(HEADER.hop, tail) == KEY
    assert decode_header(relay_key(HEADER.hop, key_tail(HEADER.origin))).flags is FrameFlags.NONE


def test_what_does_not_fit_is_our_own_fault() -> None:
    """Names that are not Unicode, ids of another size, numbers too large never get out."""
    source = SourcePartition(b"short", 0)
    with pytest.raises(LocalProtocolError, match="16 bytes"):
        key_tail(replace(ORIGIN, source=source))
    with pytest.raises(LocalProtocolError, match="32-bit"):
        key_tail(replace(ORIGIN, count=1 << 31))
    with pytest.raises(LocalProtocolError, match="not Unicode"):
        key_tail(replace(ORIGIN, subjects=("\ud800",)))
    with pytest.raises(LocalProtocolError, match="not Unicode"):
        encode_tail(None, [("\ud800", None)], None)
    with pytest.raises(LocalProtocolError, match="64-bit"):
        assemble_value(0, [(1 << 63, 0, 0, TAIL)])
    with pytest.raises(LocalProtocolError, match="not in the frame's table"):
        encode_value(MESSAGES, replace(HEADER.origin, subjects=()))
    with pytest.raises(LocalProtocolError, match="no delivery"):
        delivery_prefix(MessageClass.DIRECT, (), SourcePartition(OUTBOX, 0), 0)


@pytest.mark.parametrize("number", [-16385, -16384, -8193, 8192, 16383, 16384, 24576])
def test_numbers_beyond_the_table_are_not_other_numbers(number: int) -> None:
    """A table that is indexed from its end would give them somebody else's bytes."""
    assert read_zigzag(zigzag(number), 0)[0] == number
    base, [scanned] = scan_value(assemble_value(number, [(5, 0, number, TAIL)]))
    assert (base, scanned[2]) == (number, number)


def test_an_empty_ext_is_one_byte() -> None:
    """Deliveries without additions end with it."""
    assert decode_ext(NO_EXT) == {}
    with pytest.raises(DecodeError):
        decode_ext(b"\x02")


def test_a_delivery_whose_path_begins_elsewhere_is_refused() -> None:
    """Origin and path say the same, or the header is damaged."""
    source = SourcePartition(OUTBOX, 0)
    data = delivery_header(delivery_prefix(MessageClass.DIRECT, ("tk1", "ny1"), source, 0), 7)
    assert decode_delivery(data).path == ("tk1", "ny1")
    with pytest.raises(DecodeError, match="is not where the path"):
        decode_delivery(data.replace(b"tk1", b"tk2", 1))


@pytest.mark.parametrize(
    ("name", "reserved"),
    [("mesh", True), ("mesh-subject", True), ("mesh-", True), ("meshes", False), ("Mesh", False)],
)
def test_reserved_header_names(name: str, reserved: bool) -> None:
    """`mesh` and `mesh-*` belong to the mesh, names that only look like them do not."""
    assert is_reserved(name) is reserved
