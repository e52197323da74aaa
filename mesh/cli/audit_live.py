"""`mesh audit run` and `mesh audit follow`: the auditor itself, and what it says as it says it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.audit import open_audit
from mesh.cli.options import ProbesOption
from mesh.cli.render import EXIT_NOT_WELL, in_utc, printable, standard_output
from mesh.cli.target import HERE, Target
from mesh.errors import missing_package
from mesh.operate.audit.entries import entry_of
from mesh.operate.audit.latest import is_unsure
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.transport.following import Follower
    from mesh.transport.port import Record

PULSE_S = 0.5
"""How often topics are looked at."""


def run(
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder from which a restart goes on (default: one that is kept for each mesh)."
        ),
    ] = None,
    until_drained: Annotated[
        bool,
        typer.Option(
            "--until-drained",
            help="End once everything written before the start is judged or stuck.",
        ),
    ] = False,
    master: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Spark cluster to run on, as spark://HOST:PORT (default: this machine).",
        ),
    ] = "",
    cores: Annotated[int, typer.Option(min=1, help="Cores that it may use.")] = 2,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Heap of each JVM.")] = "1g",
    batch: Annotated[
        int, typer.Option(min=1, help="Most records of one Kafka cluster in a batch.")
    ] = 150_000,
    listen: ProbesOption = None,
    brief: Annotated[
        bool,
        typer.Option(
            "--brief", help="For a run of minutes: starts sooner, but takes longer per record."
        ),
    ] = False,
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Judge a past range, print what is found, and end: what was routed since "
            "2026-05-04T10:00:00 (local time, or with Z or an offset), or 15m for a quarter of an "
            "hour ago.",
        ),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End of that range (default: now).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With a past range: print one JSON object per line.")
    ] = False,
    target: Target = HERE,
) -> None:
    """Audit a mesh live until Ctrl-C: findings, certificates and status on its audit topics.

    With --from or --to a past range is judged once, by the same code, and printed; exit code 10: a
    fault was found, or not all of it is proven.
    """
    from mesh.operate.moments import moment

    if importlib.util.find_spec("pyspark") is None:
        raise missing_package("the auditor needs PySpark", "audit")
    stated = target.stated()
    target.check_addresses(stated.plain)
    words = [sys.executable, "-m", "streaming", "-f", str(stated.file)]
    for name, address in stated.addresses.items():
        words += ["--bootstrap", f"{name}={address}"]
    words += [] if checkpoint is None else ["--checkpoint", str(checkpoint)]
    words += ["--until-drained"] if until_drained else []
    words += [] if not master else ["--master", master]
    words += ["--cores", str(cores), "--memory", memory, "--batch", str(batch)]
    words += [] if listen is None else ["--listen", listen]
    words += ["--brief"] if brief else []
    now_ms = clock.wall_ms()
    for word, at in (("--from", from_time), ("--to", to_time)):
        words += [] if at is None else [word, str(moment(at, now_ms, word))]
    words += ["--json"] if as_json else []
    from mesh.local.software import with_spark_classes

    os.execve(words[0], words, with_spark_classes())  # noqa: S606  # this very interpreter, and no shell


def follow(
    target: Target = HERE,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    until_found: Annotated[
        bool, typer.Option("--until-found", help="End with exit code 10 at the first new fault.")
    ] = False,
) -> None:
    """Print findings and certificates from now on, as the auditor writes them, until Ctrl-C."""
    from mesh.transport.following import Follower
    from mesh.transport.port import TopicPartition

    with open_audit(target) as (topology, kafka):
        tables = map(topology.names.audit, ("findings", "certificates"))
        follower = Follower(kafka, "audit-follow", clock.now_ms)
        follower.add([TopicPartition(table, 0) for table in tables])
        with closing(follower):
            _print(follower, as_json=as_json, until_found=until_found)


def _print(follower: Follower, *, as_json: bool, until_found: bool) -> None:
    standing: set[bytes | None] = set()
    for record in follower.poll():
        _is_new_fault(record, standing)  # what was said before
    while True:
        for record in follower.poll():
            with standard_output():
                typer.echo(printable(_told(record, as_json=as_json)))
            if _is_new_fault(record, standing) and until_found:
                raise typer.Exit(EXIT_NOT_WELL)
        clock.pause(PULSE_S)


def _entry(record: Record) -> Mapping[str, Any] | None:
    table, value = record.topic().rpartition(".")[2], record.value()
    return None if value is None else entry_of(table, value)


def _is_new_fault(record: Record, standing: set[bytes | None]) -> bool:
    """Return whether a record is a fault that did not stand before, and note that it does.

    One that grows is written again under its id.
    """
    key, entry = record.key(), _entry(record)
    is_known = key in standing
    if entry is None or "kind" not in entry or entry.get("is_news"):
        if record.topic().endswith(".findings"):
            standing.discard(key)
        return False
    standing.add(key)
    return not is_known


def _told(record: Record, *, as_json: bool) -> str:
    """Return a record as a line."""
    id_ = (record.key() or b"").decode(errors="replace")
    if record.value() is None:
        taken_back = {"id": id_, "taken_back": True}
        return json.dumps(taken_back) if as_json else f"taken back: {id_}"
    entry = _entry(record)
    if entry is None:
        unreadable = {"id": id_, "unreadable": True}
        return json.dumps(unreadable) if as_json else f"unreadable record under {id_}"
    return json.dumps(entry) if as_json else _line(id_, entry)


def _line(id_: str, entry: Mapping[str, Any]) -> str:
    at_ms = entry.get("last_seen_ms", entry.get("at_ms"))
    at = in_utc(at_ms) if isinstance(at_ms, int) else ""
    if "kind" in entry:
        return f"{at} {entry['kind']} {id_}: {entry.get('text')}"
    verdict = "equal" if entry.get("equal") else "DIFFERS"
    verdict += ", no proof" if is_unsure(entry) else ""
    span = f"{entry.get('source')} {entry.get('from')}..{entry.get('to')}"
    counts = f"{entry.get('delivered')} of {entry.get('expected')}"
    return f"{at} certified {entry.get('endpoint')}: {span}, {counts}, {verdict}"
