"""The auditor's settings: from arguments, the environment and the topology file."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from mesh.config.kafka_options import addresses_of
from mesh.config.references import resolve_options
from mesh.config.topology_file import load_topology
from mesh.errors import ConfigError, Problem
from mesh.model.topology import Topology

_MEMORY = re.compile(r"[1-9][0-9]*[kmgKMG]")
_MASTER = re.compile(r"spark://\S+:[0-9]+(,\S+:[0-9]+)*|k8s://\S+|yarn|local(\[[0-9]+\])?")

QUERY_VERSION = "v20"
"""Part of every checkpoint path: no query that reads other topics, and no auditor whose state has
another shape, continues from an old one."""

STATE, SPARK = "state", "spark"
"""Folders of a checkpoint: of the auditor's own state, and of Spark's checkpoints."""

TRIGGER_MAX_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """All settings of the auditor.

    Attributes:
        topology: The mesh to audit.
        kafka: librdkafka options per Kafka cluster that a node uses, references resolved.
        checkpoint: Folder from which a restart continues.
        cache: Folder for Spark's jars, shared with the rest of the mesh.
        until_drained: End once everything is judged that had been written when it began.
        trigger_s: Minimum time between two micro-batches, in seconds; 0: as fast as they go.
        offsets_max: Maximum number of records of one Kafka cluster per micro-batch: bounds memory.
        memory: Heap of the JVM, and of each executor on a Spark cluster.
        cores: Cores that it may use: tasks that run in parallel, wherever they run.
        master: Where Spark runs, `spark://HOST:PORT` for example; empty: in this process.
        listen: `HOST:PORT` of probes and metrics; None for nobody.
        is_brief: It will run for minutes: start soon rather than be fast per record.
        past: The period when messages of a past range were routed, ms since 1970; None: audit
            live.
        as_json: Of a past range: print JSON.
    """

    topology: Topology
    kafka: Mapping[str, Mapping[str, str]]
    checkpoint: Path
    cache: Path
    until_drained: bool = False
    trigger_s: float = 1.0
    offsets_max: int = 150_000
    memory: str = "1g"
    cores: int = 2
    master: str = ""
    listen: str | None = None
    is_brief: bool = False
    past: tuple[int, int] | None = None
    as_json: bool = False


def arguments() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(
        prog="python -m streaming",
        description="Audit a mesh live: findings and certificates on <prefix>audit.*",
    )
    parser.add_argument("-f", "--file", required=True, type=Path, help="topology file")
    parser.add_argument(
        "--bootstrap",
        action="append",
        default=[],
        metavar="NAME=HOST:PORT",
        help="address of a Kafka cluster of the file, for instance of an embedded one; repeatable",
    )
    _add_run(parser)
    _add_resources(parser)
    _add_past(parser)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="where a restart goes on; kept by default"
    )
    parser.add_argument(
        "--until-drained",
        action="store_true",
        help="end once all is judged that had been written when it began, or stands still",
    )
    parser.add_argument(
        "--trigger", type=float, default=1.0, metavar="S", help="seconds between micro-batches"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="tell probes and Prometheus; `:8080` for all addresses",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="for a run of minutes: begins in half the time, and takes twice as long per record",
    )


def _add_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        default="",
        metavar="URL",
        help="Spark cluster to work on, spark://HOST:PORT; else the auditor is its own",
    )
    parser.add_argument(
        "--cores", type=int, default=2, metavar="N", help="cores that it may use; default 2"
    )
    parser.add_argument(
        "--memory", default="1g", metavar="SIZE", help="heap of each JVM, 1g or 1500m; default 1g"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=150_000,
        metavar="N",
        help="records of one Kafka cluster in one micro-batch at most: bounds memory",
    )


def _add_past(parser: argparse.ArgumentParser) -> None:
    for word, what in (("--from", "begin"), ("--to", "end")):
        parser.add_argument(
            word,
            dest=f"{what}_ms",
            type=int,
            metavar="MS",
            help=f"judge a past range, print what is found and end: its {what}, ms since 1970",
        )
    parser.add_argument("--json", action="store_true", help="of a past range: one object a line")


def cache_of(environment: Mapping[str, str]) -> Path:
    """Return the folder for Spark's jars: from MESH_CACHE, or the platform's own place."""
    return Path(environment.get("MESH_CACHE") or platformdirs.user_cache_dir("trellis-mesh"))


def settings_of(argv: Sequence[str], environment: Mapping[str, str]) -> AuditSettings:
    """Return the settings given by a command line.

    Args:
        argv: Its words, without the program.
        environment: Variables that the file may refer to, and that name folders.

    Raises:
        ConfigError: A file or an argument is wrong; lists all problems.
        SystemExit: The command line itself is wrong, or asks for help.
    """
    options = arguments().parse_args(argv)
    topology = load_topology(options.file)
    state = Path(platformdirs.user_state_dir("trellis-mesh"), "audit", topology.name)
    checkpoint = (options.checkpoint or state) / QUERY_VERSION
    problems = [*_limits(options), *_past_problems(options)]
    if _past(options) is None:
        problems += _checkpoint_problems(checkpoint, is_given=options.checkpoint is not None)
    return AuditSettings(
        topology=topology,
        kafka=_kafka(topology, options.bootstrap, environment, problems),
        checkpoint=checkpoint,
        cache=cache_of(environment),
        until_drained=options.until_drained,
        trigger_s=options.trigger,
        offsets_max=options.batch,
        memory=options.memory,
        cores=options.cores,
        master=options.master,
        listen=options.listen,
        is_brief=options.brief,
        past=_past(options),
        as_json=options.json,
    )


def _limits(options: argparse.Namespace) -> list[Problem]:
    """Return what is wrong with the bounds given by a command line."""
    problems = [
        Problem(code="ARGUMENT", message="write a number, 1 or more", where=f"--{name} {number}")
        for name, number in (("cores", options.cores), ("batch", options.batch))
        if number < 1
    ]
    if _MEMORY.fullmatch(options.memory) is None:
        where = f"--memory {options.memory}"
        message = "write a size with its unit, 1g or 1500m"
        problems.append(Problem(code="ARGUMENT", message=message, where=where))
    if not 0 <= options.trigger < TRIGGER_MAX_S:
        message = "write seconds, 0 or more, less than a day"
        where = f"--trigger {options.trigger}"
        problems.append(Problem(code="ARGUMENT", message=message, where=where))
    if options.master and _MASTER.fullmatch(options.master) is None:
        message = "write spark://HOST:PORT, k8s://URL, yarn, or local[N]"
        where = f"--master {options.master}"
        problems.append(Problem(code="ARGUMENT", message=message, where=where))
    return problems


def _checkpoint_problems(checkpoint: Path, *, is_given: bool) -> list[Problem]:
    """Return why no state can be kept in a folder; nothing is created yet."""
    faults = [_folder_fault(checkpoint / name) for name in (STATE, SPARK)]
    where = f"--checkpoint {checkpoint.parent}" if is_given else "--checkpoint"
    return [
        Problem(code="ARGUMENT", message=fault, where=where)
        for fault in dict.fromkeys(faults)
        if fault is not None
    ]


def _folder_fault(path: Path) -> str | None:
    """Return why no folder can be at a place, or None."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        return f"{there} is no folder; name another place"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written; name another place, or change its rights"
    return None


def _past(options: argparse.Namespace) -> tuple[int, int] | None:
    """Return the past range given by a command line, if any."""
    if options.begin_ms is None and options.end_ms is None:
        return None
    now_ms = int(time.time() * 1000)
    return options.begin_ms or 0, now_ms if options.end_ms is None else options.end_ms


def _past_problems(options: argparse.Namespace) -> list[Problem]:
    """Return what contradicts a past range, or what requires a missing one."""
    span = _past(options)
    if span is None:
        message = "is for a past range; give --from or --to too"
        return [Problem(code="ARGUMENT", message=message, where="--json")] if options.json else []
    problems = []
    if span[0] >= span[1]:
        message = "is not before --to: no message lies between"
        problems.append(Problem(code="ARGUMENT", message=message, where="--from"))
    live = {
        "--checkpoint": options.checkpoint,
        "--until-drained": options.until_drained,
        "--listen": options.listen,
    }
    message = "is for an auditor that runs on; a past range is judged once: leave it out"
    return problems + [
        Problem(code="ARGUMENT", message=message, where=word)
        for word, given in live.items()
        if given
    ]


def _kafka(
    topology: Topology,
    given: Sequence[str],
    environment: Mapping[str, str],
    problems: list[Problem],
) -> Mapping[str, Mapping[str, str]]:
    addresses: Mapping[str, str] = {}
    try:
        addresses = addresses_of(given, topology.kafka)
    except ConfigError as error:
        problems += error.problems
    used = {topology.audit_kafka, *(node.kafka for node in topology.nodes.values())}
    # The others may get nodes while the auditor runs.
    clusters: dict[str, Mapping[str, str]] = {}
    for name in sorted(topology.kafka):
        cluster = topology.kafka[name]
        where = f"spec.kafka.{name}"
        options = dict(resolve_options(cluster.options, environment=environment, where=where))
        if name in addresses:
            options["bootstrap.servers"] = addresses[name]
        if "bootstrap.servers" not in options and name not in used:
            continue
        if "bootstrap.servers" not in options:
            message = f"has no address; give --bootstrap {name}=HOST:PORT"
            problems.append(Problem(code="NO_ADDRESS", message=message, where=where))
        clusters[name] = options
    if problems:
        raise ConfigError(problems)
    return clusters
