"""How the program logs: lines for people on a terminal, JSON elsewhere, always on stderr."""

from __future__ import annotations

import logging
import sys

import structlog


def set_up_logs(*, level: int = logging.INFO) -> None:
    """Configure logging of the whole process."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Loggers of modules outlive this: those that were used must follow who sets up again. A
        # line costs ten microseconds more, and there are few.
        cache_logger_on_first_use=False,
    )
    # The client library's own lines come through the standard library's logging.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=renderer,
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_logger_name,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING))
