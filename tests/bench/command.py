"""What every measurement is as a command: progress on stderr, a place for data, a result."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import confluent_kafka
import psutil

from mesh.errors import MeshError
from mesh.local.jars import KAFKA_VERSION
from tests.bench.goals import Goal, are_met

MISSED = 10
SHARED_MEMORY = Path("/dev/shm")

_Found = TypeVar("_Found")


def say(message: str) -> None:
    """Tell progress; stdout is for the result."""
    sys.stderr.write(f"{message}\n")


@contextmanager
def workplace(directory: Path | None) -> Iterator[Path]:
    """Make a folder for logs and data that is gone afterwards, in memory where that can be.

    A killed run ends its processes and drops its data like a finished one.

    Args:
        directory: Where the folder is made; None chooses.
    """
    where = directory or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory(prefix="mesh-bench-", dir=where) as name:
            yield Path(name)
    finally:
        signal.signal(signal.SIGTERM, before)


def about() -> dict[str, object]:
    """Return what the figures hang on: commit, versions, machine."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "commit": commit or "unknown",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "confluent_kafka": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
        "kafka": KAFKA_VERSION,
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "machine": platform.machine(),
        "system": platform.platform(),
    }


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every measurement has."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}", description=description)
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    parser.add_argument("--directory", type=folder, help="where the brokers keep their logs")
    parser.add_argument("--check", action="store_true", help="exit 10 when a goal is not met")
    return parser


def folder(text: str) -> Path:
    """Return a folder that an option names."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder; make it first")
    return path


def result_file(text: str) -> Path:
    """Return a file that an option names, to be written when all is measured."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written; name a file in a folder")
    return path


def at_least(least: int) -> Callable[[str], int]:
    """Return a type of option: a whole number that is not below the least."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} must be {least} or more")
        return value

    return number


def run_command(run: Callable[[], int]) -> int:
    """Run a measurement; what cannot be had is one line and exit code 2, Ctrl-C is 130."""
    try:
        return run()
    except MeshError as error:
        say(f"bench: {error}")
        return 2
    except KeyboardInterrupt:
        say("bench: interrupted")
        return 130


def _no_goals(_found: object) -> Sequence[Goal]:
    return ()


def carry_out(
    options: argparse.Namespace,
    measure: Callable[[Path], _Found],
    rows: Callable[[_Found], Sequence[str]],
    as_json: Callable[[_Found], dict[str, object]],
    goals: Callable[[_Found], Sequence[Goal]] = _no_goals,
) -> int:
    """Measure in a workplace, print the result, and return the exit code.

    Args:
        options: Of `parser_of`.
        measure: Does the work in the folder it is given.
        rows: The result as lines for people.
        as_json: The result as plain values.
        goals: What `--check` looks at.
    """
    return run_command(lambda: _carry_out(options, measure, rows, as_json, goals))


def _carry_out(
    options: argparse.Namespace,
    measure: Callable[[Path], _Found],
    rows: Callable[[_Found], Sequence[str]],
    as_json: Callable[[_Found], dict[str, object]],
    goals: Callable[[_Found], Sequence[Goal]],
) -> int:
    with workplace(options.directory) as directory:
        found = measure(directory)
    if options.output == "json":
        text = json.dumps({"about": about(), **as_json(found)}, indent=1)
    else:
        text = "\n".join(rows(found))
    sys.stdout.write(f"{text}\n")
    return MISSED if options.check and not are_met(goals(found)) else 0
