"""Lengths and branches, one byte at a time: each is checked where it stands."""

import pytest

from mesh.errors import DecodeError
from mesh.model.frames import Origin, SourcePartition
from mesh.wire.blocks import each_block, read_bytes, read_text, skip_bytes
from mesh.wire.frames import assemble_value, decode_ext, encode_tail, scan_value
from mesh.wire.messages import decode_messages
from mesh.wire.varint import read_unsigned, zigzag

ORIGIN = Origin(
    node="a",
    source=SourcePartition(bytes(16), 0),
    generation=0,
    first=0,
    last=0,
    count=1,
    subjects=("s",),
)


@pytest.mark.parametrize("data", [b"\x06ab", b"\x01a", zigzag(-3) + b"abc", zigzag(1 << 40), b""])
def test_bytes_that_are_not_there_are_not_read(data: bytes) -> None:
    """A length beyond the end, or a negative one, is refused and not cut to fit."""
    with pytest.raises(DecodeError):
        read_bytes(data, 0)
    with pytest.raises(DecodeError):
        read_text(data, 0)
    with pytest.raises(DecodeError):
        skip_bytes(data, 0)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (zigzag(5) + b"abcd", "5 items at byte 0 do not fit"),
        (zigzag(-5) + zigzag(5) + b"abcd", "5 items at byte 0 do not fit"),
        (zigzag(-2) + zigzag(3) + b"abcd\0", "a block ends at byte 4 and said 5"),
    ],
)
def test_counts_are_refused_before_the_first_item(data: bytes, complaint: str) -> None:
    """What one item takes at least says how many there can be."""
    asked = []

    def step(at: int, count: int) -> int:
        asked.append(count)
        return at + count

    with pytest.raises(DecodeError, match=complaint):
        each_block(data, 0, 1, step)
    assert asked in ([], [2])


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 70, b"k" * 9_000])
@pytest.mark.parametrize("payload", [None, b"", b"p", b"p" * 70, b"p" * 9_000])
@pytest.mark.parametrize("headers", [[], [("h", b"v" * 64), ("h", None)]])
def test_every_shape_of_tail_refuses_another_length_or_branch(
    key: bytes | None, payload: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """A negative length, one byte too many or too few, an unknown branch: never a message."""
    tail = encode_tail(key, headers, payload)
    whole = assemble_value(0, [(0, 0, 0, tail)])
    assert decode_messages(whole, ORIGIN) == [
        (0, 0, 0, key, headers or (), payload, b"\x00"),
    ]
    contents = sum(len(content) for content in (key, payload) if content)
    for at in range(len(tail)):
        if contents > 1_000 and tail[at] in b"kp":
            continue
        for byte in {tail[at] ^ 1, tail[at] ^ 4, tail[at] ^ 128} - {tail[at]}:
            spoilt = assemble_value(0, [(0, 0, 0, tail[:at] + bytes((byte,)) + tail[at + 1 :])])
            for read in (lambda value: decode_messages(value, ORIGIN), scan_value):
                try:
                    read(spoilt)
                except DecodeError:
                    continue
                # Only what a message says may differ, not how it is written.
                assert tail[at] in b"kpvh"


@pytest.mark.parametrize(
    "tail",
    [
        b"\0\0\2\3x\0",
        b"\2\3x\0\0\0",
        b"\0\0\4\2x\0",
        b"\1\2x\0\0\0",
        b"\0\0\2\x0ax\0",
        b"\2\x7ex\0\0\0",
    ],
)
def test_a_false_length_and_an_unknown_branch_are_refused(tail: bytes) -> None:
    """All else fits, so that nothing but this check can find it."""
    value = assemble_value(0, [(0, 0, 0, tail)])
    with pytest.raises(DecodeError, match="no key, header or payload"):
        decode_messages(value, ORIGIN)
    with pytest.raises(DecodeError, match="no key, header or payload"):
        scan_value(value)


def test_numbers_have_ten_bytes_and_64_bits_at_most() -> None:
    """A long row of continued bytes is refused at the tenth, not read to its end."""
    with pytest.raises(DecodeError, match="more than ten bytes"):
        read_unsigned(b"\x80" * 1_000_000, 0)
    with pytest.raises(DecodeError, match="more than 64 bits"):
        read_unsigned(b"\xff" * 9 + b"\x02", 0)


def test_an_entry_of_ext_is_whole() -> None:
    """Name and value are both there."""
    assert decode_ext(b"\x02\x02a\x02b\x00") == {"a": b"b"}
    with pytest.raises(DecodeError):
        decode_ext(b"\x02\x02a\x04b\x00")
