"""The auditor itself; `python -m streaming` runs it, and ends it where it does not end."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

from mesh.errors import ConfigError, MeshError
from streaming.config import settings_of
from streaming.job.past_run import judge_past
from streaming.job.run import run

GARBAGE_EVERY = 100_000, 20, 20
"""Python looks for cycles after so many new objects. A state is many objects that live long and
have none: to look through them as often as by default took a seventh of the auditor's Python."""

EXIT_FOUND = 10
"""Of a past range: a fault was found, or not all is proven. Until drained: something is left."""


def main() -> int:
    """Run the audit that the command line requests; return the exit code."""
    gc.set_threshold(*GARBAGE_EVERY)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        settings = settings_of(sys.argv[1:], os.environ)
        if settings.past is not None:
            return 0 if judge_past(settings, settings.past) else EXIT_FOUND
        is_all = run(settings)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except MeshError as error:
        print(f"audit: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0 if is_all else EXIT_FOUND


def _end_with_parent() -> None:
    """Wait until the pipe from the process that started this one breaks, and end with the JVM."""
    while os.read(0, 1):  # unbuffered: a buffer's lock may be held when Python ends
        pass
    if os.getpgrp() == os.getpid():  # else a person started this one by hand
        os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
