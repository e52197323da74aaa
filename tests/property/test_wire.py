"""Frames, the hand-written part of the codec, against fastavro: both ways, damaged or not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_reader, schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st

from mesh.errors import DecodeError, RemoteProtocolError
from mesh.model.frames import (
    Chain,
    Delivery,
    Era,
    FrameFlags,
    FrameHeader,
    FrameKind,
    Hop,
    Message,
    MessageClass,
    Origin,
    SourcePartition,
)
from mesh.wire.deliveries import (
    decode_delivery,
    delivery_header,
    delivery_headers,
    delivery_prefix,
    encode_delivery,
)
from mesh.wire.frames import (
    assemble_columns,
    assemble_value,
    decode_eras,
    decode_ext,
    decode_header,
    decode_messages,
    decode_value,
    encode_ext,
    encode_header,
    encode_value,
    flagged_tail,
    origin_of,
    peek,
    relay_key,
    scan_value,
    subject_table,
    with_eras,
)
from mesh.wire.header import MAGIC
from mesh.wire.subjects import encode_table
from mesh.wire.varint import read_unsigned, read_zigzag, zigzag
from schemas import parsed
from tests.property.effort import examples

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [0, 63, 64, 8191, 8192, 16383, 16384, 32768, 1 << 20, 1 << 21, 1 << 27, 1 << 28, 1 << 34]
NUMBER = (
    st.sampled_from([sign * edge + near for edge in EDGES for sign in (1, -1) for near in (-1, 0)])
    | LONG
)

INT = st.integers(-(1 << 31), (1 << 31) - 1)
COUNT = st.integers(0, (1 << 31) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
WORDS = TEXT | st.text("ab/", min_size=60, max_size=70)
BYTES = st.binary(max_size=8) | st.binary(min_size=60, max_size=70) | st.just(b"x" * 8200)
EXT = st.dictionaries(TEXT, st.binary(max_size=8), max_size=2)
SOURCE = st.builds(SourcePartition, st.binary(min_size=16, max_size=16), INT)
HOP = st.builds(
    Hop,
    zone=TEXT,
    hops=INT,
    join_hops=INT,
    crossed_external=st.booleans(),
    lane_epoch=NUMBER,
    path=st.lists(TEXT, max_size=4).map(tuple),
    chain=st.builds(Chain, source=SOURCE, previous=NUMBER, first=NUMBER, last=NUMBER),
)
ERAS = st.lists(
    st.builds(Era, st.binary(min_size=8, max_size=8), NUMBER),
    max_size=3,
    unique_by=lambda era: era.domain,
).map(tuple)
ORIGIN = st.builds(
    Origin,
    node=TEXT,
    source=SOURCE,
    generation=INT,
    first=NUMBER,
    last=NUMBER,
    count=COUNT,
    subjects=st.lists(WORDS, max_size=80).map(tuple),
    eras=ERAS,
)
HEADER = st.builds(
    FrameHeader,
    hop=HOP,
    origin=ORIGIN,
    kind=st.sampled_from(FrameKind),
    flags=st.sampled_from([FrameFlags.NONE, FrameFlags.REPAIR]),
    ext=EXT,
)


@st.composite
def frames(draw: st.DrawFn) -> tuple[FrameHeader, tuple[Message, ...]]:
    """A frame whose messages keep the rules: source order, inside the stretch, known subjects."""
    subjects = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True)) + [
        f"filler/{number}" for number in range(draw(st.sampled_from([0, 100])))
    ]
    gaps = draw(st.lists(st.integers(1, 3) | st.integers(1, 1 << 30), max_size=6))
    first = draw(st.integers(0, 1 << 62))
    offset = first - 1
    base = draw(st.integers(-(1 << 62), 1 << 62))
    messages = []
    for gap in gaps:
        offset += gap
        message = Message(
            offset=offset,
            subject=draw(st.sampled_from(subjects)),
            timestamp=base + draw(st.integers(-100, 100) | st.integers(-(1 << 61), 1 << 61)),
            key=draw(st.none() | BYTES),
            headers=tuple(draw(st.lists(st.tuples(TEXT, st.none() | BYTES), max_size=3))),
            payload=draw(st.none() | BYTES),
            ext=draw(EXT),
        )
        messages.append(message)
    origin = replace(
        draw(ORIGIN),
        subjects=tuple(subjects),
        first=first,
        last=max(first, offset) + draw(st.integers(0, 5)),
        count=len(messages),
    )
    return FrameHeader(hop=draw(HOP), origin=origin, ext=draw(EXT)), tuple(messages)


def by_fastavro(schema: str, data: bytes, not_unicode: str = "strict") -> dict[str, Any]:
    buffer = BytesIO(data)
    fields: dict[str, Any] = schemaless_reader(
        buffer, parsed(schema), None, handle_unicode_errors=not_unicode
    )
    assert buffer.tell() == len(data)
    return fields


def of_fastavro(schema: str, fields: Mapping[str, Any]) -> bytes:
    buffer = BytesIO()
    schemaless_writer(buffer, parsed(schema), fields)
    return buffer.getvalue()


def header_fields(header: FrameHeader) -> dict[str, Any]:
    hop, origin, chain = header.hop, header.origin, header.hop.chain
    return {
        "magic": MAGIC,
        "version": 1,
        "kind": header.kind.value,
        "zone": hop.zone,
        "hops": hop.hops,
        "join_hops": hop.join_hops,
        "crossed_external": hop.crossed_external,
        "lane_epoch": hop.lane_epoch,
        "path": list(hop.path),
        "chain": {
            "topic": chain.source.topic_id,
            "partition": chain.source.partition,
            "previous": chain.previous,
            "first": chain.first,
            "last": chain.last,
        },
        "origin": {
            "node": origin.node,
            "topic": origin.source.topic_id,
            "partition": origin.source.partition,
            "generation": origin.generation,
            "first": origin.first,
            "last": origin.last,
            "count": origin.count,
            "eras": [{"domain": era.domain, "number": era.number} for era in origin.eras],
            "subjects": list(origin.subjects),
        },
        "flags": int(header.flags),
        "ext": dict(header.ext),
    }


def value_fields(messages: Sequence[Message], origin: Origin) -> dict[str, Any]:
    base = messages[0].timestamp if messages else 0
    return {
        "base_timestamp": base,
        "messages": [
            {
                "offset_delta": message.offset - origin.first,
                "subject": origin.subjects.index(message.subject),
                "timestamp_delta": message.timestamp - base,
                "key": message.key,
                "headers": [{"name": name, "value": value} for name, value in message.headers],
                "payload": message.payload,
                "ext": dict(message.ext),
            }
            for message in messages
        ],
    }


def in_blocks(items: Sequence[bytes], cut: int, sized: bool) -> bytes:
    """Write an Avro array as another writer may: in two blocks, with or without their sizes."""
    pieces = []
    for block in (items[:cut], items[cut:]):
        body = b"".join(block)
        if block and sized:
            pieces += [zigzag(-len(block)), zigzag(len(body)), body]
        elif block:
            pieces += [zigzag(len(block)), body]
    return b"".join((*pieces, b"\x00"))


def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Flip, cut, repeat or push in a few bytes."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        piece = draw(st.binary(max_size=2) | st.sampled_from([b"\xff" * 9, b"\x80" * 11, b"\x01"]))
        drop = draw(st.sampled_from([0, 1, 1, 1, 2, len(data)]))
        data = data[:at] + piece + data[at + drop :]
    return data


@examples()
@given(NUMBER)
def test_numbers_are_avro_longs(number: int) -> None:
    """Every number of 64 bits has the bytes that fastavro writes, and comes back."""
    buffer = BytesIO()
    schemaless_writer(buffer, "long", number)
    data = zigzag(number)
    assert data == buffer.getvalue()
    assert read_zigzag(b"??" + data + b"!", 2) == (number, 2 + len(data))


@examples()
@given(st.binary(max_size=12))
@example(b"\x80" * 12)
@example(b"\xff" * 9 + b"\x02")
def test_any_bytes_are_a_number_or_refused(data: bytes) -> None:
    """No bytes but a whole number of at most 64 bits are read as one."""
    try:
        number, end = read_zigzag(data, 0)
    except DecodeError:
        whole = [index for index, byte in enumerate(data[:10]) if byte < 128]
        assert not whole or (whole[0] == 9 and data[9] > 1)
        return
    assert number == schemaless_reader(BytesIO(data), "long", None)
    assert end == 1 + next(index for index, byte in enumerate(data) if byte < 128)
    assert read_unsigned(data, 0) == (((number << 1) ^ (number >> 63)) & (1 << 64) - 1, end)


@examples()
@given(HEADER)
def test_a_key_means_the_same_to_fastavro(header: FrameHeader) -> None:
    """What we write fastavro reads, what fastavro writes we read."""
    assert by_fastavro("frame_header", encode_header(header)) == header_fields(header)
    assert decode_header(of_fastavro("frame_header", header_fields(header))) == header
    assert decode_header(encode_header(header)) == header


@examples()
@given(st.lists(WORDS, max_size=80), st.integers(0, 80), st.booleans())
def test_subject_tables_may_come_in_blocks(subjects: list[str], cut: int, sized: bool) -> None:
    """A table in one or two blocks, with sizes or without, is the same table."""
    encoded = [zigzag(len(subject.encode())) + subject.encode() for subject in subjects]
    assert subject_table(in_blocks(encoded, cut, sized)) == tuple(subjects)
    assert encode_table(subjects) == in_blocks(encoded, len(encoded), sized=True)


@examples()
@given(HEADER, HOP)
def test_a_relay_writes_the_key_that_a_sender_would(header: FrameHeader, hop: Hop) -> None:
    """Patching gives the same bytes as writing the changed header anew."""
    peeked = peek(encode_header(header))
    assert peeked.hop == header.hop
    assert origin_of(peeked) == header.origin
    assert peeked.flags == header.flags
    relayed = relay_key(hop, peeked.tail, peeked.kind)
    assert relayed == encode_header(replace(header, hop=hop))
    repaired = relay_key(hop, flagged_tail(peeked, FrameFlags.REPAIR), peeked.kind)
    assert repaired == encode_header(replace(header, hop=hop, flags=FrameFlags.REPAIR))


@examples()
@given(HEADER, ERAS)
def test_a_node_of_another_domain_adds_its_era_and_changes_nothing_else(
    header: FrameHeader, eras: tuple[Era, ...]
) -> None:
    """Spec: K10."""
    peeked = peek(encode_header(header))
    assert decode_eras(peeked.eras_bytes) == header.origin.eras
    stamped = relay_key(header.hop, with_eras(peeked, peeked.tail, eras), peeked.kind)
    origin = replace(header.origin, eras=eras)
    assert stamped == encode_header(replace(header, origin=origin))


@examples()
@given(st.binary(max_size=40))
def test_what_has_no_magic_is_no_frame(key: bytes) -> None:
    """A stray record is damaged data, whatever its first byte says: never another version's."""
    if key.startswith(MAGIC):
        return
    with pytest.raises(DecodeError):
        peek(key)


@examples()
@given(HEADER, HOP)
def test_a_relay_keeps_what_another_writer_wrote(header: FrameHeader, hop: Hop) -> None:
    """A key of fastavro's, whose table tells no size, is patched without change of its tail."""
    key = of_fastavro("frame_header", header_fields(header))
    peeked = peek(key)
    assert key.endswith(peeked.tail)
    assert subject_table(peeked.table_bytes) == header.origin.subjects
    relayed = relay_key(hop, peeked.tail, peeked.kind)
    assert by_fastavro("frame_header", relayed) == header_fields(replace(header, hop=hop))


@examples()
@given(frames())
def test_a_value_means_the_same_to_fastavro(frame: tuple[FrameHeader, Sequence[Message]]) -> None:
    """What we write is, byte for byte, what fastavro writes, and both are read."""
    header, messages = frame
    value = encode_value(messages, header.origin)
    fields = value_fields(messages, header.origin)
    assert value == of_fastavro("frame_value", fields)
    assert by_fastavro("frame_value", value) == fields
    assert decode_value(value, header) == messages


@examples()
@given(frames(), st.integers(0, 6), st.booleans())
def test_values_may_come_in_blocks(
    frame: tuple[FrameHeader, Sequence[Message]], cut: int, sized: bool
) -> None:
    """Messages in one or two blocks, with sizes or without, are the same messages."""
    header, messages = frame
    value = encode_value(messages, header.origin)
    base, scanned = scan_value(value)
    numbers = [b"".join(map(zigzag, item[:3])) for item in scanned]
    items = [
        number + value[item[3] : item[4]] for number, item in zip(numbers, scanned, strict=True)
    ]
    foreign = zigzag(base) + in_blocks(items, cut, sized)
    assert decode_value(foreign, header) == messages
    rebased, rescanned = scan_value(foreign)
    again = [(*item[:3], foreign[item[3] : item[4]]) for item in rescanned]
    assert assemble_value(rebased, again) == value


@examples()
@given(frames(), st.data())
def test_only_wanted_subjects_are_delivered(
    frame: tuple[FrameHeader, Sequence[Message]], data: st.DataObject
) -> None:
    """Leaving out subjects gives the other messages, unchanged and in order."""
    header, messages = frame
    count = len(header.origin.subjects)
    wanted = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    value = encode_value(messages, header.origin)
    every = decode_messages(value, header.origin)
    assert decode_messages(value, header.origin, wanted) == [
        message for message in every if wanted[message[1]]
    ]


@examples()
@given(frames(), st.data())
def test_a_damaged_value_is_refused_or_is_what_fastavro_reads(
    frame: tuple[FrameHeader, Sequence[Message]], data: st.DataObject
) -> None:
    """No damage leads to another exception, or to a message that is not in the bytes."""
    header, messages = frame
    value = damaged(data.draw, encode_value(messages, header.origin))
    try:
        base, scanned = scan_value(value, data.draw(st.sampled_from([None, header.origin])))
    except DecodeError:
        pass
    else:
        fields = by_fastavro("frame_value", value, "replace")  # names are not looked at yet
        assert base == fields["base_timestamp"]
        names = ("offset_delta", "subject", "timestamp_delta")
        assert [item[:3] for item in scanned] == [
            tuple(message[name] for name in names) for message in fields["messages"]
        ]
    try:
        read = decode_value(value, header)
    except DecodeError:
        return
    fields = by_fastavro("frame_value", value)
    assert value_fields(read, header.origin)["messages"] == [
        {**message, "timestamp_delta": message["timestamp_delta"] - first}
        for first in [message["timestamp_delta"] for message in fields["messages"][:1]]
        for message in fields["messages"]
    ]
    assert not read or read[0].timestamp == (
        fields["base_timestamp"] + fields["messages"][0]["timestamp_delta"]
    )


@examples()
@given(HEADER, st.booleans(), st.data())
def test_a_damaged_key_is_refused_or_is_what_fastavro_reads(
    header: FrameHeader, foreign: bool, data: st.DataObject
) -> None:
    """No damage leads to another exception, or to a header that is not in the bytes."""
    whole = of_fastavro("frame_header", header_fields(header)) if foreign else None
    key = damaged(data.draw, whole or encode_header(header))
    try:
        read = decode_header(key)
    except RemoteProtocolError:
        return
    assert header_fields(read) == by_fastavro("frame_header", key)
    assert peek(key).hop == read.hop


@examples()
@given(EXT)
def test_an_ext_comes_back(ext: dict[str, bytes]) -> None:
    """The bytes of an `ext` stand for its entries."""
    assert decode_ext(encode_ext(ext)) == ext


@examples()
@given(
    st.builds(
        Delivery,
        message_class=st.sampled_from(MessageClass),
        path=st.lists(TEXT, min_size=1, max_size=4).map(tuple),
        source=SOURCE,
        generation=INT,
        offset=NUMBER,
        ext=EXT,
    )
)
def test_a_delivery_made_in_two_steps_is_the_whole_header(value: Delivery) -> None:
    """Prefix, offset and ext give the bytes that fastavro writes, and come back."""
    prefix = delivery_prefix(value.message_class, value.path, value.source, value.generation)
    header = delivery_header(prefix, value.offset, encode_ext(value.ext))
    assert header == encode_delivery(value)
    assert decode_delivery(header) == value


@examples()
@given(frames())
def test_a_value_of_columns_is_the_value_of_its_rows(
    frame: tuple[FrameHeader, Sequence[Message]],
) -> None:
    """The faster way of a lane gives the same bytes."""
    header, messages = frame
    if not messages:
        return
    origin = header.origin
    value = encode_value(messages, origin)
    columns = assemble_columns(
        origin.first,
        [message.offset for message in messages],
        origin.subjects,
        [message.subject for message in messages],
        [message.timestamp for message in messages],
        [value[item[3] : item[4]] for item in scan_value(value)[1]],
    )
    assert columns == value


@examples()
@given(st.lists(NUMBER.map(abs).filter(lambda offset: offset < 1 << 63), max_size=8))
@example([0, 8191, 8192, 8193, 16383, 16384])
def test_delivery_headers_of_a_frame_are_those_of_its_messages(offsets: list[int]) -> None:
    """What neighbouring offsets share never reaches an offset that does not share it."""
    prefix = delivery_prefix(MessageClass.DIRECT, ("a", "b"), SourcePartition(bytes(16), 0), 0)
    rising = sorted({near for offset in offsets for near in (offset, max(0, offset - 1))})
    expected = [delivery_header(prefix, offset) for offset in rising]
    assert delivery_headers(prefix, rising) == expected
