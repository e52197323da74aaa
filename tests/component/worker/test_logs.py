"""How the program logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from mesh.worker.process.logs import set_up_logs

log = structlog.get_logger()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


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
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    first, second, third = map(json.loads, done.stderr.splitlines())
    assert (first["event"], first["level"]) == ("Invalid HTTP request received.", "warning")
    assert "ZeroDivisionError: division by zero" in second["exception"]
    assert "this goes away" in third["event"]
