"""The key of a frame: written once at ingress, then peeked at and patched by every hop.

A hop reads its own part, leaves the rest as bytes and puts a new part in front. The subject
table is written as a block that names its size, so that a hop jumps over it. Spec: K10, K11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mesh.errors import DecodeError, LocalProtocolError
from mesh.model.frames import (
    Chain,
    Era,
    FrameFlags,
    FrameHeader,
    FrameKind,
    Hop,
    Origin,
    SourcePartition,
)
from mesh.wire.blocks import (
    NO_EXT,
    encode_ext,
    encode_name,
    read_ext,
    read_text,
    read_texts,
    skip_texts,
)
from mesh.wire.eras import decode_eras, encode_eras, skip_eras
from mesh.wire.records import check_version
from mesh.wire.subjects import encode_table, subject_table
from mesh.wire.varint import read_zigzag, zigzag
from schemas import VERSION

MAGIC = b"\xf7M"
"""Start of the key of every frame; anything else is not a frame. Spec: K10."""

_INT_MAX = (1 << 31) - 1
_INT_MIN = -(1 << 31)
_ID_SIZE = 16
_TRUTH = (b"\x00", b"\x01")
_KINDS = (FrameKind.DATA, FrameKind.GAP)
_FLAGS = {flags.value: flags for flags in (FrameFlags.NONE, FrameFlags.REPAIR)}
_PREFIXES = {kind: MAGIC + zigzag(VERSION) + zigzag(index) for index, kind in enumerate(_KINDS)}


@dataclass(slots=True)
class Peeked:
    """A frame's key, read as far as a hop needs it.

    Attributes:
        key: The whole key.
        kind: Data or gap.
        hop: What the sender wrote for this hop.
        node: Name of the origin node.
        source: Its ingress partition.
        generation: Of that partition.
        first, last: Range of its offsets.
        count: Messages in the value.
        flags: For example repair.
        origin_start: Where the bytes that travel untouched begin.
        eras_start: Where the eras are, up to the subject table.
        table_start, table_end: Where the subject table is.
    """

    key: bytes
    kind: FrameKind
    hop: Hop
    node: str
    source: SourcePartition
    generation: int
    first: int
    last: int
    count: int
    flags: FrameFlags
    origin_start: int
    eras_start: int
    table_start: int
    table_end: int

    @property
    def tail(self) -> bytes:
        """Return what a relay passes on untouched: origin part, flags, ext."""
        return self.key[self.origin_start :]

    @property
    def eras_bytes(self) -> bytes:
        """Return the eras as bytes: equal bytes, equal eras."""
        return self.key[self.eras_start : self.table_start]

    @property
    def table_bytes(self) -> bytes:
        """Return the subject table as bytes: equal bytes, equal subjects, equal routing."""
        return self.key[self.table_start : self.table_end]


def encode_header(header: FrameHeader) -> bytes:
    """Return the key of a frame.

    Raises:
        LocalProtocolError: A value does not fit the schema.

    Spec: K10.
    """
    return relay_key(header.hop, key_tail(header.origin, header.flags, header.ext), header.kind)


def key_tail(
    origin: Origin, flags: FrameFlags = FrameFlags.NONE, ext: Mapping[str, bytes] | None = None
) -> bytes:
    """Return what all copies of a frame's key have in common, for `relay_key`.

    Raises:
        LocalProtocolError: A value does not fit the schema.
    """
    return b"".join(
        (
            encode_name(origin.node),
            _source_bytes(origin.source),
            _int(origin.generation),
            zigzag(origin.first),
            zigzag(origin.last),
            _int(origin.count),
            encode_eras(origin.eras),
            encode_table(origin.subjects),
            _int(flags),
            encode_ext(ext or {}),
        )
    )


def relay_key(hop: Hop, tail: bytes, kind: FrameKind = FrameKind.DATA) -> bytes:
    """Return the key of a frame that is passed on: a new hop before the untouched tail.

    Args:
        hop: What the receiver of this link will read.
        tail: `Peeked.tail` of the frame as it arrived.
        kind: `Peeked.kind`; only gap frames need to say it.

    Raises:
        LocalProtocolError: A value does not fit the schema.

    Spec: K10.
    """
    path, chain = hop.path, hop.chain
    return b"".join(
        (
            _PREFIXES[kind],
            encode_name(hop.zone),
            _int(hop.hops),
            _int(hop.join_hops),
            _TRUTH[hop.crossed_external],
            zigzag(hop.lane_epoch),
            zigzag(len(path)) if path else b"",
            *map(encode_name, path),
            b"\x00",
            _source_bytes(chain.source),
            zigzag(chain.previous),
            zigzag(chain.first),
            zigzag(chain.last),
            tail,
        )
    )


def flagged_tail(peeked: Peeked, flags: FrameFlags) -> bytes:
    """Return the tail with other flags, as a repair writes it. Spec: K20."""
    _, after = read_zigzag(peeked.key, peeked.table_end)
    origin = peeked.key[peeked.origin_start : peeked.table_end]
    return origin + _int(flags) + peeked.key[after:]


def with_eras(peeked: Peeked, tail: bytes, eras: tuple[Era, ...]) -> bytes:
    """Return a frame's tail with other eras, as the first node of another domain writes it.

    Args:
        peeked: The frame.
        tail: Its `Peeked.tail`, perhaps with other flags.
        eras: Those of the frame and the node's own.

    Spec: K10.
    """
    start, end = (at - peeked.origin_start for at in (peeked.eras_start, peeked.table_start))
    return tail[:start] + encode_eras(eras) + tail[end:]


def peek(key: bytes) -> Peeked:
    """Read a frame's key as far as a hop needs it; the subject table is left unread. Spec: K10.

    Raises:
        DecodeError: The bytes are not such a key.
        UnknownVersionError: Its major version is not known here.
    """
    return _peek(key)[0]


def decode_header(key: bytes) -> FrameHeader:
    """Return all that the key of a frame says. Spec: K10.

    Raises:
        DecodeError: The bytes are not such a key.
        UnknownVersionError: Its major version is not known here.
    """
    peeked, ext_start = _peek(key)
    return FrameHeader(
        hop=peeked.hop,
        origin=origin_of(peeked),
        kind=peeked.kind,
        flags=peeked.flags,
        ext=read_ext(key, ext_start)[0],
    )


def origin_of(peeked: Peeked) -> Origin:
    """Return where the frame's messages entered the mesh, with the subject table and the eras.

    Raises:
        DecodeError: The subject table or the eras are damaged.
    """
    return Origin(
        node=peeked.node,
        source=peeked.source,
        generation=peeked.generation,
        first=peeked.first,
        last=peeked.last,
        count=peeked.count,
        subjects=subject_table(peeked.table_bytes),
        eras=decode_eras(peeked.eras_bytes),
    )


def _source_bytes(source: SourcePartition) -> bytes:
    if len(source.topic_id) != _ID_SIZE:
        raise LocalProtocolError(f"a topic id has {_ID_SIZE} bytes, not {len(source.topic_id)}")
    return source.topic_id + _int(source.partition)


def _int(number: int) -> bytes:
    if not _INT_MIN <= number <= _INT_MAX:
        raise LocalProtocolError(f"{number} does not fit into a 32-bit number")
    return zigzag(number)


def _read_int(key: bytes, position: int) -> tuple[int, int]:
    if position < len(key) and key[position] < 128:
        byte = key[position]
        return (byte >> 1) ^ -(byte & 1), position + 1
    number, end = read_zigzag(key, position)
    if not _INT_MIN <= number <= _INT_MAX:
        raise DecodeError(f"{number} at byte {position} does not fit into a 32-bit number")
    return number, end


def _read_source(key: bytes, position: int) -> tuple[SourcePartition, int]:
    end = position + _ID_SIZE
    if end > len(key):
        raise DecodeError(f"a topic id at byte {position} has {_ID_SIZE} bytes")
    partition, after = _read_int(key, end)
    return SourcePartition(key[position:end], partition), after


def _read_hop(key: bytes, position: int) -> tuple[Hop, int]:
    zone, position = read_text(key, position)
    hops, position = _read_int(key, position)
    join_hops, position = _read_int(key, position)
    crossed = key[position : position + 1]
    if crossed not in _TRUTH:
        raise DecodeError(f"no truth value at byte {position}")
    lane_epoch, position = read_zigzag(key, position + 1)
    path, position = read_texts(key, position)
    source, position = _read_source(key, position)
    previous, position = read_zigzag(key, position)
    first, position = read_zigzag(key, position)
    last, position = read_zigzag(key, position)
    hop = Hop(
        zone=zone,
        hops=hops,
        join_hops=join_hops,
        crossed_external=crossed == _TRUTH[1],
        lane_epoch=lane_epoch,
        path=tuple(path),
        chain=Chain(source=source, previous=previous, first=first, last=last),
    )
    return hop, position


def _peek(key: bytes) -> tuple[Peeked, int]:
    if not key.startswith(MAGIC):
        raise DecodeError(f"no frame: its key begins with {key[:8].hex() or 'nothing'}")
    version, position = read_zigzag(key, len(MAGIC))
    check_version("frame_header", version)
    kind, position = read_zigzag(key, position)
    if not 0 <= kind < len(_KINDS):
        raise DecodeError(f"a frame of the unknown kind {kind}")
    hop, origin_start = _read_hop(key, position)
    node, position = read_text(key, origin_start)
    source, position = _read_source(key, position)
    generation, position = _read_int(key, position)
    first, position = read_zigzag(key, position)
    last, position = read_zigzag(key, position)
    count, eras_start = _read_int(key, position)
    if count < 0:
        raise DecodeError(f"a frame of {count} messages")
    table_start = skip_eras(key, eras_start)
    table_end = skip_texts(key, table_start)
    flags, ext_start = _read_int(key, table_end)
    if flags not in _FLAGS:
        raise DecodeError(f"a frame with the unknown flags {flags}")
    end = ext_start + 1 if key[ext_start:] == NO_EXT else read_ext(key, ext_start)[1]
    if end != len(key):
        raise DecodeError(f"{len(key) - end} bytes follow the frame's key")
    peeked = Peeked(
        key=key,
        kind=_KINDS[kind],
        hop=hop,
        node=node,
        source=source,
        generation=generation,
        first=first,
        last=last,
        count=count,
        flags=_FLAGS[flags],
        origin_start=origin_start,
        eras_start=eras_start,
        table_start=table_start,
        table_end=table_end,
    )
    return peeked, ext_start
