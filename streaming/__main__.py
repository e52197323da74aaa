"""`python -m streaming -f FILE`: the live auditor as a process of its own.

Exit codes: 0 after a signal or when drained, 1 when it cannot run or its query died, 2 for a
wrong file or argument.
"""

from __future__ import annotations

import os
import sys

from mesh.errors import ConfigError, MeshError
from streaming.config import settings_of
from streaming.job.run import run


def main() -> int:
    """Audit as the command line says; return the exit code."""
    try:
        run(settings_of(sys.argv[1:], os.environ))
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except MeshError as error:
        print(f"audit: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
