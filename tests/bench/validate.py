"""How long `mesh validate` takes on large topologies, and how much memory: `python -m tests.bench.validate`.

Prints a table, or with ``-o json`` the figures; with ``--check`` it exits 10 when a goal is missed.
The goals are of processor time, which a busy machine does not change much.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.large import SHAPES, text_of
from tests.bench.used import used_by

MISSED = 10
SECONDS_MAX = {100: 2.0, 1000: 30.0}
"""Most seconds by nodes; sizes between have the next larger goal."""

MEGABYTES_MAX = 500.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One run of the command, Python's start and the reading of the file included."""

    shape: str
    nodes: int
    is_legal: bool
    wall_s: float
    cpu_s: float
    resident_mb: float

    @property
    def is_met(self) -> bool:
        """Return whether it keeps the goals of its size."""
        limit = next((s for size, s in SECONDS_MAX.items() if self.nodes <= size), float("inf"))
        return self.cpu_s <= limit and self.resident_mb <= MEGABYTES_MAX


def measured(shape: str, nodes: int, folder: Path, *, is_legal: bool = True) -> Figure:
    """Run `mesh validate` on a generated file.

    Raises:
        RuntimeError: The verdict is wrong.
    """
    file = folder / f"{shape}-{nodes}.yaml"
    extra = None if is_legal else ("n1", f"n{nodes * 2 // 3}")
    file.write_text(text_of(shape, nodes, extra=extra), encoding="utf-8")
    started_s = time.monotonic()
    used = used_by([sys.executable, "-m", "mesh", "validate", str(file), "-o", "json"])
    wall_s = time.monotonic() - started_s
    verdict = json.loads(used["output"])
    if verdict["legal"] is not is_legal or used["code"] != (0 if is_legal else 2):
        raise RuntimeError(f"{file.name}: the verdict is {verdict}")
    return Figure(shape, nodes, is_legal, wall_s, used["cpu_s"], used["resident_mb"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every shape in every size, legal and with one link too many."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.validate", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--check", action="store_true", help="exit 10 when a goal is missed")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mesh-bench-") as folder:
        figures = [
            measured(shape, nodes, Path(folder), is_legal=is_legal)
            for shape in options.shapes
            for nodes in options.nodes
            for is_legal in (True, False)
        ]
    if options.output == "json":
        listed = [{**asdict(one), "met": one.is_met} for one in figures]
        sys.stdout.write(json.dumps({"figures": listed}, indent=2) + "\n")
    else:
        sys.stdout.write(
            f"{'shape':16}{'nodes':>6} {'legal':6}{'wall s':>8}{'cpu s':>8}{'MB':>6}\n"
        )
        for one in figures:
            sys.stdout.write(
                f"{one.shape:16}{one.nodes:6} {'yes' if one.is_legal else 'no':6}"
                f"{one.wall_s:8.1f}{one.cpu_s:8.1f}{one.resident_mb:6.0f}"
                f"{'' if one.is_met else '  missed'}\n"
            )
    return MISSED if options.check and not all(one.is_met for one in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
