"""`make bench`: the mesh beside raw loops and what others made, on the same broker, in one run.

Writes one JSON file and prints a table; with ``--check`` it exits 10 when a goal is missed or was
not measured, or when other processes disturbed too many rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mesh.local.jars import find_kafka
from tests.bench import audit, mirror, peers, report
from tests.bench.audit_load import FRAME
from tests.bench.command import (
    MISSED,
    about,
    at_least,
    folder,
    result_file,
    run_command,
    say,
    workplace,
)
from tests.bench.contenders import Contender, Positions, raw_loop, walks
from tests.bench.load import NUMBER, TENTH, Load
from tests.bench.meter import OTHER_CORE, pin
from tests.bench.rounds import Round, Rounds
from tests.bench.settings import PEERS, SMOKE, Settings
from tests.bench.stage import BEHIND, NODES, PARTITIONS, Stage

AUDITED = audit.Point(64, 10)
AUDIT_BATCHES = 4
"""Micro-batches, or a few more, for as many records as there are messages: with two records of each
the rates of the last two thirds are those of several."""


def parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, Settings]:
    """Return the options and the settings that they make."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--messages", type=at_least(PARTITIONS), help="per contender and round")
    parser.add_argument("--payload", type=at_least(NUMBER.size), help="bytes")
    parser.add_argument("--subjects", type=at_least(len(TENTH.shares)), help="distinct subjects")
    parser.add_argument("--rounds", type=at_least(1), help="undisturbed rounds")
    parser.add_argument("--foreign", type=float, help="share of a core that others may use")
    parser.add_argument("--peers", nargs="*", choices=PEERS, help="who else takes part")
    parser.add_argument("--audited", type=at_least(2 * FRAME), help="messages for the auditor")
    parser.add_argument("--smoke", action="store_true", help="everything of ours, tiny")
    parser.add_argument("--check", action="store_true", help="exit 10 when a goal is not met")
    parser.add_argument("--out", type=result_file, default=Path("bench.json"), help="the JSON file")
    parser.add_argument("--directory", type=folder, help="where the broker keeps its logs")
    options = parser.parse_args(arguments)
    base = SMOKE if options.smoke else Settings()
    given = {
        name: value
        for name in base.as_json()
        if (value := getattr(options, name, None)) is not None
    }
    return options, replace(base, **given)


def run(settings: Settings, directory: Path) -> dict[str, object]:
    """Run everything and return the report."""
    software = find_kafka(progress=say)
    # Before all else: later this process, and what it starts, is bound to one core.
    batch = max(settings.audited // AUDIT_BATCHES, 2 * FRAME)
    audited = audit.measure(directory, points=[AUDITED], messages=settings.audited, batch=batch)
    with ExitStack() as stack:
        stage = stack.enter_context(Stage(directory, software, say))
        pin(os.getpid(), OTHER_CORE)
        load = Load(stage.bootstrap, payload=settings.payload, subjects=settings.subjects)
        say("starting the nodes a - b - c - d and s")
        started = stage.start_nodes()
        loops = [[raw_loop(stage, load, mode)] for mode in ("", "headers", "eos")]
        for [loop] in loops:
            stack.callback(loop.running.stop, 5.0)
        positions = Positions(stage.kafka, stage.names, NODES, stage.clock.now_ms)
        stack.callback(positions.close)
        found = peers.start(settings.peers, stage, load, settings.payload, say, stack)
        contenders: list[Sequence[Contender]] = [*loops, *walks(stage, load, positions)]
        contenders += [[one] for one in found.contenders]
        stage.hold(*BEHIND)
        rounds = Rounds(stage, contenders, found.helpers, settings, say)
        warm_up, every = rounds_of(rounds, settings)
    for one in every:  # who broke down once has figures of some rounds only
        one.figures = {name: of for name, of in one.figures.items() if name not in rounds.gone}
    quiet = [one for one in every if not one.disturbed]
    table = report.table(report.counted(every), settings.messages)
    return {
        "about": {**about(), "mirror_maker": mirror.VERSION},
        "settings": settings.as_json(),
        "start": started,
        "warm_up": warm_up.as_json(),
        "rounds": [one.as_json() for one in every],
        "contenders": table,
        "auditor": audited.points[AUDITED].as_json(),
        "absent": {**found.absent, **rounds.gone},
        "goals": [
            one.as_json()
            for one in (
                *report.goals(table, len(quiet), settings.rounds),
                *audited.points[AUDITED].goals("the auditor"),
            )
        ],
    }


def rounds_of(rounds: Rounds, settings: Settings) -> tuple[Round, Sequence[Round]]:
    """Return the warm-up, and rounds until enough were undisturbed or too many were not."""
    say("warm-up")
    warm_up = rounds.run(settings.messages)
    every: list[Round] = []
    while (
        sum(not one.disturbed for one in every) < settings.rounds
        and len(every) < 2 * settings.rounds
    ):
        say(f"round {len(every) + 1}")
        every.append(rounds.run(settings.messages))
        if every[-1].disturbed:
            say(f"  disturbed: {every[-1].disturbed}")
    return warm_up, every


def measure(options: argparse.Namespace, settings: Settings) -> int:
    """Run and tell; return the exit code."""
    with workplace(options.directory) as directory:
        found = run(settings, directory)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{report.text(found)}\nwritten: {options.out}\n")
    goals: Sequence[dict[str, object]] = found["goals"]  # type: ignore[assignment]
    return MISSED if options.check and not all(goal["met"] for goal in goals) else 0


def main(arguments: Sequence[str]) -> int:
    """Read the command line, run and tell; return the exit code."""
    options, settings = parsed(arguments)
    return run_command(lambda: measure(options, settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
