"""What errors of Spark and Kafka are told as, and what they stand for."""

from __future__ import annotations

import pytest

from mesh.errors import MeshError
from streaming.connectors.failures import (
    REASON_MAX,
    innermost,
    is_denied,
    is_fenced,
    is_missing_topic,
    reason_of,
    unavailable,
)

KAFKA = "org.apache.kafka.common.errors."
PY4J = f"""An error occurred while calling o72.get.
: java.util.concurrent.ExecutionException: {KAFKA}TimeoutException: no answer
\tat java.base/java.util.concurrent.CompletableFuture.get(CompletableFuture.java:2073)
"""
NESTED = f"""{PY4J}Caused by: {KAFKA}TimeoutException: Call(listOffsets) timed out
\tat org.apache.kafka.somewhere(X.java:1)
"""


@pytest.mark.parametrize(
    ("text", "cause", "reason"),
    [
        ("", "", ""),
        ("it ended", "it ended", "it ended"),
        (
            PY4J,
            f"java.util.concurrent.ExecutionException: {KAFKA}TimeoutException: no answer",
            "no answer",
        ),
        (
            NESTED,
            f"{KAFKA}TimeoutException: Call(listOffsets) timed out",
            "Call(listOffsets) timed out",
        ),
        (
            f"[STREAM_FAILED] ended\n{KAFKA}DisconnectException\n",
            f"{KAFKA}DisconnectException",
            None,
        ),
    ],
)
def test_the_innermost_cause_is_told(text: str, cause: str, reason: str | None) -> None:
    """The first line of what Java raises tells only which object Python had called."""
    assert innermost(RuntimeError(text)) == cause
    assert reason_of(RuntimeError(text)) == (cause if reason is None else reason)


def test_what_could_not_be_done_is_told_with_its_cause() -> None:
    told = unavailable("could not read again", RuntimeError(NESTED))
    assert isinstance(told, MeshError)
    assert str(told).startswith(f"could not read again: {KAFKA}TimeoutException: Call(listOffsets)")
    assert len(str(unavailable("", RuntimeError("x" * 1000)))) < REASON_MAX + 10


def test_errors_stand_for_what_their_classes_say() -> None:
    named = {
        is_missing_topic: f"{KAFKA}UnknownTopicOrPartitionException: gone",
        is_denied: f"{KAFKA}TopicAuthorizationException: no",
        is_fenced: f"{KAFKA}ProducerFencedException: There is a newer producer",
    }
    for is_so in named:
        for other, text in named.items():
            assert is_so(RuntimeError(f"An error occurred.\n: {text}\n")) is (is_so is other)
