"""Ctrl-C ends a loop after its turn, wherever it comes."""

from __future__ import annotations

import os
import signal

import pytest

from mesh.__main__ import main
from mesh.cli.interrupt import interruptible


def test_a_word_that_no_call_can_swallow() -> None:
    """An exception raised in a call of the client library may be lost there."""

    class Swallows:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)  # what is raised here is ignored

    before = signal.getsignal(signal.SIGINT)
    with interruptible() as is_interrupted:
        assert not is_interrupted()
        Swallows()
        assert is_interrupted()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before


def test_a_command_that_has_ended_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for brokers are joined then: Ctrl-C would show where, in a traceback."""
    before = signal.getsignal(signal.SIGINT)
    during: list[object] = []

    def ends() -> None:
        during.append(signal.getsignal(signal.SIGINT))
        raise SystemExit(1)

    monkeypatch.setattr("mesh.cli.main.main", ends)
    try:
        with pytest.raises(SystemExit):
            main()
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (during, after) == ([before], signal.SIG_DFL)
