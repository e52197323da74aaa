"""Ctrl-C ends a loop after its turn, wherever it comes."""

from __future__ import annotations

import os
import signal

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
