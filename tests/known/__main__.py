"""Show the faults that are known: each file is run, and what it shows is printed.

Exit code 0 if all still show; 1 if one does not: then its cure is to be told, and its file becomes
a test like any other.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import structlog

from tests.known import former_neighbours, moved_copies

_FILES: Sequence[ModuleType] = (moved_copies, former_neighbours)
KNOWN: Mapping[str, ModuleType] = {one.__name__.rpartition(".")[2]: one for one in _FILES}
"""In the order of `docs/guarantees.md`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run some or all; return 1 if one shows its fault no more."""
    parser = argparse.ArgumentParser(prog="python -m tests.known", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KNOWN)}")
    names = parser.parse_args(arguments).names or list(KNOWN)
    if unknown := [one for one in names if one not in KNOWN]:
        sys.stderr.write(f"no known fault {unknown[0]!r}: there are {', '.join(KNOWN)}\n")
        return 2
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        shown = [_show(name, KNOWN[name].run) for name in names]
    finally:
        structlog.configure(**before)
    return 0 if all(shown) else 1


def _show(name: str, run: Callable[[], str]) -> bool:
    fault = run()
    told = f"FAILS: {fault}" if fault else "shows no fault any more"
    sys.stdout.write(f"{name}: {KNOWN[name].POINT}\n  {told}\n")
    sys.stdout.flush()
    return bool(fault)


if __name__ == "__main__":
    sys.exit(main())
