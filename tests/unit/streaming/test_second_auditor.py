"""Whether another auditor of the mesh lives is asked before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from mesh.errors import StartError
from streaming.job import run
from streaming.tables.rows import TopicPartition

STATUS = TopicPartition("mesh.audit.status", 0)


class Answers:
    """The end of the status as a broker tells it, one answer per question."""

    def __init__(self, end: Callable[[int], int]) -> None:
        self.asked = 0
        self._end = end

    def ends(self) -> Mapping[TopicPartition, int]:
        self.asked += 1
        return {STATUS: self._end(self.asked - 1)}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.001)
    monkeypatch.setattr(run, "AUDITOR_SILENT_S", 0.02)


def begin(answers: Answers) -> None:
    run._refuse_a_second(answers.ends, STATUS, threading.Event())


def test_an_auditor_that_writes_is_not_joined_by_another() -> None:
    """One that grew once may have been killed; of one that goes on the line names the topic."""
    with pytest.raises(StartError, match=r"another auditor of this mesh writes to mesh\.audit"):
        begin(Answers(lambda asked: 10 + asked))
    begin(Answers(lambda asked: 10 if asked == 0 else 11))
    begin(Answers(lambda _: 0))
