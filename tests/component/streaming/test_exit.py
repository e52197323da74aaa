"""With which code the auditor's process ends after a signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.__main__ import INTERRUPTED, main


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process in place of the auditor that says when it runs, and ends when it is told to."""
    program, runs = tmp_path / "auditor", tmp_path / "runs"
    program.write_text(f"#!/bin/sh\ntouch {runs}\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
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
