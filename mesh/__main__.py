"""The command `mesh`, also as `python -m mesh`."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line.

    Ctrl-C while modules are still imported, or when the command has ended and threads that wait for
    brokers are joined, ends the program at once, without a traceback.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mesh.cli.main import main as run  # noqa: PLC0415 - after the line above, or in vain

    signal.signal(signal.SIGINT, before)
    try:
        run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
