"""What may wait for brokers is asked beside the loop, and answered to who asks again."""

from __future__ import annotations

import threading
import time

import pytest

from mesh.errors import TransportUnavailableError
from mesh.worker.process.errands import SteppedErrands, ThreadedErrands
from mesh.worker.process.questions import Questions


def test_a_question_is_asked_once_and_its_answer_given_once() -> None:
    asked: list[str] = []
    looks = iter([1, 0, 0, 1, 0, 0, 0, 0])
    questions = Questions(SteppedErrands(lambda: next(looks)))
    said = [questions.answer("key", lambda: asked.append("x") or len(asked)) for _ in range(4)]
    assert said == [None, 1, None, 2]
    assert not questions.are_open


def test_a_refusal_is_raised_once_and_asked_again() -> None:
    questions = Questions(SteppedErrands())

    def fail() -> int:
        raise TransportUnavailableError("no broker answers")

    for _ in range(2):
        with pytest.raises(TransportUnavailableError):
            questions.answer("key", fail)
    assert questions.answer("key", lambda: 7) == 7


def test_nobody_waits_for_a_broker_that_hangs() -> None:
    """However long it takes; other questions are answered meanwhile."""
    hangs = threading.Event()
    questions = Questions(ThreadedErrands())
    assert questions.answer(("dead", 1), lambda: hangs.wait(20)) is None
    deadline_s = time.monotonic() + 10
    said = None
    while said is None and time.monotonic() < deadline_s:
        said = questions.answer(("alive", 1), lambda: "here")
        assert questions.answer(("dead", 1), lambda: True) is None
    assert said == "here"
    assert questions.is_open("dead")
    questions.forget("dead")
    assert not questions.are_open
    hangs.set()
