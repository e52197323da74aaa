"""`make bench`: the mesh beside a raw loop and MirrorMaker 2, on the same broker, in one run.

Writes one JSON file and prints a table; with ``--check`` it exits 10 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mesh.errors import MeshError
from mesh.local.jars import find_kafka
from mesh.local.processes import Process, stop_all
from tests.bench import mirror, quiet, recovery, report
from tests.bench.command import about, folder, result_file, say, workplace
from tests.bench.contenders import Contender, Positions, hops, mirror_maker, raw_loop
from tests.bench.load import Load
from tests.bench.meter import OTHER_CORE, OWN_CORE, pin
from tests.bench.rounds import Round, Rounds
from tests.bench.settings import SMOKE, Settings
from tests.bench.stage import NODES, Stage

MISSED = 10


def parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, Settings]:
    """Return the options and the settings that they make."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--messages", type=int, help="per contender and round")
    parser.add_argument("--payload", type=int, help="bytes")
    parser.add_argument("--subjects", type=int, help="distinct subjects")
    parser.add_argument("--rounds", type=int, help="rounds that count")
    parser.add_argument("--foreign", type=float, help="share of a core that others may use")
    parser.add_argument("--latency", type=int, nargs="*", help="messages per second of each loop")
    parser.add_argument("--latency-s", type=float, help="length of each loop")
    parser.add_argument("--idle-s", type=float, help="how long an idle worker is watched")
    parser.add_argument("--filters", type=int, help="filters of the memory measurement")
    parser.add_argument("--kills", type=int, help="how often a worker is killed under load")
    parser.add_argument("--no-mirror", dest="mirror", action="store_const", const=False)
    parser.add_argument("--smoke", action="store_true", help="everything, tiny")
    parser.add_argument("--check", action="store_true", help="exit 10 when a goal is missed")
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
    found: dict[str, object] = {
        "about": {**about(), "mirror_maker": mirror.VERSION},
        "settings": settings.as_json(),
    }
    software = find_kafka(progress=say)
    mirror_software = mirror.find(say) if settings.mirror else None
    with ExitStack() as stack:
        stage = stack.enter_context(Stage(directory, software, say))
        pin(os.getpid(), OTHER_CORE)
        load = Load(stage.bootstrap, payload=settings.payload, subjects=settings.subjects)
        say("starting the chain a - b - c")
        found["start"] = stage.start_nodes()
        latency = latencies(stage, settings, load)
        idle = quiet.idle(stage, NODES, settings.idle_s) if settings.idle_s else {}
        away = takeovers(stage, settings)
        per_filter = quiet.bytes_per_filter(settings.filters) if settings.filters else None
        contenders: list[Contender] = [
            raw_loop(stage, load, with_headers=False),
            raw_loop(stage, load, with_headers=True),
        ]
        stack.callback(lambda: stop(contenders[:2]))
        positions = Positions(stage.kafka, stage.names, NODES, stage.clock.now_ms)
        stack.callback(positions.close)
        contenders += hops(stage, load, positions)
        if mirror_software is not None:
            say("starting MirrorMaker 2")
            began_s = time.monotonic()
            copier = mirror_maker(stage, load, mirror_software)
            contenders.append(copier)
            stack.callback(lambda: stop([copier]))
            found["start_mm2"] = {
                "wall_s": time.monotonic() - began_s,
                "cpu_s": copier.process().cpu_s(),
            }
        for node, behind in (("b", "a"), ("c", "b")):
            stage.fleet.cut(node, [behind])
        counted, every = rounds_of(Rounds(stage, contenders, settings, say), settings)
    table = report.contenders(counted, settings.messages)
    goals = report.goals(table, counted, latency, idle, away, per_filter)
    return {
        **found,
        "warm_up": every[0].as_json(),
        "rounds": [one.as_json() for one in every[1:]],
        "dropped": [one.dropped for one in every[1:] if one.dropped],
        "contenders": table,
        "latency_ms": latency,
        "idle": idle,
        "takeover_s": away,
        "bytes_per_filter": per_filter,
        "goals": [goal.as_json() for goal in goals],
    }


def rounds_of(rounds: Rounds, settings: Settings) -> tuple[Sequence[Round], Sequence[Round]]:
    """Return the rounds that count, and all of them with the warm-up first."""
    every: list[Round] = []
    counted: list[Round] = []
    while len(counted) < settings.rounds and len(every) <= 2 * settings.rounds:
        say(f"round {len(every)}" + ("" if every else ": warm-up"))
        one = rounds.run(settings.messages)
        if every and not one.dropped:
            counted.append(one)
        elif every:
            say(f"  dropped: {one.dropped}")
        every.append(one)
    return counted, every


def latencies(stage: Stage, settings: Settings, load: Load) -> Mapping[str, Mapping[str, float]]:
    """Return the delays of a quiet mesh over the link a -> b, and of a raw loop."""
    if not settings.latency:
        return {}
    names = stage.names
    loop = raw_loop(stage, load, with_headers=True)
    for process in (loop.process(), *map(stage.worker, NODES)):
        pin(process.pid, OWN_CORE)  # beside the broker and the load, like the loop
    paths = {
        "raw+headers": (loop.source, loop.target, "x/y"),
        "direct": (f"{names.prefix}a.in.d", names.endpoint("b", "near-d"), "ld/site/line"),
        "guaranteed": (f"{names.prefix}a.in.g", names.endpoint("b", "near-g"), "lg/site/line"),
    }
    found: dict[str, Mapping[str, float]] = {}
    try:
        for source, target, subject in paths.values():  # a cold broker is another broker
            quiet.one_way(
                stage, source, target, subject, rate=max(settings.latency), length_s=quiet.COLD_S
            )
        for rate in settings.latency:
            for name, (source, target, subject) in paths.items():
                say(f"latency: {name} at {rate}/s")
                found[f"{name}@{rate}"] = quiet.one_way(
                    stage, source, target, subject, rate=rate, length_s=settings.latency_s
                )
    finally:
        stop([loop])  # the rounds have one of their own on the same topics
    return found


def takeovers(stage: Stage, settings: Settings) -> Sequence[float]:
    """Return how long b was away, per kill, in seconds."""
    if not settings.kills:
        return []
    say(f"killing b {settings.kills} times")
    names = stage.names
    source, target = f"{names.prefix}a.in.g", names.endpoint("b", "near-g")
    return recovery.takeovers(stage, "b", source, target, kills=settings.kills)


def stop(contenders: Sequence[Contender]) -> None:
    """Stop programs that are not the stage's own."""
    processes: list[Process] = [one.process() for one in contenders]
    stop_all(processes, 5.0)


def main(arguments: Sequence[str]) -> int:
    """Run and tell; return the exit code."""
    options, settings = parsed(arguments)
    with workplace(options.directory) as directory:
        try:
            found = run(settings, directory)
        except MeshError as error:
            say(f"bench: {error}")
            return 1
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{report.text(found)}\nwritten: {options.out}\n")
    missed = [goal for goal in found["goals"] if goal["met"] is False]  # type: ignore[attr-defined]
    return MISSED if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
