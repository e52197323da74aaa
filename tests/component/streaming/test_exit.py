"""With which code the auditor's process ends after a signal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streaming.__main__ import INTERRUPTED, main
from tests.patience import PATIENCE_S

IN_TERMINAL = "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execv(sys.argv[2], sys.argv[2:])"
"""Have a terminal, the first that the leader of a session opens, and become a program."""

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGTTOU)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process in place of the auditor that says when it runs, and ends when it is told to."""
    program, runs = tmp_path / "auditor", tmp_path / "runs"
    program.write_text(f"#!/bin/sh\ntouch {runs}\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield runs
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 0),
        (["--until-drained"], INTERRUPTED),
        (["--from", "1"], INTERRUPTED),
        (["--to=2"], INTERRUPTED),
    ],
)
def test_what_was_to_reach_an_end_says_that_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, patient: Path, words: list[str], code: int
) -> None:
    """A script that waits for all to be judged must not take Ctrl-C for that."""
    monkeypatch.setattr(sys, "argv", ["streaming", "-f", "mesh.yaml", *words])
    is_over = threading.Event()

    def interrupt() -> None:
        while not patient.exists() and not is_over.wait(0.01):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert main() == code
    finally:
        is_over.set()
        thread.join()


def test_an_auditor_speaks_in_a_terminal_that_stops_the_background(tmp_path: Path) -> None:
    """With `stty tostop` it stood still at its first line."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] |= termios.TOSTOP
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    command = [sys.executable, "-m", "streaming", "-f", str(tmp_path / "none.yaml")]
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, os.ttyname(theirs), *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    try:
        assert process.wait(PATIENCE_S) == 2
        assert b"no such file" in os.read(ours, 4096)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        os.close(ours)
        os.close(theirs)
