"""What is asked for anywhere is known before the first batch is taken together. Spec: K29, K31."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mesh.errors import TransportUnavailableError
from streaming.job import auditor
from streaming.job.auditor import ONE_TASK_MAX
from streaming.job.bundler import Bundler
from streaming.job.kafka_clusters import RETRY_S, AuditedKafkaClusters
from streaming.tables.rows import MicroBatch
from tests.unit.streaming.test_recreated import INGRESS, Bench

ASKED = {"k1": ["flights/>"], "k2": ["alerts/*"], "k3": ["board/>"]}
HOMES = {"a": "k1", "b": "k2", "c": "k3"}


class Broker:
    """One Kafka cluster with a node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.is_away = False
        self.asked = 0

    def topics(self) -> Sequence[str]:
        self.asked += 1
        if self.is_away:
            raise TransportUnavailableError("it does not answer")
        return [f"mesh.{self.node}.clients", f"mesh.{self.node}.in.g"]

    def described(self, topics: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        return dict.fromkeys(topics, ("id", 1))

    def ends(self, places: Sequence[object]) -> Mapping[object, int]:
        return dict.fromkeys(places, 9)


class Reader:
    """Reads what clients ask for."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def asked(self, kafka: str, _: object) -> Sequence[str]:
        self.read.append(kafka)
        return ASKED[kafka]


class Bundled:
    """An auditor that has just begun: nothing has been read of any Kafka cluster."""

    def __init__(self) -> None:
        self.clock_s = 100.0
        self.brokers = {kafka: Broker(node) for node, kafka in HOMES.items()}
        brokers: Any = self.brokers
        self.kafka_clusters = AuditedKafkaClusters(
            "mesh.", brokers, dict(HOMES), clock=lambda: self.clock_s
        )
        self.kafka_clusters.unread = dict.fromkeys(
            HOMES.values(), "nothing of it has been read yet"
        )
        self.reader = Reader()
        reader: Any = self.reader
        self.bundler = Bundler(reader, self.kafka_clusters, "mesh.")

    def take(self, node: str) -> Sequence[str]:
        """Return the filters by which a large batch is taken together that has news of a node."""
        made = self.bundler.of([f"mesh.{node}.clients"], is_small=False)
        return sorted(one for some in (made.filters if made else {}).values() for one in some)


def test_what_the_other_kafka_clusters_ask_for_is_known_before_they_are_read() -> None:
    """Else blocks of the first batch would be read again message by message."""
    made = Bundled()
    assert made.take("b") == ["alerts/*", "board/>", "flights/>"]
    assert made.take("a") == ["alerts/*", "board/>", "flights/>"]
    assert made.reader.read == ["k1", "k2", "k3"]


def test_one_that_does_not_answer_is_not_waited_for_again_and_again() -> None:
    made = Bundled()
    made.brokers["k3"].is_away = True
    assert made.take("a") == ["alerts/*", "flights/>"]
    assert made.take("b") == ["alerts/*", "flights/>"]
    assert made.brokers["k3"].asked == 1
    made.clock_s += RETRY_S
    made.brokers["k3"].is_away = False
    assert made.take("b") == ["alerts/*", "board/>", "flights/>"]


def test_of_a_small_batch_each_subject_stays_alone_until_all_was_heard() -> None:
    """Whatever it reads on: what it holds may be asked for where nothing has been read yet."""
    made = Bundled()
    made.bundler.filters.know(["flights/>"])
    made.bundler.follow([])
    own = ["mesh.a.in.g"]
    for kafka in HOMES.values():
        assert made.bundler.of(own, is_small=True) is None
        del made.kafka_clusters.unread[kafka]
    assert made.bundler.of(own, is_small=True) is not None
    made.kafka_clusters.unread["k3"] = "it does not answer any more"
    assert made.bundler.of(own, is_small=True) is not None
    assert made.reader.read == []


def test_a_large_batch_looks_for_what_was_not_heard_once() -> None:
    """Also where it reads on nothing of what clients ask for itself."""
    made = Bundled()
    for _ in range(2):
        bundles = made.bundler.of(["mesh.a.in.g"], is_small=False)
        assert bundles is not None
        assert bundles.known == 3
    assert made.reader.read == ["k1", "k2", "k3"]


def test_what_is_small_hangs_on_what_is_read_and_not_on_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auditor with one core has large batches too: made by plans that are compiled."""
    asked: list[tuple[bool, int | None]] = []
    smalls: list[bool] = []
    monkeypatch.setattr(Bundler, "of", lambda *_, is_small: smalls.append(is_small))
    monkeypatch.setattr(
        auditor, "rows_of", lambda *told: asked.append((smalls[-1], told[-1])) or MicroBatch()
    )
    made = Bench(tmp_path).auditor
    assert made.tasks == 1
    for ends in ({INGRESS: ONE_TASK_MAX}, {INGRESS: ONE_TASK_MAX + 1}, None):
        made.rows(None, ends)  # type: ignore[arg-type]
    assert asked == [(True, None), (False, 1), (False, 1)]
