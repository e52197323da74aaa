"""Kafka clusters that do not answer: people are told once, and soon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mesh.errors import TransportUnavailableError
from streaming.connectors.failures import unavailable
from streaming.connectors.logs import ANSWER_TIMEOUT_MS
from streaming.job import outages
from streaming.job.outages import ASK_EVERY_S, VAIN_MAX, KafkaOutages

SILENT = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
REFUSED = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"
TOLD = "k2 does not answer; trying again"


def failure(text: str) -> TransportUnavailableError:
    """Return what a client raises where Kafka's Java client failed like this."""
    error = Exception(text)
    made = unavailable("Kafka did not say what its logs hold", error)
    made.__cause__ = error
    return made


@dataclass
class Asked:
    """A Kafka cluster that answers, or fails like this."""

    fails: str = ""
    count: int = 0

    def ask(self) -> Callable[[], None]:
        self.count += 1
        return self.answer

    def answer(self) -> None:
        if self.fails:
            raise failure(self.fails)


@pytest.fixture
def told() -> list[str]:
    return []


def test_a_kafka_cluster_that_does_not_answer_is_told_within_ten_seconds(told: list[str]) -> None:
    """Nothing was said for a minute and more."""
    known = {"k1": Asked(), "k2": Asked(SILENT)}
    watched = KafkaOutages(told.append)
    for _ in range(VAIN_MAX):
        watched.look(known)
    assert told == [TOLD]
    assert VAIN_MAX * (ASK_EVERY_S + ANSWER_TIMEOUT_MS / 1000) <= 10
    watched.look(known)
    assert len(told) == 1
    assert known["k1"].count == VAIN_MAX + 1, "the others are asked all the time"


def test_it_is_told_again_only_after_it_was_read(told: list[str]) -> None:
    far = Asked(SILENT)
    watched = KafkaOutages(told.append)
    for fails in (SILENT, SILENT, "", SILENT, SILENT):
        far.fails = fails
        watched.look({"k2": far})
    assert told == [TOLD]
    watched.end("k2")
    watched.look({"k2": far})
    assert told == [TOLD] * 2


def test_one_answer_that_is_missed_is_no_outage(told: list[str]) -> None:
    far = Asked()
    watched = KafkaOutages(told.append)
    for fails in (SILENT, "") * 5:
        far.fails = fails
        watched.look({"k2": far})
    assert told == []


def test_a_refusal_is_told_by_whoever_is_refused(told: list[str]) -> None:
    watched = KafkaOutages(told.append)
    watched.tell("k2", "could not be read: Authentication failed")
    for _ in range(3):
        watched.look({"k2": Asked(REFUSED)})
    assert told == ["k2 could not be read: Authentication failed; trying again"]


def test_one_that_cannot_even_be_asked_keeps_nobody_from_asking_the_others(
    told: list[str],
) -> None:
    class Odd(Asked):
        def ask(self) -> Callable[[], None]:
            raise failure("No resolvable bootstrap urls given in bootstrap.servers")

    watched = KafkaOutages(told.append)
    for _ in range(VAIN_MAX):
        watched.look({"k1": Odd(), "k2": Asked(SILENT)})
    assert told == [TOLD]


def test_whoever_shall_end_asks_no_more(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "ASK_EVERY_S", 0.001)
    far = Asked(SILENT)

    def say(line: str) -> None:
        told.append(line)
        watched.stopping.set()

    watched = KafkaOutages(say)
    watched.watch(lambda: {"k2": far})
    assert (told, far.count) == ([TOLD], VAIN_MAX)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "AGAIN_S", 0.001)


@pytest.mark.usefixtures("_quick")
def test_where_nothing_begins_without_it_a_kafka_cluster_is_asked_until_it_answers(
    told: list[str],
) -> None:
    """The auditor had ended after a minute in which it said nothing."""
    answers = [failure(SILENT), failure(SILENT), 7]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert KafkaOutages(told.append).insist("k2", ask) == 7
    assert told == [TOLD]


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("fails", "patience_s", "lines"), [(REFUSED, 60.0, 0), (SILENT, 0.0, 0), (SILENT, 0.01, 1)]
)
def test_a_refusal_ends_that_and_so_does_the_end_of_patience(
    told: list[str], fails: str, patience_s: float, lines: int
) -> None:
    """Whoever waits for `--until-drained` is told that it is in vain."""
    with pytest.raises(TransportUnavailableError):
        KafkaOutages(told.append).insist("k2", Asked(fails).answer, patience_s)
    assert len(told) == lines


@pytest.mark.usefixtures("_quick")
def test_a_signal_ends_it(told: list[str]) -> None:
    watched = KafkaOutages(told.append)
    watched.stopping.set()
    with pytest.raises(TransportUnavailableError):
        watched.insist("k2", Asked(SILENT).answer)
