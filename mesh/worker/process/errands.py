"""Long tasks that are done beside the worker's loop, step by step: takings. Spec: K16.

Taking a lane needs a dozen requests to the brokers, and nothing else in the node may stall for
that. So the steps of a taking run in a thread of their own; the loop checks in each turn whether
they have ended, and still makes every decision. The simulator has no threads: there a step is done
in a turn of the worker, delayed by as many turns as its random draw says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

LOOK_S = 0.01
"""How long a worker waits for records at most while an errand is under way."""

LEAVE_S = 1.0
"""How long `close` waits for errands that were called off: a step may be waiting for brokers."""


class Closable(Protocol):
    """The result of an errand."""

    def close(self) -> None:
        """Release it: it is not needed any more."""


T = TypeVar("T", bound=Closable)
T_co = TypeVar("T_co", bound=Closable, covariant=True)

Steps = Generator[None, None, T]
"""What to do; it may be called off between two steps. Closed early, it leaves nothing behind."""


class Errand(Protocol[T_co]):
    """A task under way. Only the thread that began it uses it."""

    def has_ended(self) -> bool:
        """Return whether it has ended; call once a turn."""

    def result(self) -> T_co:
        """Return its result, once it has ended.

        Raises:
            TransportError: It ended with that, or with any other exception that its steps raise.
        """

    def call_off(self) -> None:
        """Let it end before its next step; its result is closed."""

    @property
    def is_off(self) -> bool:
        """Whether it was called off: then it has no result."""


class Errands(Protocol):
    """Performs errands beside the loop."""

    def begin(self, steps: Steps[T]) -> Errand[T]:
        """Start the steps, which run one after the other."""

    def close(self) -> None:
        """Call all off, and wait a moment for them to end."""


@dataclass(slots=True)
class _Stepped(Generic[T]):
    """An errand whose steps are done when the caller checks on it."""

    steps: Steps[T]
    rest: Callable[[], int]
    is_off: bool = False
    _left: int = 0
    _is_over: bool = False
    _brought: list[T] = field(default_factory=list)
    _error: Exception | None = None

    def __post_init__(self) -> None:
        self._left = self.rest()

    def has_ended(self) -> bool:
        while self._left == 0 and not self._is_over:
            self._step()
            self._left = self.rest()
        if self._left > 0:
            self._left -= 1
            return False
        return True

    def _step(self) -> None:
        try:
            if self.is_off:
                self._is_over = True
                self.steps.close()
            else:
                next(self.steps)
        except StopIteration as end:
            self._brought, self._is_over = [end.value], True
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            self._error, self._is_over = error, True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._brought[0]

    def call_off(self) -> None:
        self.is_off = True
        for brought in self._brought:
            brought.close()


def _at_once() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class SteppedErrands:
    """Performs steps when the caller checks whether an errand has ended: for the simulator.

    Attributes:
        rest: Draws how many checks find nothing before each step, and before the end shows;
            without it everything is done at the first check.
    """

    rest: Callable[[], int] = _at_once

    def begin(self, steps: Steps[T]) -> Errand[T]:
        """Prepare the steps; a check performs them."""
        return _Stepped(steps, self.rest)

    def close(self) -> None:
        """Do nothing: nothing goes on between two checks."""


class _Threaded(Generic[T]):
    """An errand with a thread of its own."""

    def __init__(self, steps: Steps[T]) -> None:
        self.is_off = False
        self._steps = steps
        self._brought: list[T] = []
        self._error: BaseException | None = None
        # Decides who closes the result when the errand is called off at that very moment.
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="errand", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        brought: list[T] = []
        try:
            while not self.is_off:
                next(self._steps)
            self._steps.close()
        except StopIteration as end:
            brought = [end.value]
        except BaseException as error:  # noqa: BLE001 - the worker's thread must learn of it
            self._error = error
        with self._lock:
            self._brought = brought
            is_off = self.is_off
        if is_off:
            for one in brought:
                one.close()
        self._over.set()

    def has_ended(self) -> bool:
        return self._over.is_set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._brought[0]

    def call_off(self) -> None:
        with self._lock:
            self.is_off = True
            brought, self._brought = self._brought, []
        for one in brought:
            one.close()

    def wait(self, timeout_s: float) -> None:
        self._over.wait(max(0.0, timeout_s))


class ThreadedErrands:
    """Gives each errand a thread: they wait for brokers side by side, and nobody waits for them."""

    def __init__(self) -> None:
        self._begun: list[_Threaded[Any]] = []

    def begin(self, steps: Steps[T]) -> Errand[T]:
        """Run the steps in a thread, one after the other."""
        errand = _Threaded(steps)
        self._begun = [one for one in self._begun if not one.has_ended()]
        self._begun.append(errand)
        return errand

    def close(self) -> None:
        """Call off what is under way, and wait a moment for it to end.

        A later result is closed by its own thread; a lane owner that it fenced takes the lane
        again.
        """
        begun = [one for one in self._begun if not one.has_ended()]
        self._begun = []
        for one in begun:
            one.call_off()
        deadline_s = time.monotonic() + LEAVE_S
        for one in begun:
            one.wait(deadline_s - time.monotonic())
