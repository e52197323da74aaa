"""Kafka records as parsed columns, on the JVM only. Spec: K7, K8, K10, performance.md 5."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from mesh.model.queues import MOVED_BYTES, MOVED_EXT
from mesh.model.record_headers import GAP_HEADER, MESH_HEADER, SUBJECT_HEADER
from schemas import VERSION, text
from streaming.tables.cached_columns import cached_columns
from streaming.tables.rows import SUBJECT_BYTES_MAX
from streaming.tables.topics import ANNOUNCEMENT, CONTROL, ENDPOINT, INGRESS, OUTBOX, SMALL_KINDS

#: What `from_avro` returns for bytes that do not match the schema: null, and no failed query.
_LENIENT = {"mode": "PERMISSIVE"}

#: Reads only what an audit needs of a frame's value: Avro then skips payloads unallocated.
FRAME_VALUE_READER = """{"type": "record", "name": "FrameValue", "namespace": "io.trellis.mesh",
"fields": [{"name": "messages", "type": {"type": "array", "items": {"type": "record",
"name": "Message", "fields": [{"name": "offset_delta", "type": "long"},
{"name": "ext", "type": {"type": "map", "values": "bytes"}, "default": {}}]}}}]}"""


NO_UTF8 = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are not text where Java has made text of them."""

_RESERVED = f"{MESH_HEADER}-"

_FIRST_MS = 1
"""The create time under which a message of create time 0 is delivered: for the mesh's client
library 0 means now."""


DELIVERY_READER = """{"type": "record", "name": "Delivery", "namespace": "io.trellis.mesh",
"fields": [{"name": "version", "type": "int"},
{"name": "class", "type": {"type": "enum", "name": "DeliveryClass",
"symbols": ["guaranteed", "direct"]}},
{"name": "path", "type": {"type": "array", "items": "string"}},
{"name": "topic", "type": {"type": "fixed", "name": "TopicId", "size": 16}},
{"name": "partition", "type": "int"}, {"name": "generation", "type": "int"},
{"name": "offset", "type": "long"},
{"name": "ext", "type": {"type": "map", "values": "bytes"}, "default": {}}]}"""


def parsed(raw: DataFrame, prefix: str, message_bytes_max: int) -> DataFrame:
    """Return the records of all audited topics with their parsed parts.

    Args:
        raw: Columns `topic, partition, offset, timestamp, key, value, headers` of Spark's Kafka
            source.
        prefix: Start of every topic name of the mesh.
        message_bytes_max: Larger messages are refused at ingress. Spec: K6.

    Returns:
        `topic, partition, offset, at_ms, topic_kind, letter, subject, is_odd, delivery, header,
        content, size, key, value`; `key` and `value` are null where their bytes may be many,
        `content` stands for what clients wrote, `size` is that of key and value in bytes, and
        `is_odd` marks a published message that the mesh may have had to refuse.
    """
    opened = placed(raw, prefix).withColumns(_read()).withColumns(_sound())
    return opened.select(*_parts(message_bytes_max))


@cached_columns
def _read() -> dict[str, Column]:
    is_frame = (F.col("topic_kind") == OUTBOX) & (F.col("letter") != CONTROL)
    headers = F.when(F.col("topic_kind") == ENDPOINT, F.col("headers"))
    return {
        "header": _read_header(F.when(is_frame, F.col("key"))),
        "delivery": _read_delivery(headers),
    }


@cached_columns
def _sound() -> dict[str, Column]:
    return {"header": _sound_header(), "delivery": _sound_delivery()}


@cached_columns
def _parts(message_bytes_max: int) -> list[Column]:
    kind = F.col("topic_kind")
    is_control = (kind == OUTBOX) & (F.col("letter") == CONTROL)
    is_small = kind.isin(*SMALL_KINDS) | is_control
    return [
        *map(F.col, ("topic", "partition", "offset")),
        F.unix_millis("timestamp").alias("at_ms"),
        *map(F.col, ("topic_kind", "letter")),
        F.when(kind == INGRESS, _subject(message_bytes_max))
        .when(kind == ENDPOINT, _delivered_subject())
        .alias("subject"),
        ((kind == INGRESS) & _has_odd_name()).alias("is_odd"),
        *map(F.col, ("delivery", "header")),
        F.when(kind.isin(INGRESS, ENDPOINT), content_column()).alias("content"),
        size_column().alias("size"),
        F.when(is_small, F.col("key")).alias("key"),
        F.when(is_small, F.col("value")).alias("value"),
    ]


def placed(raw: DataFrame, prefix: str) -> DataFrame:
    """Return records with the kind of their topic: `topic_kind` and `letter`.

    Native string operations in a projection of their own: computed once per record.
    """
    return raw.withColumns(_places(prefix))


@cached_columns
def _places(prefix: str) -> dict[str, Column]:
    start = F.substring_index(F.substr(F.col("topic"), F.lit(len(prefix) + 1)), ".", 2)
    kind = F.substring_index(start, ".", -1)
    last_header = F.try_element_at(F.col("headers"), F.lit(-1))["key"]
    is_announcement = (kind == ENDPOINT) & (F.size("headers") == 1) & (last_header == GAP_HEADER)
    return {
        "topic_kind": F.when(is_announcement, ANNOUNCEMENT).otherwise(kind),
        "letter": F.substring_index(F.col("topic"), ".", -1),
    }


def _subject(message_bytes_max: int) -> Column:
    """Return the subject of an ingress record, or null if the mesh must refuse it. Spec: K6, K7.

    Lambdas over arrays run interpreted, so the usual record, whose only header is the subject, has
    a special path.
    """
    headers, only, is_plain = F.col("headers"), _only(), _is_plain()
    named = F.filter(headers, lambda header: header["key"] == SUBJECT_HEADER)
    sizes = F.transform(headers, lambda header: _length(header["key"]) + _length(header["value"]))
    all_headers = F.aggregate(sizes, F.lit(0), lambda total, one: total + one)
    is_fit = size_column() + F.when(
        is_plain, _length(only["key"]) + _length(only["value"])
    ).otherwise(all_headers)
    subject = (
        F.when(is_plain, only["value"])
        .when(F.size(named) == 1, F.get(named, F.lit(0))["value"])
        .cast("string")
    )
    is_short = F.octet_length(subject) <= SUBJECT_BYTES_MAX
    return F.when((is_fit <= message_bytes_max) & is_short & F.is_valid_utf8(subject), subject)


def _only() -> Column:
    return F.get(F.col("headers"), F.lit(0))


def _is_plain() -> Column:
    return (F.size("headers") == 1) & (_only()["key"] == SUBJECT_HEADER)


def _has_odd_name() -> Column:
    """Return whether a header has a name that may not have been UTF-8.

    Kafka's Java client replaces invalid characters by a sign of its own, and does not say whether a
    client wrote just that. The mesh refuses the one and carries the other. Spec: K7.
    """
    is_odd = F.exists("headers", lambda header: header["key"].contains(NO_UTF8))
    return F.when(_is_plain(), F.lit(False)).otherwise(F.coalesce(is_odd, F.lit(False)))


def _delivered_subject() -> Column:
    """Return the subject in a delivery, in the header before the last. Spec: K8."""
    told = F.get(F.col("headers"), F.size("headers") - 2)
    return F.when(told["key"] == SUBJECT_HEADER, told["value"].cast("string"))


def content_column() -> Column:
    """Return the hash of what a client wrote: key, value, headers, subject and create time.

    At ingress headers reserved for the mesh do not count, because the mesh removes them; a delivery
    ends with the subject and the identity, and everything before these is the client's. Nulls
    leave a hash unchanged, so next to what may be null is its length, or whether it is there.
    Spec: K7, K8.
    """
    headers = F.col("headers")
    size = F.coalesce(F.size(headers), F.lit(0))
    is_ingress = F.col("topic_kind") == INGRESS
    at = F.when(is_ingress, F.lit(0)).otherwise(size - 2)
    is_usual = F.when(is_ingress, (size == 1)).otherwise(size == 2)
    is_usual &= F.get(headers, at)["key"] == SUBJECT_HEADER
    subjects = F.filter(headers, lambda header: header["key"] == SUBJECT_HEADER)
    last = F.when(is_ingress, F.get(subjects, F.lit(0))).otherwise(F.get(headers, size - 2))
    subject = F.when(is_usual, F.get(headers, at)["value"]).when(
        last["key"] == SUBJECT_HEADER, last["value"]
    )
    written = F.filter(
        headers,
        lambda header: (header["key"] != MESH_HEADER) & ~header["key"].startswith(_RESERVED),
    )
    own = F.when(is_ingress, written).otherwise(
        F.slice(headers, F.lit(1), F.greatest(size - 2, F.lit(0)))
    )
    there = F.transform(own["value"], lambda value: value.isNotNull())
    told = F.xxhash64(own["key"], own["value"], there)
    others = F.when(is_usual | (F.size(own) == 0), F.lit(0)).otherwise(told)
    key, value = F.col("key"), F.col("value")
    lengths = (F.coalesce(F.octet_length(one), F.lit(-1)) for one in (key, value))
    at_ms = F.unix_millis("timestamp")
    told_ms = F.when(at_ms == 0, F.lit(_FIRST_MS)).otherwise(at_ms)
    return F.xxhash64(subject, key, value, *lengths, others, told_ms)


def size_column() -> Column:
    """Return the size of a record's key and value in bytes."""
    return _length(F.col("key")) + _length(F.col("value"))


def _length(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def moves_column() -> Column:
    """Return how often a delivered message was moved to another member of its queue.

    Anything but a number that a mover writes excuses nothing: it counts as 0.
    """
    moves = F.try_element_at(F.col("delivery")["ext"], F.lit(MOVED_EXT))
    written = F.when(F.octet_length(moves) <= MOVED_BYTES, F.hex(moves))
    return F.coalesce(F.conv(written, 16, 10).try_cast("long"), F.lit(0))


def _read_delivery(headers: Column) -> Column:
    """Return the decoded header `mesh`, the last of a delivered record, or null. Spec: K8, K9.

    It is read in a projection of its own, as is a frame's header: each place that names a result of
    `from_avro` would read it again, and every reader loads Hadoop's settings in every task.
    """
    last = F.try_element_at(headers, F.lit(-1))
    options = {**_LENIENT, "avroSchema": DELIVERY_READER}
    told = F.when(last["key"] == MESH_HEADER, last["value"])
    return from_avro(told, text("delivery"), options)


def _sound_delivery() -> Column:
    """Return the same, or null: below offset 0 there are no messages."""
    delivery = F.col("delivery")
    numbers = [delivery[name] >= 0 for name in ("partition", "generation", "offset")]
    is_sound = reduce(Column.__and__, numbers, delivery["version"] == VERSION)
    return F.when(is_sound, delivery)


def with_header(records: DataFrame, key: Column) -> DataFrame:
    """Add `header`: the header of a frame, or null. Spec: K10."""
    read = records.withColumn("header", _read_header(key))
    return read.withColumn("header", _sound_header())


def _read_header(key: Column) -> Column:
    return from_avro(key, text("frame_header"), _LENIENT)


def _sound_header() -> Column:
    header = F.col("header")
    return F.when(header["version"] == VERSION, header)


def frame_messages_column() -> Column:
    """Return offset delta and `ext` of a frame's messages as an array, or null. Spec: K10."""
    options = {**_LENIENT, "avroSchema": FRAME_VALUE_READER}
    return from_avro(F.col("value"), text("frame_value"), options)["messages"]


def digest_columns(partition: Column, offset: Column) -> list[Column]:
    """Return the aggregates of a set of messages of one source. Spec: K29.

    The topic id is the key of every group that these are taken over, so hashing it too would not
    distinguish anything; only those that deliver it know the generation of an offset. Both halves
    are summed separately: a sum of whole hashes overflows.
    """
    identity = F.xxhash64(partition.cast("int"), offset.cast("long"))
    return [
        F.count(F.lit(1)).alias("n"),
        F.bit_xor(identity).alias("xor"),
        F.sum(F.shiftrightunsigned(identity, 32)).alias("high"),
        F.sum(identity.bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),
        F.bit_xor(F.xxhash64(identity, F.col("content"))).alias("content"),
        F.min(offset).alias("first"),
        F.max(offset).alias("last"),
    ]
