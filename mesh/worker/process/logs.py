"""How the program logs: lines for people on a terminal, JSON elsewhere, always on stderr."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

_UNWRITABLE = (OSError, ValueError)
"""What a full or closed stream raises; ValueError where Python itself has closed it."""


class _Output(io.TextIOBase):
    """Standard error as logs use it: what cannot be written is lost, and ends no process.

    It may be closed, a pipe that nobody reads any more, or a file on a full disk.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr

    def isatty(self) -> bool:
        """Return whether output goes to a terminal."""
        with suppress(*_UNWRITABLE):
            return self._stream is not None and self._stream.isatty()
        return False

    def write(self, text: str) -> int:
        """Write a line."""
        if self._stream is not None:
            with suppress(*_UNWRITABLE):
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        if self._stream is not None:
            with suppress(*_UNWRITABLE):
                self._stream.flush()


def set_up_logs(*, level: int = logging.INFO) -> None:
    """Configure logging of the whole process."""
    output = cast(TextIO, _Output())
    rendering: list[structlog.typing.Processor] = (
        # Leave out the values of variables: they hold payloads and secrets.
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if output.isatty()
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(output),
        # Module loggers outlive this call, and those already used must follow a later set-up. That
        # costs ten microseconds more per line, and there are few.
        cache_logger_on_first_use=False,
    )
    # Log lines of libraries, and Python's warnings, arrive through the standard logging.
    logging.captureWarnings(capture=True)
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_logger_name,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING))
