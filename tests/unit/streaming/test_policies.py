"""What a Kafka cluster does not let the auditor know of a topic counts as compacted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mesh.errors import TransportUnavailableError
from streaming.connectors.logs import Logs

KAFKA = "org.apache.kafka"


class Answer:
    """What is told of one topic."""

    def __init__(self, told: str) -> None:
        self.told = told

    def get(self, name: str = "") -> Any:
        if not name and "Exception" in self.told:
            raise RuntimeError(f"ExecutionException: {KAFKA}.common.errors.{self.told}: no\n\tat x")
        return SimpleNamespace(value=lambda: self.told) if name else self


class Wanted(list):
    add = list.append


def logs_of(told: dict[str, str]) -> Logs:
    """Return the logs of a Kafka cluster that tells of topics so."""
    answers = {topic: Answer(one) for topic, one in told.items()}
    resource = f"{KAFKA}.common.config.ConfigResource"
    jvm = SimpleNamespace()
    for name, made in {
        f"{resource}$Type": SimpleNamespace(TOPIC="topic"),
        resource: lambda _, topic: topic,
        "java.util.ArrayList": Wanted,
    }.items():
        setattr(jvm, name, made)
    logs = Logs(SimpleNamespace(_jvm=jvm), {})  # type: ignore[arg-type]
    admin = SimpleNamespace(describeConfigs=lambda _: SimpleNamespace(values=lambda: answers))
    logs._client = admin
    return logs


def test_what_may_not_be_known_counts_as_compacted() -> None:
    told = {
        "a": "delete",
        "b": "compact,delete",
        "c": "TopicAuthorizationException",
        "d": "UnknownTopicOrPartitionException",
        "e": "compact",
    }
    assert logs_of(told).compacted([*told]) == ["b", "c", "e"]


def test_who_does_not_answer_tells_nothing() -> None:
    with pytest.raises(TransportUnavailableError):
        logs_of({"a": "delete", "b": "TimeoutException"}).compacted(["a", "b"])
