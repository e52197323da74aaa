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

NEW_MAX = 50_000
"""New objects after which Python looks for cycles among them: it looks through the whole state
at times, which has none, and by default a snapshot of many endpoints makes it do so ten times."""

EXIT_FOUND = 10
"""Of a past range: a fault was found, or not all is proven. Until drained: something is left."""


def main() -> int:
    """Audit as the command line says; return the exit code."""
    gc.set_threshold(NEW_MAX, 20, 20)
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
