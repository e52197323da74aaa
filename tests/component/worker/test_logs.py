"""How the program logs."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys

import pytest
import structlog
from structlog.testing import capture_logs

from mesh.worker.process.logs import set_up_logs
from tests.patience import PATIENCE_S

log = structlog.get_logger()


def test_who_sets_up_again_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """A logger that was used once is bound to nothing: several meshes run in one process."""
    set_up_logs()
    log.warning("one")
    assert '"event": "one"' in capsys.readouterr().err
    structlog.configure(cache_logger_on_first_use=False)
    with capture_logs() as logs:
        log.warning("two")
    assert [one["event"] for one in logs] == ["two"]
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    log.warning("three")
    assert "three" not in capsys.readouterr().err


class Full(io.StringIO):
    """A file on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Full()], ids=["none", "closed", "full"])
def test_a_log_that_cannot_be_written_ends_nobody(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of a worker's log is none of Kafka's: what it serves goes on. Spec: DESIGN 4."""
    monkeypatch.setattr("sys.stderr", stream)
    set_up_logs()
    log.warning("one")


LIBRARIES = """
import logging, warnings
from mesh.worker.process.logs import set_up_logs
set_up_logs()
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=True)
warnings.warn("this goes away")
"""


def test_what_libraries_say_is_json_too() -> None:
    """Line by line, with the traceback of an exception in its line."""
    command = [sys.executable, "-c", LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    first, second, third = map(json.loads, done.stderr.splitlines())
    assert (first["event"], first["level"]) == ("Invalid HTTP request received.", "warning")
    assert "ZeroDivisionError: division by zero" in second["exception"]
    assert "this goes away" in third["event"]
