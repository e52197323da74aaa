"""Child processes that never outlive us: brokers, workers, the auditor.

Each child leads a process group of its own, so that Ctrl-C in a terminal reaches only us and we
stop the children in order, and the kernel kills it should we die without a chance to do that.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import psutil

from mesh.errors import StartError

_LAUNCHER = Path(__file__).with_name("launch.py")
STOP_DEADLINE_S = 10.0
_Order = tuple[Sequence[str], Path, Mapping[str, str] | None, int]


class Process:
    """A child that was started by `spawn`. Safe to stop twice and from any thread."""

    def __init__(self, popen: subprocess.Popen[bytes], name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        """Return the process id, also the id of the process group."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Return the exit code, minus the signal's number when one ended it; None while running."""
        return self._popen.poll()

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return self._popen.poll() is None

    def rss(self) -> int:
        """Return the resident memory in bytes; 0 once it is gone."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far; 0.0 once it is gone."""
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def wait(self, deadline_s: float) -> bool:
        """Wait at most `deadline_s` seconds for the process to end; return whether it did."""
        try:
            self._popen.wait(timeout=max(0.0, deadline_s))
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        """Send SIGTERM and return at once, so that several can stop side by side."""
        if self.is_alive():
            self._popen.terminate()

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> bool:
        """Send SIGTERM, wait, then SIGKILL whatever is left of the group.

        Returns:
            Whether it ended by itself within the deadline.
        """
        self.terminate()
        is_clean = self.wait(deadline_s)
        self.kill()
        return is_clean

    def kill(self) -> None:
        """Send SIGKILL to the whole group and wait until the process is gone."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._popen.kill()  # the group is gone; does nothing when the leader is too
        self._popen.wait()

    def pause(self) -> None:
        """Send SIGSTOP: it stands still, and knows nothing of it, until `resume`."""
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._popen.send_signal(signal.SIGCONT)

    def log_tail(self, lines_max: int = 5) -> str:
        """Return the last lines of the log, for an error message."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines_max:])


def spawn(
    args: Sequence[str],
    *,
    name: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    niceness: int = 0,
) -> Process:
    """Start a program; its output is appended to `log`, its input is empty.

    Args:
        args: Program and arguments; the program is a path or found on PATH.
        name: What people call it in messages.
        log: File for its standard output and error; folders are made.
        env: Its whole environment; None passes ours on.
        niceness: How far behind us it comes where the processor is short, 0 to 19.

    Raises:
        StartError: The program does not exist.
    """
    if shutil.which(args[0]) is None:
        raise StartError(f"cannot start {name}: program {args[0]} not found; install it")
    log.parent.mkdir(parents=True, exist_ok=True)
    return Process(_starter().start((args, log, env, niceness)), name, log)


def stop_all(processes: Sequence[Process], deadline_s: float = STOP_DEADLINE_S) -> None:
    """Stop several side by side within one deadline."""
    for process in processes:
        process.terminate()
    end_s = time.monotonic() + deadline_s
    for process in processes:
        process.wait(end_s - time.monotonic())
        process.kill()


class _Starter:
    """The one thread that starts children.

    The kernel's death signal fires when the *thread* that started a child ends, so children
    started by a short-lived thread would die with it. This one lives as long as we do.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._orders: queue.SimpleQueue[tuple[_Order, Future[subprocess.Popen[bytes]]]] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name="lab-starter", daemon=True).start()

    def start(self, order: _Order) -> subprocess.Popen[bytes]:
        answer: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((order, answer))
        return answer.result()

    def _run(self) -> None:
        while True:
            order, answer = self._orders.get()
            try:
                answer.set_result(self._open(*order))
            except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
                answer.set_exception(error)

    def _open(
        self, args: Sequence[str], log: Path, env: Mapping[str, str] | None, niceness: int
    ) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(self.pid), str(niceness)]
        with log.open("ab") as output:
            return subprocess.Popen(
                [*launcher, *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                # Not a session of its own: Linux may give each session the same share of the
                # processor, whatever it needs, and niceness counts within one.
                process_group=0,
            )


_starter_lock = threading.Lock()
_starters: list[_Starter] = []


def _starter() -> _Starter:
    """Return this process's starter; a forked child makes its own, for threads do not fork."""
    with _starter_lock:
        if not _starters or _starters[-1].pid != os.getpid():
            _starters.append(_Starter())
        return _starters[-1]
