"""What spoils a batch is left out and named; what is taken is taken once, in order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mesh.errors import TransportFencedError, TransportUnavailableError
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outages import KafkaOutages
from streaming.job.queries import MADE_S, Queries, Query
from streaming.job.spoiled_batches import TRIES_MAX, Failure, fault_of, sift
from streaming.job.supervisor import QuerySupervisor
from streaming.tables.rows import MicroBatch, TopicPartition

A, B, C = (TopicPartition(f"mesh.{name}.in.g", 0) for name in "abc")


class Taker:
    """Takes records but for bad ones, all or nothing."""

    def __init__(self, *bad: tuple[TopicPartition, int]) -> None:
        self.bad = bad
        self.taken: list[tuple[TopicPartition, int]] = []
        self.calls = 0

    def __call__(self, ranges) -> None:
        self.calls += 1
        records = [(place, n) for place, (first, end) in ranges.items() for n in range(first, end)]
        if any(one in self.bad for one in records):
            raise ValueError(f"record {self.calls} is odd")
        self.taken += records


def test_only_what_spoils_a_batch_is_left_out() -> None:
    taker = Taker((A, 517), (C, 0))
    left_out = sift({A: (500, 1500), B: (0, 40), C: (0, 3)}, taker)
    assert left_out == [
        ({A: (517, 518)}, "ValueError: record # is odd"),
        ({C: (0, 1)}, "ValueError: record # is odd"),
    ]
    wanted = [(A, n) for n in range(500, 1500)] + [(B, n) for n in range(40)]
    wanted += [(C, n) for n in range(3)]
    assert taker.taken == [one for one in wanted if one not in taker.bad]
    assert taker.calls < 40


def test_a_batch_that_is_bad_throughout_ends_too() -> None:
    taker = Taker(*((A, n) for n in range(100_000)))
    left_out = sift({A: (0, 100_000)}, taker)
    assert taker.calls <= 2 * TRIES_MAX
    ((first, _), *_), last = (part[A] for part, _ in left_out), left_out[-1][0][A]
    assert (first, last[1]) == (0, 100_000)


def test_an_empty_batch_is_taken() -> None:
    taker = Taker()
    assert sift({}, taker) == []
    assert taker.calls == 1


def test_where_kafka_fails_nothing_is_left_out() -> None:
    def take(_) -> None:
        raise TransportUnavailableError("away")

    with pytest.raises(TransportUnavailableError):
        sift({A: (0, 10)}, take)


SPARK = """An error occurred while calling o72.collectToPython.
: org.apache.spark.SparkException: Job aborted: Task 3 in stage 12.0 failed 1 times
Caused by: java.lang.ArithmeticException: long overflow
\tat java.base/java.lang.Math.multiplyExact(Math.java:1004)
\tat org.apache.kafka.somewhere(X.java:1)
"""


@pytest.mark.parametrize(
    ("error", "reason", "is_transport"),
    [
        (RuntimeError(SPARK), "RuntimeError: java.lang.ArithmeticException: long overflow", False),
        (
            RuntimeError(SPARK.replace("java.lang.Arith", "org.apache.kafka.common.errors.Arith")),
            "RuntimeError: org.apache.kafka.common.errors.ArithmeticException: long overflow",
            True,
        ),
        (KeyError("is_moved"), "KeyError: 'is_moved'", False),
        (ValueError(), "ValueError: ", False),
        (TransportUnavailableError("away"), "TransportUnavailableError: away", True),
        (ConnectionRefusedError("no"), "ConnectionRefusedError: no", True),
    ],
)
def test_the_innermost_cause_tells_whose_fault_it_is(error, reason, is_transport) -> None:
    assert fault_of(error) == reason
    assert Failure.of(4, error) == Failure(4, reason, is_transport)


def test_a_batch_is_spoiled_when_the_same_happens_again() -> None:
    first, other = Failure(4, "odd", False), Failure(4, "odder", False)
    assert first.is_again(Failure(4, "odd", False))
    assert not first.is_again(None)
    assert not first.is_again(other)
    assert not first.is_again(Failure(3, "odd", False))
    assert not Failure(4, "away", True).is_again(Failure(4, "away", True))


def test_a_query_is_spoiled_until_its_batch_is_taken() -> None:
    query = Query()
    told = []
    for batch, error in (
        (3, ValueError("record 5")),
        (3, TransportUnavailableError("away")),
        (3, ValueError("record 5")),
        (3, ValueError("record 6")),
        (3, TransportUnavailableError("away")),
    ):
        query.note(batch, error)
        told.append(query.is_spoiled)
    assert told == [False, False, False, True, True]
    query.taken()
    assert query == Query()


class Judge:
    """An auditor whose judgements fail."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.restored = 0

    def judge(self) -> None:
        if (error := self.errors.pop(0)) is not None:
            raise error

    def restore(self) -> None:
        self.restored += 1


def test_a_judgement_that_fails_is_told_once_and_tried_again() -> None:
    told: list[str] = []
    judge = Judge(KeyError("x"), KeyError("x"), None, KeyError("x"), TransportFencedError("two"))
    supervisor = QuerySupervisor(judge, None, None, None, told.append)  # type: ignore[arg-type]
    for _ in range(4):
        supervisor._judge()
    assert judge.restored == 3
    reason = "what was read cannot be judged: KeyError: 'x'; trying again"
    assert told == [reason, reason]
    with pytest.raises(TransportFencedError):
        supervisor._judge()


def test_spark_is_told_of_a_failure_in_one_line() -> None:
    """It matches the text by an expression that overflows the stack where that is long."""

    class Odd:
        def is_news(self, kafka: str, batch: int) -> bool:
            traces = "\tat org.apache.spark.Some.where\n" * 10_000
            raise RuntimeError(f"An error occurred\n{traces}Caused by: java.io.IOException: gone\n")

    queries = Queries(None, Odd(), {}, Path(), 1.0, KafkaOutages(print))  # type: ignore[arg-type]
    query = queries.by_kafka["k"] = Query()
    with pytest.raises(TransportUnavailableError, match=r"^gone$") as caught:
        queries._taker("k")(None, 3)
    assert caught.value.__suppress_context__
    assert query.reason == "gone"
    assert query.failure == Failure(3, "RuntimeError: java.io.IOException: gone", True)
    assert not queries.is_taking(time.monotonic())


def test_a_batch_is_waited_for_while_it_is_made_and_no_longer_than_some_seconds() -> None:
    seen: list[bool] = []

    class Making:
        kafka_clusters = AuditedKafkaClusters("mesh.")

        def is_news(self, kafka: str, batch: int) -> bool:
            now_s = time.monotonic()
            seen.extend((queries.is_taking(now_s), queries.is_taking(now_s + MADE_S)))
            return False

    queries = Queries(None, Making(), {}, Path(), 1.0, KafkaOutages(print))  # type: ignore[arg-type]
    queries.by_kafka["k"] = Query()
    queries._taker("k")(None, 3)
    assert [*seen, queries.is_taking(time.monotonic())] == [True, False, False]


def test_a_batch_that_was_not_taken_proves_nothing_of_what_was_written_before_it() -> None:
    """Else a block would be closed before it is known who had asked for it."""
    told: list[str] = []

    class Failing:
        kafka_clusters = AuditedKafkaClusters("mesh.", read={"k": 7.0, "other": 8.0})

        def absorb(self, *_: object) -> None:
            self.kafka_clusters.read["k"] = 90.0
            raise ValueError("odd")

        def restore(self) -> None:
            told.append("restored")

    queries = Queries(None, Failing(), {}, Path(), 1.0, KafkaOutages(print))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="odd"):
        queries._absorb(MicroBatch(), "k", 3)
    assert told == ["restored"]
    assert Failing.kafka_clusters.read == {"other": 8.0}
