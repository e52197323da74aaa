"""Reads again, message by message, what digests and intervals could not decide: on the JVM.

Each function takes parsed records beside a small frame of requests and returns one string column
of JSON objects, a handful of them. Spec: K29, performance.md 5.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from mesh.model.queues import MOVED_EXT
from streaming.tables.aggregates import (
    frame_columns,
    is_addressed,
    is_direct,
    is_strange,
    joined,
    unwanted_columns,
)
from streaming.tables.columns import frame_messages_column, moves_column, with_header
from streaming.tables.digest import BLOCK_BITS
from streaming.tables.topics import ENDPOINT, INGRESS

OFFSETS_MAX = 100
"""Source offsets that one answer lists; the counts show how many there are."""

CASES = """`case` int, topic string, `partition` int, first long, last long, delivered_last long,
endpoint_topics string, source_id string, is_own boolean, may_move boolean"""
"""Blocks and endpoints to read; topics of endpoints with a blank before and after each. With
`is_own` what was moved there from another member of a queue is left out; without `may_move` nothing
can have been moved, whatever it says."""

WANTS = "`case` int, pattern string, first long, last long, is_must boolean"
"""What must and may arrive, per case: subjects given by a regular expression."""

GENERATIONS = "`case` int, generation int, first long"
"""The reported generations of the source, each from an offset on, per case."""

DELIVERY_REQUESTS = """request int, topic string, `partition` int, source_id string,
source_partition int, generation int, since long"""
"""Deliveries whose order is doubted."""

FRAME_REQUESTS = """request int, topic string, `partition` int, source_id string,
source_partition int, generation int, since long, until long, is_arrival boolean"""
"""Frames that may hold a message twice; one row per outbox partition of a request."""

STRANGE_REQUESTS = """request int, topic string, `partition` int, source_id string,
source_partition int, since long, until long, wanted int"""
"""Direct deliveries, and the number of the pattern that selects what is wanted of them."""

PATTERNS = "wanted int, pattern string"
"""Patterns by number: many requests may have one in common."""

END_REQUESTS = "request int, topic string, `partition` int, position long"
"""Positions in outbox partitions; the question is what the frames below them hold."""


def _lines(frame: DataFrame) -> DataFrame:
    return frame.select(F.to_json(F.struct("*")).alias("row"))


def _offsets(condition: Column, offset: Column) -> Column:
    """Return the lowest offsets for which a condition holds, sorted."""
    found = F.collect_set(F.when(condition, offset))
    return F.slice(F.array_sort(found), 1, OFFSETS_MAX)


def case_outcomes(
    records: DataFrame,
    cases: DataFrame,
    wants: DataFrame,
    generations: DataFrame,
    *,
    is_alone: bool = False,
) -> DataFrame:
    """Return per case what had to arrive, what arrived, and how the two differ.

    Args:
        records: Parsed records of the ingress and endpoint partitions concerned.
        cases: As `CASES`.
        wants: As `WANTS`.
        generations: As `GENERATIONS`.
        is_alone: Whether one task computes all of it, of frames that have one partition.
    """
    asked = _expected(records, cases, wants, is_alone=is_alone)
    came = _received(records, cases, generations, is_alone=is_alone)
    both = asked.join(came, on=["case", "source_offset"], how="full_outer")
    offset, copies = F.col("source_offset"), F.coalesce("copies", F.lit(0))
    strangers = F.coalesce("strangers", F.lit(0))
    is_known = F.col("is_must").isNotNull()
    is_missing = F.col("is_must") & (copies == 0)
    is_unexpected = (~is_known & (copies > 0)) | (strangers > 0)
    is_corrupt = is_known & (copies > 0) & ~F.col("contents").eqNullSafe(F.array("content"))
    if is_alone:
        both = both.coalesce(1)
    each = cases.select("case").join(both, on="case", how="left")
    grouped = (each.coalesce(1) if is_alone else each).groupBy("case")
    return _lines(
        grouped.agg(
            F.count_if(is_known & (F.col("is_must") | (copies > 0))).alias("expected"),
            F.coalesce(F.sum(copies + strangers), F.lit(0)).alias("delivered"),
            F.count_if(is_missing).alias("missing"),
            _offsets(is_missing, offset).alias("missing_offsets"),
            F.coalesce(F.sum(F.greatest(copies - 1, F.lit(0))), F.lit(0)).alias("duplicate"),
            _offsets(copies > 1, offset).alias("duplicate_offsets"),
            F.count_if(is_unexpected).alias("unexpected"),
            _offsets(is_unexpected, offset).alias("unexpected_offsets"),
            F.count_if(is_corrupt).alias("corrupt"),
            _offsets(is_corrupt, offset).alias("corrupt_offsets"),
        )
    )


def _expected(
    records: DataFrame, cases: DataFrame, wants: DataFrame, *, is_alone: bool
) -> DataFrame:
    """Return `case, source_offset, is_must, content` of the messages that somebody wants."""
    one, want = cases.alias("one"), wants.alias("want")
    published = records.where((F.col("topic_kind") == INGRESS) & F.col("subject").isNotNull())
    columns = ("topic", "partition", "offset", "subject", "is_odd", "content")
    message = published.select(*columns).alias("message")
    is_in_case = (
        (F.col("message.topic") == F.col("one.topic"))
        & (F.col("message.partition") == F.col("one.partition"))
        & F.col("message.offset").between(F.col("one.first"), F.col("one.last"))
    )
    is_wanted = (
        (F.col("want.case") == F.col("one.case"))
        & F.col("message.offset").between(F.col("want.first"), F.col("want.last"))
        & F.rlike(F.col("message.subject"), F.col("want.pattern"))
    )
    looked_at = joined(message, one, is_in_case, is_alone=is_alone)
    wanted = joined(looked_at, want, is_wanted, is_alone=is_alone)
    keys = (F.col("one.case").alias("case"), F.col("message.offset").alias("source_offset"))
    return wanted.groupBy(*keys).agg(
        F.max(F.col("want.is_must") & ~F.col("message.is_odd")).alias("is_must"),
        F.first("message.content").alias("content"),
    )


def _received(
    records: DataFrame, cases: DataFrame, generations: DataFrame, *, is_alone: bool
) -> DataFrame:
    """Return `case, source_offset, copies, contents, strangers` of the deliveries of each case.

    Of a message that was moved from member to member of a queue only the copies count that were
    moved most often: the others were taken away again. Of offsets that came again after an
    accepted truncation those of the newest generation count: the others are lost. Copies of a
    generation that nobody told of are strangers, and take nothing's place. Spec: K9.
    """
    one, told = cases.alias("one"), F.col("delivery")
    delivered = records.where((F.col("topic_kind") == ENDPOINT) & told.isNotNull())
    copy = delivered.select(
        F.col("topic").alias("endpoint_topic"),
        F.lower(F.hex(told["topic"])).alias("source_id"),
        told["partition"].alias("source_partition"),
        told["offset"].alias("source_offset"),
        told["generation"].alias("generation"),
        moves_column().alias("moves"),
        "content",
    ).alias("copy")
    is_in_case = (
        F.col("one.endpoint_topics").contains(
            F.concat(F.lit(" "), F.col("copy.endpoint_topic"), F.lit(" "))
        )
        & (F.col("copy.source_id") == F.col("one.source_id"))
        & (F.col("copy.source_partition") == F.col("one.partition"))
        & F.col("copy.source_offset").between(F.col("one.first"), F.col("one.delivered_last"))
        & (~F.col("one.is_own") | (F.col("copy.moves") == 0))
    )
    copies = (
        joined(copy, one, is_in_case, is_alone=is_alone)
        .select("one.case", "one.may_move", "copy.*")
        .withColumn("moves", F.when(F.col("may_move"), F.col("moves")).otherwise(0))
    )
    message = Window.partitionBy("case", "source_offset")
    is_told = F.col("first").isNotNull()
    is_again = F.col("source_offset") >= F.col("first")
    newest = F.max(F.when(is_again, F.col("generation"))).over(message)
    current = (
        joined(copies, generations, ["case", "generation"], "left", is_alone=is_alone)
        .withColumn("newest", newest)
        .where(~is_told | (F.col("generation") >= F.coalesce("newest", F.lit(0))))
    )
    each = current.groupBy("case", "source_offset", "moves").agg(
        F.count_if(is_told).alias("copies"),
        F.count_if(~is_told).alias("strangers"),
        F.collect_set(F.when(is_told, F.col("content"))).alias("contents"),
    )
    last = F.when(F.col("copies") > 0, F.col("moves"))
    return each.groupBy("case", "source_offset").agg(
        F.max_by("copies", last).alias("copies"),
        F.max_by("contents", last).alias("contents"),
        F.sum("strangers").alias("strangers"),
    )


def delivery_faults(
    records: DataFrame, requests: DataFrame, *, is_alone: bool = False
) -> DataFrame:
    """Return per request and block which deliveries repeat or come after later ones.

    Args:
        records: Parsed records of the endpoint partitions concerned, from their beginning;
            those that were moved are late by right, and left out.
        requests: As `DELIVERY_REQUESTS`.
        is_alone: As in `case_outcomes`.
    """
    told = F.col("delivery")
    delivered = records.where(told.isNotNull() & (moves_column() == 0)).select(
        "topic",
        "partition",
        "offset",
        F.lit(0).alias("number"),
        F.lower(F.hex(told["topic"])).alias("source_id"),
        told["partition"].alias("source_partition"),
        told["generation"].alias("generation"),
        told["offset"].alias("source_offset"),
    )
    keys = ["topic", "partition", "source_id", "source_partition", "generation"]
    return _repeats(joined(delivered, requests, keys, is_alone=is_alone))


def strange_deliveries(
    records: DataFrame, requests: DataFrame, patterns: DataFrame, *, is_alone: bool = False
) -> DataFrame:
    """Return per request, for which there are some, the deliveries that nobody has requested.

    Args:
        records: Parsed records of the endpoint partitions concerned.
        requests: As `STRANGE_REQUESTS`.
        patterns: As `PATTERNS`.
        is_alone: As in `case_outcomes`.
    """
    told = F.col("delivery")
    delivered = records.where(is_direct()).select(
        *("topic", "partition", "offset", "subject", "delivery"),
        F.lower(F.hex(told["topic"])).alias("source_id"),
        told["partition"].alias("source_partition"),
    )
    keys = ["topic", "partition", "source_id", "source_partition"]
    is_meant = F.col("offset").between(F.col("since"), F.col("until"))
    doubted = joined(delivered, requests, keys, is_alone=is_alone).where(is_meant)
    judged = joined(doubted, patterns, ["wanted"], is_alone=is_alone)
    _, columns = unwanted_columns()
    return _lines(judged.where(is_strange()).groupBy("request", *keys).agg(*columns))


def frame_faults(raw: DataFrame, requests: DataFrame, *, is_alone: bool = False) -> DataFrame:
    """Return per request and block which messages of frames repeat or come after later ones.

    Args:
        raw: Kafka records of the outbox partitions concerned, from their beginning; what a member
            of a queue sends on is late by right, and left out. Of messages of its own node, and
            further on, they alone say so.
        requests: As `FRAME_REQUESTS`.
        is_alone: As in `case_outcomes`.
    """
    opened = with_header(raw, F.col("key")).withColumns(
        {"held": frame_messages_column(), "is_addressed": is_addressed()}
    )
    keys = ["topic", "partition", "source_id", "source_partition", "generation"]
    held = (
        frame_columns(opened, "held", "is_addressed")
        .where(~F.col("is_repair") & ~F.col("is_moved") & (F.col("kind") == "data"))
        .withColumn("source_id", F.lower(F.hex("source_id")))
    )
    doubted = joined(held, requests, keys, is_alone=is_alone)
    message = F.col("message")
    is_moved = F.col("is_addressed") & F.map_contains_key(message["ext"], F.lit(MOVED_EXT))
    each = doubted.select("*", F.posexplode("held").alias("number", "message")).where(~is_moved)
    messages = each.withColumn(
        "source_offset",
        F.try_add("origin_first", message["offset_delta"]),  # of strangers they may be anything
    )
    messages = messages.where(F.col("source_offset").isNotNull())
    within = _repeats(messages.where(~F.col("is_arrival")))
    return within.union(_arrivals(messages.where("is_arrival")))


def _arrivals(messages: DataFrame) -> DataFrame:
    """Return the messages that crossed more than one of a request's outboxes."""
    offset = F.col("source_offset")
    seen = messages.where(offset.between(F.col("since"), F.col("until")))
    distinct = F.count_distinct("topic", "partition")
    ways = seen.groupBy("request", "source_offset").agg(distinct.alias("ways"))
    return _by_block(
        ways.select(
            "request",
            "source_offset",
            (F.col("ways") > 1).alias("is_duplicate"),
            F.lit(False).alias("is_disorder"),
        )
    )


def _repeats(messages: DataFrame) -> DataFrame:
    """Return what repeats or comes late among `request, since, offset, number, source_offset`."""
    earlier = (
        Window.partitionBy("request")
        .orderBy("offset", "number")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    copies = Window.partitionBy("request", "source_offset").orderBy("offset", "number")
    marked = messages.withColumns(
        {
            "is_duplicate": F.row_number().over(copies) > 1,
            "is_late": F.col("source_offset") < F.max("source_offset").over(earlier),
        }
    )
    is_disorder = F.col("is_late") & ~F.col("is_duplicate")
    news = marked.where(F.col("offset") >= F.col("since"))
    return _by_block(
        news.select("request", "source_offset", "is_duplicate", is_disorder.alias("is_disorder"))
    )


def _by_block(marked: DataFrame) -> DataFrame:
    offset = F.col("source_offset")
    faulty = marked.where(F.col("is_duplicate") | F.col("is_disorder"))
    block = F.shiftright(offset, BLOCK_BITS).alias("block")
    return _lines(
        faulty.groupBy("request", block).agg(
            F.count_if("is_duplicate").alias("duplicate"),
            _offsets(F.col("is_duplicate"), offset).alias("duplicate_offsets"),
            F.count_if("is_disorder").alias("disorder"),
            _offsets(F.col("is_disorder"), offset).alias("disorder_offsets"),
        )
    )


def last_offsets(raw: DataFrame, requests: DataFrame) -> DataFrame:
    """Return per request and source the last origin offset in the frames below a position.

    Args:
        raw: Kafka records of the outbox partitions concerned, from their beginning.
        requests: As `END_REQUESTS`.
    """
    frames = frame_columns(with_header(raw, F.col("key")))
    below = frames.join(F.broadcast(requests), on=["topic", "partition"], how="inner").where(
        F.col("offset") < F.col("position")
    )
    grouped = below.groupBy(
        "request", F.lower(F.hex("source_id")).alias("source_id"), "source_partition"
    )
    return _lines(grouped.agg(F.max("origin_last").alias("last")))
