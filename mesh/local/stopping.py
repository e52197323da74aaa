"""Work that a signal may end at any moment, without a traceback and without leftovers.

The work runs in a thread of its own; the main thread only watches for signals and for the end.
Work that looks at `Stopping` ends in good order. Work that cannot just then, because it waits for
a broker for instance, is left behind: the processes that it started are killed, which is safe,
for whatever they hold is either committed in Kafka or scratch.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from mesh.errors import StartError
from mesh.local.jars import Progress

NOTICE_S = 2.0
"""How long work may take to notice that it should stop."""
CLEAN_UP_S = 30.0
"""How long work that noticed may take to clean up."""
_LOOK_S = 0.05
_KILLED_S = 5.0
_LOCK = "lock"
_UNLOCKED = "lock.new"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """The work should stop; passes every `except Exception` on its way up."""


@dataclass(slots=True)
class Stopping:
    """Whether the work should stop; the work looks here wherever it can stop in good order.

    Attributes:
        scratch: Folders that are removed even if the work is left behind.
        screen: Notified when the work is left behind, to give the terminal back.
    """

    scratch: list[Path] = field(default_factory=list)
    screen: Callable[[], None] | None = None
    _asked: threading.Event = field(default_factory=threading.Event)
    _noticed: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        """Have the work stop."""
        self._asked.set()

    @property
    def is_noticed(self) -> bool:
        """Whether the work knows."""
        return self._noticed.is_set()

    def check(self) -> None:
        """Go on unless the work should stop.

        Raises:
            StoppedError: It should.
        """
        if self._asked.is_set() and not self._noticed.is_set():
            self._noticed.set()
            raise StoppedError

    def wait(self, seconds: float) -> None:
        """Let time pass, unless the work should stop.

        Raises:
            StoppedError: It should.
        """
        if not self._noticed.is_set():
            self._asked.wait(max(0.0, seconds))
        self.check()


@dataclass(slots=True)
class _Outcome:
    """How the work ended."""

    code: int = 0
    error: BaseException | None = None


def run_stoppable(work: Callable[[Stopping], int], *, progress: Progress) -> int:
    """Run work until it ends or SIGINT, SIGTERM or SIGHUP comes; to be called once, last.

    A second signal does not wait for the work to clean up. The handlers stay: what follows is
    the end of the program, and a late signal must not give it a traceback.

    Args:
        work: Gets the `Stopping` it must look at; returns an exit code.
        progress: Called with one line when a signal arrives.

    Returns:
        The exit code of the work, or 128 and the signal's number if it was stopped.

    Raises:
        Exception: Whatever the work raised.
    """
    received: list[int] = []
    for number in _SIGNALS:
        # Only noted: a handler that did more could meet a lock that it interrupts.
        signal.signal(number, lambda number, _frame: received.append(number))
    stopping = Stopping()
    outcome = _Outcome()
    thread = threading.Thread(target=_run, args=(work, stopping, outcome), name="work", daemon=True)
    thread.start()
    while thread.is_alive() and not received:
        thread.join(_LOOK_S)
    if received and thread.is_alive():
        stopping.ask()
        progress("stopping")
        if not _ends(thread, stopping, received):
            _leave_behind(stopping, received[0])
    if isinstance(outcome.error, StoppedError):
        return 128 + received[0]
    if outcome.error is not None:
        if received:
            return 128 + received[0]  # a fault of something that was being stopped
        raise outcome.error
    return outcome.code


def _run(work: Callable[[Stopping], int], stopping: Stopping, outcome: _Outcome) -> None:
    try:
        outcome.code = work(stopping)
    except BaseException as error:  # noqa: BLE001 - raised again in the main thread
        outcome.error = error


def _ends(thread: threading.Thread, stopping: Stopping, received: list[int]) -> bool:
    """Wait for the end of work that was asked to stop; return whether it ended."""
    polls = 0
    while thread.is_alive():
        polls += 1
        limit_s = CLEAN_UP_S if stopping.is_noticed else NOTICE_S
        if polls * _LOOK_S > limit_s or len(received) > 1:
            return False
        thread.join(_LOOK_S)
    return True


def _leave_behind(stopping: Stopping, number: int) -> None:
    """Kill every process that we started and end at once."""
    if stopping.screen is not None:
        stopping.screen()
    children = psutil.Process().children(recursive=True)
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, timeout=_KILLED_S)
    for folder in stopping.scratch:
        shutil.rmtree(folder, ignore_errors=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(128 + number)


@contextmanager
def work_folder(
    chosen: Path | None, prefix: str, stopping: Stopping, progress: Progress
) -> Iterator[Path]:
    """Give a folder for data and logs: the chosen one, or a scratch one that is removed.

    A scratch folder stays after an error, for its logs, and `progress` says where. What
    killed programs left behind is removed first.

    Args:
        chosen: The folder; None for a scratch one.
        prefix: How the names of scratch folders begin.
        stopping: Ends the program in order when it is told to stop.
        progress: Is called with each line for people.

    Raises:
        StartError: Another program has the chosen one: two brokers on one log would spoil it.
    """
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        with (chosen / _LOCK).open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = "another mesh works there: end that one, or name another folder"
                raise StartError(f"{chosen}: {text}") from None
            yield chosen.absolute()
        return
    _sweep(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-"))
    stopping.scratch.append(folder)
    with (folder / _UNLOCKED).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / _UNLOCKED).rename(folder / _LOCK)  # by this name it is swept unless it is locked
        try:
            yield folder
        except Exception:
            for data in (folder / "kafka").glob("*/broker-*/data"):
                shutil.rmtree(data, ignore_errors=True)
            (folder / _LOCK).unlink(missing_ok=True)  # so that nobody sweeps it
            if any(folder.iterdir()):
                progress(f"logs are kept in {folder}")
            else:
                folder.rmdir()
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(prefix: str) -> None:
    """Remove scratch folders whose program was killed: the kernel has released their locks.

    Everybody may write where they are: a lock is opened as it stands, no link is followed, nothing
    is written and no pipe waited for.
    """
    as_it_stands = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}-*/{_LOCK}"):
        with suppress(OSError), os.fdopen(os.open(path, as_it_stands)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent, ignore_errors=True)
