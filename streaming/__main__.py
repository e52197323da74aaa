"""`python -m streaming -f FILE`: the live auditor as a process that ends when it is told to.

The auditor itself is a Python process with a JVM, and either may wait for a Kafka cluster that does
not answer, in calls that no signal ends. So both run in a process group of their own under this
process, which asks first and then ends them. They end with it, too: the auditor reads a pipe that
nobody writes to, and which breaks when this process is gone, however that happened.

Exit codes: 0 after a signal or when drained, 10 when it ended without what stands still, 1 when the
auditor cannot run or its query died, 2 for a wrong file or argument. Of a past range: 0 when all is
proven, and 10 when not. Where an end was to be reached, of a past range or with `--until-drained`,
130 after a signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import FrameType

GRACE_S = 4.0
"""How long the auditor may certify what is open after a signal; its state is whole at any end."""

PULSE_S = 0.05

INTERRUPTED = 130


def main() -> int:
    """Run the auditor; return the exit code."""
    asked_s: list[float] = []

    def ask(_: int, __: FrameType | None) -> None:
        asked_s.append(time.monotonic())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    # Where `stty tostop` is set, who is not in the terminal's foreground stands still as soon as it
    # says something. The child inherits this.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    command = [sys.executable, "-m", "streaming.job", *sys.argv[1:]]
    child = subprocess.Popen(  # noqa: S603  # this very interpreter, and our own arguments
        command, stdin=subprocess.PIPE, process_group=0
    )
    is_told = False
    try:
        while child.poll() is None and not (asked_s and time.monotonic() - asked_s[0] >= GRACE_S):
            if asked_s and not is_told:
                child.terminate()
                is_told = True
            with suppress(subprocess.TimeoutExpired):
                child.wait(PULSE_S)
    finally:
        with suppress(ProcessLookupError):  # the JVM sometimes outlives its Python
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if asked_s:
        return INTERRUPTED if _has_an_end() else 0
    return child.returncode if child.returncode in (0, 1, 2, 10) else 1


def _has_an_end() -> bool:
    """Return whether something was to be judged to its end: an interruption leaves it open."""
    ends = ("--from", "--to", "--until-drained")
    return any(word.partition("=")[0] in ends for word in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
