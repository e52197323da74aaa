"""What reading ranges of Kafka again has found, as Spark gives it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from streaming.audits.cases import CaseOutcome
from streaming.connectors.failures import unavailable


@dataclass(frozen=True, slots=True)
class Repeats:
    """What one block of a doubted source holds twice or late; offsets in order.

    Attributes:
        block: Number of the block.
        duplicate, duplicate_offsets: Messages that are there more than once.
        disorder, disorder_offsets: Messages that are there after later ones.
    """

    block: int
    duplicate: int
    duplicate_offsets: tuple[int, ...]
    disorder: int
    disorder_offsets: tuple[int, ...]


def answers_of(frame: DataFrame) -> Sequence[Mapping[str, Any]]:
    """Return the requested answers, one object each."""
    return [json.loads(line) for line in lines_of(frame)]


def lines_of(frame: DataFrame) -> Sequence[Any]:
    """Return the only column of some rows.

    Raises:
        TransportUnavailableError: Kafka does not answer, or Spark could not read it.
    """
    try:
        return [row[0] for row in frame.collect()]
    except (PySparkException, Py4JError) as error:
        raise unavailable("could not read again", error) from error


def outcome_of(fields: Mapping[str, Any]) -> CaseOutcome:
    """Return what reading a case again found."""
    return CaseOutcome(
        expected=fields["expected"],
        delivered=fields["delivered"],
        missing=fields["missing"],
        missing_offsets=tuple(fields["missing_offsets"]),
        duplicate=fields["duplicate"],
        duplicate_offsets=tuple(fields["duplicate_offsets"]),
        unexpected=fields["unexpected"],
        unexpected_offsets=tuple(fields["unexpected_offsets"]),
        corrupt=fields["corrupt"],
        corrupt_offsets=tuple(fields["corrupt_offsets"]),
    )


def repeats_of(frame: DataFrame, count: int) -> Sequence[Sequence[Repeats]]:
    """Return what is there twice or late, by block, for each of so many requests."""
    found: list[list[Repeats]] = [[] for _ in range(count)]
    for fields in answers_of(frame):
        repeats = Repeats(
            fields["block"],
            fields["duplicate"],
            tuple(fields["duplicate_offsets"]),
            fields["disorder"],
            tuple(fields["disorder_offsets"]),
        )
        found[fields["request"]].append(repeats)
    return [sorted(one, key=lambda repeats: repeats.block) for one in found]
