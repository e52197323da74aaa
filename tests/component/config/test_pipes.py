"""Files that people name may be pipes: each is read to its end, unless nobody writes to it."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from select import select
from typing import Any

import pytest

from mesh.config.located import read_document
from mesh.config.references import read_secret_file
from mesh.errors import ConfigError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "mesh.yaml"
    os.mkfifo(path)
    return path


def test_a_pipe_that_nobody_writes_to_is_told(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open it as any other file would wait for ever, without a word."""
    monkeypatch.setattr("mesh.config.reading.WRITER_S", 0.01)
    with pytest.raises(ConfigError) as caught:
        read_document(pipe)
    told = "cannot be read: it is a pipe that nobody writes to; check it [UNREADABLE]"
    assert str(caught.value) == f"{pipe}: {told}"


def test_a_pipe_is_read_to_its_end(pipe: Path) -> None:
    """It holds 64 KiB at once; whoever writes to it may begin after whoever reads it."""
    text = f"a: '{'x' * 200_000}'"
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    assert read_document(pipe).value == {"a": "x" * 200_000}
    writer.join()


def test_a_slow_writer_is_waited_for(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the pipe open: what it computes may take longer than to start it."""
    looked = threading.Event()

    def select_briefly(*given: Any) -> Any:
        found = select(*given[:-1], 0)
        looked.set()
        return found

    monkeypatch.setattr("mesh.config.reading.select", select_briefly)
    reads_too = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # or to open it for writing would wait

    def write(into: int) -> None:
        looked.wait(30)
        os.write(into, b"a: 1")
        os.close(into)

    into = os.open(pipe, os.O_WRONLY)
    writer = threading.Thread(target=write, args=(into,), daemon=True)
    writer.start()
    try:
        assert read_document(pipe).value == {"a": 1}
    finally:
        os.close(reads_too)
        writer.join()


def test_a_secret_may_come_by_a_pipe_unless_nobody_writes_to_it(
    pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker would wait for ever before its first line."""
    pipe.chmod(0o600)
    writer = threading.Thread(target=pipe.write_text, args=("hidden\n",), daemon=True)
    writer.start()
    assert read_secret_file(str(pipe)) == "hidden"
    writer.join()
    monkeypatch.setattr("mesh.config.reading.WRITER_S", 0.01)
    told = f"file {pipe} cannot be read: it is a pipe that nobody writes to; check the path"
    with pytest.raises(ValueError, match=re.escape(told)):
        read_secret_file(str(pipe))
