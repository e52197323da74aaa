"""Ctrl-C ends a loop after its turn, wherever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from mesh.__main__ import main
from mesh.cli.interrupt import interruptible
from mesh.cli.main import main as run_here
from mesh.cli.message_lines import print_as_they_come
from mesh.cli.render import Output
from mesh.transport.memory import MemoryAdmin
from tests.component.cli.conftest import Chain, Run
from tests.patience import PATIENCE_S


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


@pytest.mark.parametrize(
    "line", ["queue consume q -n a", "role send desk pricing -n a", "links", "zone delete Z --yes"]
)
def test_a_command_that_waits_for_brokers_ends_at_once(
    line: str, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited as long as brokers may take, after Ctrl-C as before it."""
    begun, ends = threading.Event(), threading.Event()
    admins: list[object] = []

    def hangs(self: MemoryAdmin, *_: object) -> object:
        admins.append(self)
        begun.set()
        ends.wait(60)
        return {}

    for question in ("describe", "stable_ends", "ends"):
        monkeypatch.setattr(MemoryAdmin, question, hangs)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        if begun.wait(60):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        ended = run(*line.split(), "-f", chain[1])
        assert (ended.code, ended.out, ended.err) == (130, "", "")
        assert admins
        assert not ends.is_set()
    finally:
        signal.signal(signal.SIGINT, before)
        ends.set()


@pytest.mark.parametrize(
    ("arguments", "without_end"),
    [
        (("subscribe", "x/>", "-e", "e"), ("--follow",)),
        (("queue", "consume", "q"), ()),
    ],
)
def test_fewer_messages_than_were_asked_for_are_no_success(
    arguments: tuple[str, ...], without_end: tuple[str, ...], run: Run, chain: Chain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """However that came: a script that is interrupted goes by the exit code."""
    _, file = chain
    monkeypatch.setattr("mesh.cli.message_lines.interruptible", lambda _: nullcontext(lambda: True))
    asked = (*arguments, "-n", "b", "-f", file)
    assert run(*asked, "--count", "2").code == 10
    assert run(*asked, *without_end).code == 0


def test_messages_that_come_bit_by_bit_are_no_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where no silence is allowed: what has just come breaks it."""
    monkeypatch.setattr("mesh.cli.message_lines.print_message", lambda *_: None)
    looks = iter([["1", "2"], ["3"], []])
    told: Any = (None, lambda _: next(looks), 4, 0.0, Output.TABLE)
    assert not print_as_they_come(*told)
    assert capsys.readouterr().err == "3 of 4 messages came; nothing more for 0 s\n"
    looks = iter([["1", "2"], ["3"]])
    told = (None, lambda _: next(looks), 3, 0.0, Output.TABLE)
    assert print_as_they_come(*told)
    assert capsys.readouterr().err == ""


def test_a_command_that_has_ended_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for brokers are joined then: Ctrl-C would show where, in a traceback."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("mesh.cli.main.main", lambda: sys.exit(1))
    try:
        with pytest.raises(SystemExit):
            main()
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert after is signal.SIG_DFL


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_second_one_ends_the_command_at_once(
    is_ignored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is closed after the first may wait for brokers that are away."""
    found: list[object] = []

    def runs() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            found.append(signal.getsignal(signal.SIGINT))
        sys.exit(0)

    monkeypatch.setattr("mesh.cli.main.main", runs)
    given = signal.SIG_IGN if is_ignored else signal.default_int_handler
    before = signal.signal(signal.SIGINT, given)
    try:
        with pytest.raises(SystemExit if is_ignored else KeyboardInterrupt):
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [signal.SIG_IGN if is_ignored else signal.SIG_DFL]


BROKERS_HANG = """
import signal, sys, time
from mesh.cli.interrupt import interruptible

with interruptible(float(sys.argv[1])) as is_interrupted:
    signal.raise_signal(signal.SIGINT)
    if len(sys.argv) > 2:
        time.sleep(60)
print("closed what is open", is_interrupted())
"""


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [(("60",), "closed what is open True\n", 0), (("0.1", "hangs"), "", -signal.SIGINT)],
)
def test_a_loop_that_does_not_end_is_ended(
    arguments: tuple[str, ...], told: str, code: int
) -> None:
    """Brokers that hang answer nobody: to leave the group of a queue took six seconds."""
    command = [sys.executable, "-c", BROKERS_HANG, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.stdout, ended.stderr, ended.returncode) == (told, "", code)


FIRST_OF_A_CONTAINER = """
import os, signal, sys
os.getpid = lambda: 1
import mesh.cli.main
from mesh.__main__ import main

def runs():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        print("closed what is open", flush=True)
        if len(sys.argv) > 1:
            signal.raise_signal(signal.SIGTERM)
            print("goes on all the same", flush=True)

mesh.cli.main.main = runs
main()
"""


WHILE_IMPORTING = """
import signal, sys
from mesh.__main__ import main

class Interrupts:
    def find_spec(self, name, *_):
        if name == "mesh.cli.commands":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""


BEFORE_MAIN = """
import signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "signal":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
del sys.modules["signal"]
import mesh.__main__
"""


def test_one_that_comes_before_main_shows_no_traceback() -> None:
    """While Python itself begins, and in the script that `pip` writes, it is theirs to handle."""
    command = [sys.executable, "-c", BEFORE_MAIN]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_one_that_comes_while_modules_are_imported_shows_no_traceback() -> None:
    """A process of its own: whoever starts it sees that a signal has ended it, and no word."""
    command = [sys.executable, "-c", WHILE_IMPORTING]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("is_again", [False, True])
def test_a_container_ends_when_it_is_told_to(is_again: bool) -> None:
    """Its first process gets no signal that it does not handle, and would be killed later."""
    command = [sys.executable, "-c", FIRST_OF_A_CONTAINER, *(["again"] if is_again else [])]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert ended.stdout == "closed what is open\n"
    # Python itself ends by the signal that an interrupt nobody caught stands for.
    assert ended.returncode == (128 + signal.SIGTERM if is_again else -signal.SIGINT)


@pytest.mark.parametrize("is_one", [True, False])
def test_what_libraries_make_of_it_is_no_traceback(
    is_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it comes amid a call of the client library, or of the one that judges files."""

    def runs() -> None:
        try:
            if is_one:
                os.kill(os.getpid(), signal.SIGINT)
        finally:
            raise SystemError("returned a result with an exception set")

    monkeypatch.setattr("mesh.cli.main.main", runs)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit if is_one else SystemError) as ended:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not is_one or ended.value.code == 130  # type: ignore[union-attr]


def test_one_that_comes_before_the_command_begins_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def builds() -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("mesh.cli.main._commands", builds)
    with pytest.raises(SystemExit) as ended:
        run_here(["schema"])
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")
