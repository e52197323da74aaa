"""The command `mesh`, also as `python -m mesh`."""

from __future__ import annotations

try:
    import gc
    import os
    import signal
except KeyboardInterrupt:  # before `main` can say what becomes of it
    raise SystemExit(130) from None

TYPE_CHECKING = False  # what is imported before `main` begins could show a traceback
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

FIRST = 1
"""Of a container the first process: the kernel keeps from it what it does not handle."""


NEW_MAX = 50_000
"""So many new objects are searched for garbage at once. Imports make more than a hundred thousand
and leave none: by Python's own number they are searched 200 times until a worker begins."""


def main() -> NoReturn:
    """Run the command line.

    Ctrl-C ends it as soon as what it has open is closed, and a second one at once. While modules
    are still imported, or when the command has ended and threads that wait for brokers are joined,
    the first one does. None of them shows a traceback. In a container SIGTERM does the same: else
    Kubernetes would wait for half a minute and then kill what could have ended well.
    """
    gc.set_threshold(NEW_MAX, 20, 20)
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        _run()  # who ignores it, as what `nohup` has started, goes on so
    is_first = os.getpid() == FIRST
    numbers = (signal.SIGINT, signal.SIGTERM) if is_first else (signal.SIGINT,)
    at_once = _leave if is_first else signal.SIG_DFL
    for number in numbers:
        signal.signal(number, at_once)
    import mesh.cli.main  # noqa: F401, PLC0415 - after the lines above, or in vain

    interrupted: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        interrupted.append(number)
        signal.signal(number, at_once)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)
    try:
        _run()
    except Exception:
        # Libraries in C and Rust hand it on as an error of their own.
        if not interrupted:
            raise
        from mesh.cli.problems import EXIT_INTERRUPTED  # noqa: PLC0415 - as above

        raise SystemExit(EXIT_INTERRUPTED) from None
    finally:
        for number in numbers:
            signal.signal(number, at_once)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)  # as a shell tells of what a signal has ended


def _run() -> NoReturn:
    from mesh.cli.main import main as run  # noqa: PLC0415 - see `main`

    run()


if __name__ == "__main__":
    main()
