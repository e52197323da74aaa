"""Whether another auditor of the mesh lives is asked before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import pytest

from mesh.errors import StartError, TransportUnavailableError
from streaming.connectors.logs import Logs
from streaming.job import run
from streaming.tables.rows import TopicPartition

STATUS = TopicPartition("mesh.audit.status", 0)


class Answers:
    """The end of the status as a broker tells it, one answer per question; None is no answer."""

    def __init__(self, end: Callable[[int], int | None]) -> None:
        self.asked = 0
        self._end = end

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        end = self._end(self.asked)
        self.asked += 1
        if end is None:
            raise TransportUnavailableError("Kafka does not say what its logs hold")
        return dict.fromkeys(places, end)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.001)
    monkeypatch.setattr(run, "AUDITOR_SILENT_S", 0.02)


def begin(answers: Answers) -> None:
    run._refuse_a_second(cast("Logs", answers), STATUS, threading.Event())


def test_an_auditor_that_writes_is_not_joined_by_another() -> None:
    """One that grew once may have been killed; of one that goes on the line names the topic."""
    with pytest.raises(StartError, match=r"another auditor of this mesh writes to mesh\.audit"):
        begin(Answers(lambda asked: 10 + asked))
    begin(Answers(lambda asked: 10 if asked == 0 else 11))
    begin(Answers(lambda _: 0))


def test_a_broker_that_answers_late_ends_no_auditor() -> None:
    """It is asked again; one that never answers is told."""
    answers = Answers(lambda asked: None if asked % 3 else 10)
    begin(answers)
    assert answers.asked > 10
    away = Answers(lambda _: None)
    with pytest.raises(TransportUnavailableError):
        begin(away)
    assert away.asked == run.ASKED_MAX
