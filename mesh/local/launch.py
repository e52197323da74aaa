"""Become another program that ends when its starter ends, even if the starter got SIGKILL.

Run as a script with nothing but the standard library:
``python -I -S launch.py PPID NICENESS PROGRAM ARGS``.
A launcher instead of `preexec_fn`, which may deadlock in a program with threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


def _die_with(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the starter ends; end at once if it already has."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit(NOT_STARTED)


def main() -> None:
    """Arm the death signal and take the niceness, which survive `exec`; become the program."""
    _die_with(int(sys.argv[1]))
    os.nice(int(sys.argv[2]))
    program = sys.argv[3]
    try:
        os.execvp(program, sys.argv[3:])  # noqa: S606 - the argument list is ours, no shell is meant
    except OSError as error:
        sys.stderr.write(f"cannot run {program}: {error.strerror}\n")
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main()
