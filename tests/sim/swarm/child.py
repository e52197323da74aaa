"""Do something in a copy of this process, and have what it returns."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")


class ChildError(Exception):
    """A copy has failed; carries what it had to say."""


def in_child(task: Callable[[], T]) -> T:
    """Do a task in a copy of this process; whatever it changes stays there.

    Raises:
        ChildError: The task raised something, or the copy died.
    """
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        _work(task, there)
    os.close(there)
    try:
        with os.fdopen(here, "rb") as pipe:
            told = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if not told:
        raise ChildError(f"a copy died without a word (status {status})")
    outcome = pickle.loads(told)
    if isinstance(outcome, ChildError):
        raise outcome
    return outcome


def _work(task: Callable[[], T], there: int) -> NoReturn:
    gc.disable()  # it would touch, and so copy, all that the two share
    try:
        try:
            outcome: object = task()
        except Exception:  # noqa: BLE001 - whatever it is, who waits shall know
            outcome = ChildError(traceback.format_exc())
        with os.fdopen(there, "wb") as pipe:
            pickle.dump(outcome, pipe)
    finally:
        os._exit(0)  # nothing of the parent is to be ended or flushed twice
