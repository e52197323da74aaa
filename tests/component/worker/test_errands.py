"""What is done beside the loop ends, fails or is called off, and leaves nothing open. Spec: K16."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from mesh.errors import TransportError
from mesh.worker.process.errands import Errand, Errands, SteppedErrands, Steps, ThreadedErrands
from tests.patience import PATIENCE_S


@dataclass
class Thing:
    """What an errand brings."""

    closed: int = 0

    def close(self) -> None:
        self.closed += 1


@dataclass
class Task:
    """Three steps; the second waits until the test lets it go on.

    Attributes:
        done: Steps done; `left` once it was closed early.
    """

    fails: bool = False
    done: list[str] = field(default_factory=list)
    thing: Thing = field(default_factory=Thing)
    waits: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def may_fail(self) -> None:
        if self.fails:
            raise TransportError("no")

    def steps(self) -> Steps[Thing]:
        self.done.append("first")
        try:
            yield
            self.waits.set()
            assert self.goes_on.wait(PATIENCE_S)
            self.done.append("second")
            yield
            self.may_fail()
        except BaseException:
            self.done.append("left")
            raise
        self.done.append("third")
        return self.thing


def look_until_ended(errand: Errand[Thing]) -> int:
    """Return how often somebody looked in vain."""
    for looks in range(1_000_000):
        if errand.has_ended():
            return looks
    raise AssertionError("it never ended")


@pytest.fixture(params=[SteppedErrands, ThreadedErrands])
def errands(request: pytest.FixtureRequest) -> Iterator[Errands]:
    made: Errands = request.param()
    yield made
    made.close()


def test_what_was_done_is_brought(errands: Errands) -> None:
    """Both forms."""
    task = Task()
    task.goes_on.set()
    errand = errands.begin(task.steps())
    look_until_ended(errand)
    assert errand.result() is task.thing
    assert task.done == ["first", "second", "third"]
    assert task.thing.closed == 0


def test_a_fault_comes_out_where_the_result_is_asked_for(errands: Errands) -> None:
    """Both forms; the loop decides what it means."""
    task = Task(fails=True)
    task.goes_on.set()
    errand = errands.begin(task.steps())
    look_until_ended(errand)
    with pytest.raises(TransportError):
        errand.result()


def test_what_is_called_off_too_late_is_closed(errands: Errands) -> None:
    """Both forms: nobody will ask for it."""
    task = Task()
    task.goes_on.set()
    errand = errands.begin(task.steps())
    look_until_ended(errand)
    errand.call_off()
    assert errand.is_off
    assert task.thing.closed == 1


def test_no_step_is_done_after_the_calling_off() -> None:
    """A thread ends at its next step, and leaves nothing."""
    errands, task = ThreadedErrands(), Task()
    errand = errands.begin(task.steps())
    assert task.waits.wait(PATIENCE_S)
    errand.call_off()
    assert not errand.has_ended()
    task.goes_on.set()
    errands.close()
    look_until_ended(errand)
    assert task.done == ["first", "second", "left"]


def test_who_ends_waits_for_a_step_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that went on would fence a successor; but nobody waits for ever. Spec: K16."""
    monkeypatch.setattr("mesh.worker.process.errands.LEAVE_S", 0.01)
    errands, task = ThreadedErrands(), Task()
    errand = errands.begin(task.steps())
    assert task.waits.wait(PATIENCE_S)
    errands.close()
    assert errand.is_off
    assert not errand.has_ended()
    task.goes_on.set()
    look_until_ended(errand)
    assert task.done == ["first", "second", "left"]


def drawn(*rests: int) -> Callable[[], int]:
    left = list(rests)
    return lambda: left.pop(0)


def test_steps_come_as_late_as_they_are_drawn() -> None:
    """And so does the end: a lane may be gone by then."""
    task = Task()
    task.goes_on.set()
    errand = SteppedErrands(drawn(2, 1, 0, 3)).begin(task.steps())
    seen = []
    while not errand.has_ended():
        seen.append(len(task.done))
    assert seen == [0, 0, 1, 3, 3, 3]


def test_what_never_began_is_called_off_without_a_trace() -> None:
    """In the simulator."""
    task = Task()
    errand = SteppedErrands(drawn(1, 0)).begin(task.steps())
    assert not errand.has_ended()
    errand.call_off()
    look_until_ended(errand)
    assert task.done == []


def test_what_is_called_off_between_two_steps_is_left() -> None:
    """In the simulator."""
    task = Task()
    errand = SteppedErrands(drawn(0, 1, 0)).begin(task.steps())
    assert not errand.has_ended()
    errand.call_off()
    look_until_ended(errand)
    assert task.done == ["first", "left"]
