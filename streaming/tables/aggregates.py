"""One micro-batch as a handful of small rows, computed by JVM operators only.

Each function takes the parsed records and returns one string column `row` of JSON objects with a
field `of` that names the table; `streaming.tables.rows` reads them. Spec: performance.md 5.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from mesh.model.queues import QUEUE_PREFIX
from streaming.tables.audited_keys import is_advert, is_kept, is_wanted, scope_of
from streaming.tables.bundles import Bundles
from streaming.tables.cached_columns import cached_columns
from streaming.tables.columns import digest_columns, moves_column
from streaming.tables.digest import BLOCK_BITS
from streaming.tables.rows import MINUTE_MS, SUBJECT_BYTES_MAX, SUBJECTS_MAX
from streaming.tables.topics import CONTROL, ENDPOINT, INGRESS, LEDGER, OUTBOX

EXAMPLES_MAX = 50
"""Broken chains that one batch may spell out per outbox partition and source."""

REPAIR = 1
"""Bit of a header's flags. Spec: K20."""


DATA_KINDS = (INGRESS, ENDPOINT, OUTBOX)
"""Topics with messages."""

WANTED = "array<struct<topic: string, pattern: string>>"
"""Endpoint topics, each with a regular expression of what was ever asked for there."""

OF_RUN = (
    *("topic", "partition", "source_id", "source_partition", "generation"),
    *("path", "is_moved", "message_class"),
)
"""What deliveries have in common that one row tells; of each block it tells `ONE_OF_RUN`."""

_OF_DIGEST = ("n", "xor", "high", "low", "content", "first", "last")

ONE_OF_RUN = ("block", *_OF_DIGEST, "record_first", "record_last", "late")

ONE_OF = ("subject", "selected", "known", *_OF_DIGEST)
"""What a row of a published block tells of each subject, or bundle of such."""


def batch_rows(
    records: DataFrame,
    wanted: Mapping[str, str],
    asked: Mapping[str, str],
    kinds: Collection[str] = DATA_KINDS,
    *,
    bundles: Bundles | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Return all small rows of a batch of parsed records, in one frame so that one job does it.

    Args:
        records: The batch.
        wanted: Endpoint topic -> regular expression of the subjects ever requested there.
        asked: Outbox topic without its class -> the same for what is requested behind its link.
        kinds: Kinds of topics with messages for which the batch has records: a table costs as much
            without a record as with a hundred.
        bundles: How subjects are combined; None: each separately.
        tasks: Number of tasks that compute the last rows in parallel; with one, which holds all
            records, nothing is shuffled. None: a few for each table.
    """
    tables: list[DataFrame] = [small_rows(records), ledger_rows(records), minute_rows(records)]
    if INGRESS in kinds:
        tables.append(ingress_rows(records, bundles))
    if ENDPOINT in kinds:
        unwanted = unwanted_rows(records, wanted, is_alone=tasks == 1)
        tables += [unwanted, delivery_rows(records)]
    if OUTBOX in kinds:
        tables += [
            frame_rows(records, is_alone=tasks == 1),
            *((needless_rows(records, asked, is_alone=tasks == 1),) if asked else ()),
        ]
    if ENDPOINT in kinds or OUTBOX in kinds:
        tables.append(stray_rows(records))
    rows = reduce(DataFrame.union, tables)
    return rows if tasks is None else rows.coalesce(tasks)


def _rows(frame: DataFrame, table: str, *ids: str) -> DataFrame:
    """Return a table as rows; topic ids in some of its columns become text."""
    return (frame.withColumns(_texts(*ids)) if ids else frame).select(_row(table))


@cached_columns
def _texts(*ids: str) -> dict[str, Column]:
    return {one: F.lower(F.hex(one)) for one in ids}


@cached_columns
def _row(table: str) -> Column:
    return F.to_json(F.struct(F.lit(table).alias("of"), "*")).alias("row")


def _listed(
    frame: DataFrame, table: str, keys: Sequence[str], each: Sequence[str], *ids: str
) -> DataFrame:
    """Return a table with one row per distinct keys, and a list of each other column.

    With many endpoints most of a batch is such rows, and most of each repeats the others. Topic ids
    among the keys become text last: another key would cause another shuffle.
    """
    columns, listed, row = _lists(table, tuple(keys), tuple(each))
    grouped = frame.groupBy(*columns).agg(listed)
    return (grouped.withColumns(_texts(*ids)) if ids else grouped).select(row)


@cached_columns
def _lists(
    table: str, keys: Sequence[str], each: Sequence[str]
) -> tuple[list[Column], Column, Column]:
    columns = [*map(F.col, keys)]
    listed = F.array_sort(F.collect_list(F.struct(*each))).alias("each")
    lists = [F.col("each")[one].alias(one) for one in each]
    told = F.struct(F.lit(table).alias("of"), *columns, *lists)
    return columns, listed, F.to_json(told).alias("row")


@cached_columns
def _is_of(kind: str) -> Column:
    return F.col("topic_kind") == kind


def _block(offset: Column) -> Column:
    return F.shiftright(offset, BLOCK_BITS).alias("block")  # exact at any offset


def ingress_rows(records: DataFrame, bundles: Bundles | None = None) -> DataFrame:
    """Digest of the published messages per (partition, block, subject or bundle of subjects).

    Those that the mesh may have had to refuse are a bundle about which nothing is known.

    Spec: K29, K31.
    """
    published = records.where(_is_of(INGRESS))
    key, known = "subject", None
    if bundles is not None:
        key, known = "selected", bundles.known
        published = published.withColumn(key, bundles.column)
    told = published.groupBy(*_of_source(key)).agg(_one_of(key, known), *_digests())
    found = told.drop(key, "is_odd").select("told.*", "*")
    return _listed(found, "ingress", ("topic", "partition", "block"), ONE_OF)


@cached_columns
def _of_source(key: str) -> list[Column]:
    """Return the columns that distinguish published messages."""
    return [
        F.col("topic"),
        F.col("partition"),
        _block(F.col("offset")),
        *map(F.col, (key, "is_odd")),
    ]


@cached_columns
def _digests() -> list[Column]:
    return digest_columns(F.col("partition"), F.col("offset"))


@cached_columns
def _one_of(key: str, known: int | None) -> Column:
    """Return a group's subject; for a bundle, how many filters distinguish it from others."""
    is_odd, of, nothing = F.col("is_odd"), F.col(key), F.lit(None).cast("string")
    subject, bundle = (of, nothing) if known is None else (nothing, of)
    # Only by what the group has in common: hash tables hold no minimum or first value of text, so
    # everything published would be sorted.
    selected = F.when(is_odd, F.when(of.isNotNull(), F.lit(""))).otherwise(bundle)
    return F.struct(
        subject.alias("subject"),
        selected.alias("selected"),
        F.when(is_odd, F.lit(0)).otherwise(F.lit(known)).alias("known"),
    ).alias("told")


@cached_columns
def _is_delivery() -> Column:
    return (F.col("topic_kind") == ENDPOINT) & F.col("delivery").isNotNull()


@cached_columns
def _delivered() -> list[Column]:
    told = F.col("delivery")
    return [
        *map(F.col, ("topic", "partition", "offset")),
        told["topic"].alias("source_id"),
        told["partition"].alias("source_partition"),
        told["generation"].alias("generation"),
        told["offset"].alias("source_offset"),
        told["path"].alias("path"),
        (moves_column() > 0).alias("is_moved"),
        told["class"].alias("message_class"),
        F.col("content"),
    ]


def unwanted_rows(
    records: DataFrame, wanted: Mapping[str, str], *, is_alone: bool = False
) -> DataFrame:
    """Direct deliveries of subjects that nobody is known to have requested. Spec: K31.

    Guaranteed ones are certified. A later subscription may request them after all.
    """
    patterns = _patterns(records, wanted)
    found = joined(records.where(is_direct()), patterns, ["topic"], "left", is_alone=is_alone)
    keys, told = unwanted_columns()
    grouped = found.where(is_strange()).groupBy(*keys).agg(*told)
    return _rows(grouped, "unwanted", "source_id")


@cached_columns
def is_direct() -> Column:
    """Return whether a record is a delivery of a direct message."""
    return (F.col("topic_kind") == ENDPOINT) & (F.col("delivery")["class"] == "direct")


@cached_columns
def is_strange() -> Column:
    """Return whether `pattern` does not select `subject`; without a pattern nothing is selected."""
    # Java's matching recurses as deep as a subject has levels: too long subjects are left out.
    is_short = F.octet_length("subject") <= SUBJECT_BYTES_MAX
    is_asked = F.when(is_short, F.rlike(F.col("subject"), F.col("pattern")))
    return ~F.coalesce(is_asked, F.lit(False))


@cached_columns
def unwanted_columns() -> tuple[list[Column], list[Column]]:
    """Return by what unwanted deliveries are grouped, and what is told of each group."""
    told = F.col("delivery")
    # Sets leave out what is null, and who has no subject was not asked for by anybody.
    subjects = F.array_sort(F.collect_set(F.coalesce(_shown("subject"), F.lit(""))))
    keys = [
        *map(F.col, ("topic", "partition")),
        told["topic"].alias("source_id"),
        told["partition"].alias("source_partition"),
    ]
    return keys, [
        F.count(F.lit(1)).alias("n"),
        F.min(told["offset"]).alias("first"),
        F.max(told["offset"]).alias("last"),
        *_recorded(),
        F.slice(subjects, 1, SUBJECTS_MAX).alias("subjects"),
    ]


@cached_columns
def _recorded() -> list[Column]:
    """Return the range of offsets of the records in their own topic."""
    return [F.min("offset").alias("record_first"), F.max("offset").alias("record_last")]


def _shown(column: str) -> Column:
    """Return the start of what may be a subject: a too long one still shows as such."""
    return F.substring(column, 1, SUBJECT_BYTES_MAX + 1)


def _patterns(records: DataFrame, of: Mapping[str, str]) -> DataFrame:
    known = json.dumps([{"topic": one, "pattern": text} for one, text in of.items()])
    one = records.sparkSession.range(0, 1, 1, 1)
    return one.select(F.inline(F.from_json(F.lit(known), WANTED)))


def joined(
    frame: DataFrame,
    small: DataFrame,
    on: Column | list[str],
    how: str = "inner",
    *,
    is_alone: bool,
) -> DataFrame:
    """Return a frame joined with a small one, which is given to each task, if there are several.

    That takes a job of its own.

    Args:
        frame: The frame.
        small: The small one.
        on: The join columns.
        how: The kind of join.
        is_alone: Whether one task computes all of it, of frames that have one partition.
    """
    if is_alone:
        return frame.join(small, on=on, how=how).coalesce(1)  # else Spark forgets that it is one
    return frame.join(F.broadcast(small), on=on, how=how)


def needless_rows(
    records: DataFrame, asked: Mapping[str, str], *, is_alone: bool = False
) -> DataFrame:
    """Subjects that crossed a link and that nobody behind it is known to request. Spec: DESIGN 3.

    Each subject of an outbox is matched once. Copies for members of queues travel under addresses
    of the mesh; what was moved, or passed nodes that are configured apart, follows other rules.
    """
    eras = F.col("header")["origin"]["eras"]
    frames = frame_columns(records.where(F.size(eras) <= 1), "header").where(
        (F.col("kind") == "data") & ~F.col("is_moved")
    )
    told = frames.withColumn("subject", F.explode(F.col("header")["origin"]["subjects"]))
    subjects = told.withColumn("subject", _shown("subject"))
    grouped = subjects.groupBy(
        *("topic", "partition", "source_id", "source_partition", "generation", "era", "subject")
    ).agg(
        F.count(F.lit(1)).alias("n"),
        F.min("origin_first").alias("first"),
        F.max("origin_last").alias("last"),
        F.max("origin_first").alias("newest"),
        *_recorded(),
    )
    patterns = _patterns(records, asked).withColumnRenamed("topic", "link")
    link = F.expr("left(topic, length(topic) - 2)")  # both classes by one expression
    known = joined(grouped, patterns, link == F.col("link"), is_alone=is_alone)
    subject = F.col("subject")
    strange = known.where(~subject.startswith("$") & ~F.rlike(subject, F.col("pattern")))
    return _rows(strange.drop("link", "pattern"), "needless", "source_id")


@cached_columns
def delivery_order() -> WindowSpec:
    """Return the window over what an endpoint partition got earlier from the same source."""
    return (
        Window.partitionBy("topic", "partition", "source_id", "source_partition", "generation")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )


def delivery_rows(records: DataFrame) -> DataFrame:
    """Digest and order of deliveries per (endpoint partition, source, block, path). Spec: K29."""
    ordered = records.where(_is_delivery()).select(*_delivered()).withColumn("is_late", _is_late())
    keys, told = _delivery()
    grouped = ordered.groupBy(*keys).agg(*told)
    return _listed(grouped, "delivery", OF_RUN, ONE_OF_RUN, "source_id")


@cached_columns
def _is_late() -> Column:
    offset = F.col("source_offset")
    return offset <= F.max(offset).over(delivery_order())


@cached_columns
def _delivery() -> tuple[list[Column], list[Column]]:
    offset = F.col("source_offset")
    told = [
        *digest_columns(F.col("source_partition"), offset),
        *_recorded(),
        F.count_if("is_late").alias("late"),
    ]
    return [*map(F.col, OF_RUN), _block(offset)], told


def stray_rows(records: DataFrame) -> DataFrame:
    """Records of endpoint and outbox topics that do not identify themselves, counted."""
    strays = records.where(_is_stray()).groupBy("topic", "partition")
    return _rows(strays.agg(*_stray()), "stray")


@cached_columns
def _is_stray() -> Column:
    is_delivery = (F.col("topic_kind") == ENDPOINT) & F.col("delivery").isNull()
    is_outbox = (F.col("topic_kind") == OUTBOX) & (F.col("letter") != CONTROL)
    return is_delivery | (is_outbox & F.col("header").isNull())


@cached_columns
def _stray() -> list[Column]:
    offset = F.col("offset")
    count = F.count(F.lit(1)).alias("n")
    return [count, F.min(offset).alias("first"), F.max(offset).alias("last")]


def frame_columns(records: DataFrame, *more: str) -> DataFrame:
    """Return one row per frame: the parts of `header` that audits use, and columns to keep."""
    return records.where(_has_header()).select(*_header_parts(), *more)


@cached_columns
def _has_header() -> Column:
    return F.col("header").isNotNull()


@cached_columns
def _header_parts() -> list[Column]:
    header = F.col("header")
    chain, origin = header["chain"], header["origin"]
    return [
        *map(F.col, ("topic", "partition", "offset")),
        header["kind"].alias("kind"),
        header["zone"].alias("zone"),
        header["path"].alias("path"),
        (header["flags"].bitwiseAND(F.lit(REPAIR)) != 0).alias("is_repair"),
        chain["topic"].alias("chain_id"),
        chain["partition"].alias("chain_partition"),
        chain["previous"].alias("chain_previous"),
        chain["first"].alias("chain_first"),
        chain["last"].alias("chain_last"),
        origin["topic"].alias("source_id"),
        origin["partition"].alias("source_partition"),
        origin["generation"].alias("generation"),
        origin["first"].alias("origin_first"),
        origin["last"].alias("origin_last"),
        origin["count"].alias("messages"),
        # Of several, the first is the origin's; nodes configured apart count separately.
        F.when(F.size(origin["eras"]) == 1, origin["eras"][0]["number"]).alias("era"),
        origin["node"].alias("node"),
        # An empty path begins nowhere: no member of a queue has passed it on.
        (
            F.coalesce(F.try_element_at(header["path"], F.lit(1)) != origin["node"], F.lit(False))
            & is_addressed()
        ).alias("is_moved"),
    ]


@cached_columns
def is_addressed() -> Column:
    """Return a column: whether a frame's messages are only for members of queues."""
    subjects = F.col("header")["origin"]["subjects"]
    return F.forall(subjects, lambda one: one.startswith(QUEUE_PREFIX))


def frame_rows(records: DataFrame, *, is_alone: bool = False) -> DataFrame:
    """Chains, origins and counts of frames: interval arithmetic on headers. Spec: K11.

    In a chain the next frame continues where the furthest previous one ended: repeats end before
    that.
    """
    found = frame_columns(records)
    shared = found if is_alone else found.repartition("topic", "partition")
    before, is_broken = _chained()
    frames = shared.withColumns(before).withColumns(is_broken)
    keys, told = _frame()
    return _rows(frames.groupBy(*keys).agg(*told), "frame", "source_id", "chain_id")


@cached_columns
def _chained() -> tuple[dict[str, Column], dict[str, Column]]:
    """Return how frames relate to those before them, and what follows from that."""
    outbox = ("topic", "partition", "is_repair")
    before = (Window.unboundedPreceding, -1)
    chain = Window.partitionBy(*outbox, "chain_id", "chain_partition").orderBy("offset")
    origin = (
        Window.partitionBy(*outbox, "source_id", "source_partition", "generation", "is_moved")
        .orderBy("offset")
        .rowsBetween(*before)
    )
    expected = F.max("chain_last").over(chain.rowsBetween(*before))
    is_late = F.col("origin_first") <= F.max("origin_last").over(origin)
    is_broken = F.col("expected") != F.col("chain_previous")
    return {"expected": expected, "is_late": is_late}, {"is_broken": is_broken}


@cached_columns
def _frame() -> tuple[list[Column], list[Column]]:
    place = F.struct("offset", "chain_previous", "chain_first", "chain_last")
    broken = F.struct(
        "offset", "expected", "chain_previous", "chain_first", "chain_last", "origin_first"
    )
    examples = F.collect_list(F.when(F.col("is_broken"), broken))
    keys = (
        *("topic", "partition", "is_repair", "is_moved", "kind", "zone", "path", "node", "era"),
        *("chain_id", "chain_partition", "source_id", "source_partition", "generation"),
    )
    return [*map(F.col, keys)], [
        F.count(F.lit(1)).alias("frames"),
        F.sum("messages").alias("messages"),
        F.max("messages").alias("most"),
        F.min("origin_first").alias("first"),
        F.max("origin_last").alias("last"),
        F.min_by(place, "offset").alias("head"),
        F.max_by(place, "offset").alias("tail"),
        F.slice(F.array_sort(examples), 1, EXAMPLES_MAX).alias("broken"),
        F.count_if("is_late").alias("late"),
    ]


def small_rows(records: DataFrame) -> DataFrame:
    """Newest value per key of control, `.c` and progress; every record of the others."""
    keys, newest, told = _small()
    found = records.where(is_wanted()).groupBy(*keys).agg(*newest)
    return _rows(found.select(*told), "small")


@cached_columns
def _small() -> tuple[list[Column], list[Column], list[Column]]:
    version = F.when(is_kept(), F.col("offset")).otherwise(-1)
    key = F.col("key").cast("string").alias("key")
    newest = [
        F.max("offset").alias("offset"),
        F.max_by(F.base64("value"), "offset").alias("value"),
        F.max_by("at_ms", "offset").alias("at_ms"),
    ]
    told = map(F.col, ("topic", "partition", "offset", "key", "value", "at_ms"))
    return [F.col("topic"), F.col("partition"), key, version], newest, [*told]


def ledger_rows(records: DataFrame) -> DataFrame:
    """Every ledger record: one per committed batch of a lane. Spec: kafka.md 1."""
    return _rows(records.where(_is_of(LEDGER)).select(*_ledger()), "ledger")


@cached_columns
def _ledger() -> list[Column]:
    columns = map(F.col, ("topic", "partition", "offset", "at_ms"))
    return [*columns, F.base64("value").alias("value")]


@cached_columns
def minute_of() -> Column:
    """Return the number of a record's minute from 1970 on, by the broker's clock."""
    return F.floor(F.col("at_ms") / MINUTE_MS).cast("long")


def minute_rows(records: DataFrame) -> DataFrame:
    """Messages and bytes of each outbox, and changes of interest, by the broker's minute."""
    is_counted, keys, told = _minute()
    return _rows(records.where(is_counted).groupBy(*keys).agg(*told), "minute")


@cached_columns
def _minute() -> tuple[Column, list[Column], list[Column]]:
    header = F.col("header")
    is_repair = header["flags"].bitwiseAND(F.lit(REPAIR)) != 0
    messages = F.coalesce(header["origin"]["count"], F.lit(1))
    scope = F.when(is_advert(), scope_of()).alias("scope")
    zero = F.lit(0)
    told = [
        F.sum(F.when(is_repair, zero).otherwise(messages)).alias("messages"),
        F.sum(F.when(is_repair, messages).otherwise(zero)).alias("repairs"),
        F.sum(F.when(is_repair, zero).otherwise(F.col("size"))).alias("size"),
    ]
    return (
        is_advert() | header.isNotNull(),
        [F.col("topic"), minute_of().alias("minute"), scope],
        told,
    )
