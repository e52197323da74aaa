"""The header `mesh` of a delivered record: identity, path, class. Spec: K8, K9.

Everything but the offset is the same for a whole frame, so it is built once and the offset added
per message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from mesh.errors import DecodeError, LocalProtocolError, UnknownVersionError
from mesh.model.frames import Delivery, MessageClass, SourcePartition
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.wire.blocks import NO_EXT, encode_name
from mesh.wire.records import Fields, RecordCodec
from mesh.wire.varint import MORE, zigzag
from schemas import VERSION

_CLASSES = {MessageClass.GUARANTEED: zigzag(0), MessageClass.DIRECT: zigzag(1)}


def delivery_prefix(
    message_class: MessageClass, path: Sequence[str], source: SourcePartition, generation: int
) -> bytes:
    """Return the bytes that all messages of one frame have in common.

    Args:
        message_class: Class of the messages, not of the endpoint.
        path: Nodes visited, origin first, the delivering node last.
        source: Ingress partition at the origin.
        generation: Of that partition.

    Raises:
        LocalProtocolError: The path is empty, or the topic id does not have 16 bytes.

    Spec: K8, K9.
    """
    if not path or len(source.topic_id) != 16:
        raise LocalProtocolError(f"no delivery by path {path!r} from {source!r}")
    return b"".join(
        (
            zigzag(VERSION),
            _CLASSES[message_class],
            zigzag(len(path)),
            *map(encode_name, path),
            b"\x00",
            encode_name(path[0]),
            source.topic_id,
            zigzag(source.partition),
            zigzag(generation),
        )
    )


def delivery_header(prefix: bytes, offset: int, ext: bytes = NO_EXT) -> bytes:
    """Return the header of one message: the result of `delivery_prefix`, its offset and `ext`."""
    return b"".join((prefix, zigzag(offset), ext))


def delivery_headers(prefix: bytes, offsets: Sequence[int]) -> list[bytes]:
    """Return `delivery_header` of many messages of one frame.

    Neighbouring offsets share all but their lowest 13 bits, so those above are encoded once.

    Args:
        prefix: As `delivery_prefix` gave it.
        offsets: Of each message, rising.
    """
    found: list[bytes] = []
    begin = 0
    while begin < len(offsets):
        block = offsets[begin] >> 13
        if not block:
            found.append(delivery_header(prefix, offsets[begin]))
            begin += 1
            continue
        end = bisect_left(offsets, (block + 1) << 13, begin)
        rest = zigzag(offsets[begin])[2:] + NO_EXT
        found += [prefix + MORE[(offset & 8191) << 1] + rest for offset in offsets[begin:end]]
        begin = end
    return found


def _delivery(fields: Fields) -> Delivery:
    path = tuple(fields["path"])
    if path[:1] != (fields["origin"],):
        raise ValueError(f"origin {fields['origin']} is not where the path {path} begins")
    return Delivery(
        message_class=MessageClass(fields["class"]),
        path=path,
        source=SourcePartition(fields["topic"], fields["partition"]),
        generation=fields["generation"],
        offset=fields["offset"],
        ext=fields["ext"],
    )


_DELIVERY = RecordCodec[Delivery](
    "delivery",
    lambda value: {
        "class": value.message_class.value,
        "path": list(value.path),
        "origin": value.path[0],
        "topic": value.source.topic_id,
        "partition": value.source.partition,
        "generation": value.generation,
        "offset": value.offset,
        "ext": value.ext,
    },
    _delivery,
)


def encode_delivery(value: Delivery) -> bytes:
    """Return the header of a delivered record, whole.

    Raises:
        LocalProtocolError: The value does not fit the schema.
    """
    return _DELIVERY.encode(value)


def decode_delivery(data: bytes) -> Delivery:
    """Return what the header `mesh` of a delivered record says.

    Raises:
        DecodeError: The bytes are not such a header.
        UnknownVersionError: Its major version is not known here.
    """
    return _DELIVERY.decode(data)


def delivery_of(headers: Sequence[tuple[str, bytes | None]]) -> Delivery:
    """Return the delivery in the headers of an endpoint's record, whoever wrote it.

    Raises:
        DecodeError: The mesh did not write them, or an unknown version of it did.
    """
    if [name for name, _ in headers[-2:]] != [SUBJECT_HEADER, MESH_HEADER]:
        raise DecodeError("the mesh did not write it")
    try:
        (headers[-2][1] or b"").decode()
        return decode_delivery(headers[-1][1] or b"")
    except (UnknownVersionError, UnicodeDecodeError) as error:
        raise DecodeError(str(error)) from error
