"""The command `mesh`, also as `python -m mesh`."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # what is imported before `main` begins could show a traceback
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line.

    Ctrl-C ends it as soon as what it has open is closed, and a second one at once. While modules
    are still imported, or when the command has ended and threads that wait for brokers are joined,
    the first one does. None of them shows a traceback.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        _run()  # who ignores it, as what `nohup` has started, goes on so
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import mesh.cli.main  # noqa: F401, PLC0415 - after the line above, or in vain

    interrupted: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        interrupted.append(number)
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, end)
    try:
        _run()
    except Exception:
        # Libraries in C and Rust hand it on as an error of their own.
        if not interrupted:
            raise
        from mesh.cli.problems import EXIT_INTERRUPTED  # noqa: PLC0415 - as above

        raise SystemExit(EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run() -> NoReturn:
    from mesh.cli.main import main as run  # noqa: PLC0415 - see `main`

    run()


if __name__ == "__main__":
    main()
