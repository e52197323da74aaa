"""How the program logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from mesh.runtime.process.logs import set_up_logs

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
