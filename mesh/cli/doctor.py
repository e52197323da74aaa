"""`mesh doctor`: is this mesh well, and if not, what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.doctor_formats import (
    DoctorOutput,
    nagios_lines,
    prometheus_lines,
    worst_level,
)
from mesh.cli.render import EXIT_NOT_WELL, Output, grid, render, standard_output
from mesh.cli.session import open_clusters, open_session
from mesh.cli.target import HERE, Target, topology_of
from mesh.errors import wrong_input
from mesh.model.counted import counted
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.operate.doctor import Category, Check, Examination
    from mesh.operate.doctor.fixes import Fix

_AGAIN_S = 1.0


def doctor(
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="kafka, rights, topics, transactions, nodes, links, lanes, interest, delivery, "
            "trees or clocks; repeatable."
        ),
    ] = None,
    pre: Annotated[
        bool, typer.Option("--pre", help="Only what must hold before a node is started.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(min=0, help="Keep looking, for up to this many seconds, until nothing fails."),
    ] = 0.0,
    patience: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=600,
            help="Seconds between the two looks that tell what is stuck from what moves.",
        ),
    ] = 2.0,
    fix: Annotated[
        bool, typer.Option("--fix", help="Make missing topics and set wrong topic settings.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what --fix would do.")] = (
        False
    ),
    every: Annotated[bool, typer.Option("--all", help="Show the checks that passed too.")] = (
        False
    ),
    target: Target = HERE,
    output: Annotated[
        DoctorOutput,
        typer.Option("-o", "--output", help="table for people, the others for programs"),
    ] = DoctorOutput.TABLE,
) -> None:
    """Find what is wrong with a mesh, and what to do about it. Exit code 10: something failed.

    With -o nagios the exit codes are those of its plugins: 0 well, 1 warnings, 2 something failed,
    3 the checks could not be made, or were asked for in wrong words.
    """
    from mesh.operate.doctor import Result
    from mesh.operate.documents.doctor import doctor_document

    if dry_run and not fix:
        raise wrong_input("--dry-run", "says what --fix would do; give both")
    checks, fixes = _examined(
        target,
        category or [],
        pre=pre,
        wait=wait,
        patience=patience,
        mends=fix,
        dry_run=dry_run,
    )
    is_well = not any(check.result is Result.FAILED for check in checks)
    data = doctor_document(checks, fixes, ok=is_well, dry_run=dry_run)
    _print(data, output, every=every)
    if output is DoctorOutput.NAGIOS:
        raise typer.Exit(worst_level(data["categories"]))
    raise typer.Exit(0 if is_well else EXIT_NOT_WELL)


def _examined(
    target: Target,
    category: Sequence[str],
    *,
    pre: bool,
    wait: float,
    patience: float,
    mends: bool,
    dry_run: bool,
) -> tuple[Sequence[Check], Sequence[Fix] | None]:
    """Return what the checks say, again and again until nothing fails, and what was mended."""
    from mesh.operate.doctor import Result, examine
    from mesh.operate.doctor.fixes import fixes_of, mend

    chosen = _chosen(category, before_start=pre)
    deadline_ms = clock.now_ms() + int(wait * 1000)
    fixes: Sequence[Fix] | None = None
    while True:
        with _examination(target, patience, before_start=pre) as at:
            if mends and fixes is None:
                found = list(fixes_of(at))
                fixes = found if dry_run else list(mend(at, found))
            checks = list(examine(at, chosen))
        is_well = all(check.result is not Result.FAILED for check in checks)
        if is_well or clock.now_ms() >= deadline_ms:
            return checks, fixes
        clock.pause(_AGAIN_S)


def _chosen(names: Sequence[str], *, before_start: bool) -> Sequence[Category]:
    from mesh.operate.doctor import BEFORE_START, Category

    allowed = list(BEFORE_START if before_start else Category)
    for name in names:
        if name not in allowed:
            when = " with --pre" if before_start else ""
            raise wrong_input(f"--category {name}", f"write one of {', '.join(allowed)}{when}")
    return [Category(name) for name in dict.fromkeys(names)] or allowed


@contextmanager
def _examination(
    target: Target,
    patience_s: float,
    *,
    before_start: bool,
) -> Iterator[Examination]:
    from mesh.operate.doctor import Examination
    from mesh.view.mesh_view import MeshView

    see = partial(
        Examination,
        wall_ms=clock.wall_ms,
        patience_s=patience_s,
        is_before_start=before_start,
    )

    if before_start:
        topology = topology_of(target)
        with (
            open_clusters(topology) as kafka,
            closing(MeshView(topology, kafka, clock.now_ms, name="view")) as view,
        ):
            beats = dict.fromkeys(topology.nodes, False)
            yield see(topology=topology, kafka=kafka, view=view, beats=beats)
    else:
        with open_session(target, needs_kafka=False, is_look=False) as seen:
            yield see(topology=seen.topology, kafka=seen.kafka, view=seen.view, beats=seen.beats)


def _print(data: Mapping[str, Any], output: DoctorOutput, *, every: bool) -> None:
    if output is DoctorOutput.NAGIOS:
        lines = nagios_lines(data["categories"])
    elif output is DoctorOutput.PROMETHEUS:
        lines = prometheus_lines(data["categories"])
    else:
        render(data, lambda: _tables(data, every=every), Output(str(output)))
        return
    with standard_output():
        typer.echo("\n".join(lines))


def _tables(data: Mapping[str, Any], *, every: bool) -> RenderableType:
    checks = _told(data["categories"], every=every)
    if "repairs" not in data:
        return checks
    rows = [
        (
            one["topic"],
            one["kafka"],
            "missing" if one["is_new"] else _words(one["before"]),
            "made, with its settings" if one["is_new"] else _words(one["after"]),
            one["outcome"] + (f": {one['reason']}" if one["reason"] else ""),
        )
        for one in data["repairs"]
    ] or [("nothing to mend", "", "", "", "")]
    return Group(grid(("TOPIC", "KAFKA", "BEFORE", "AFTER", "OUTCOME"), rows), checks)


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _told(categories: Sequence[Mapping[str, Any]], *, every: bool) -> RenderableType:
    """Return how it is in a sentence, what is wrong one after the other, and what is well."""
    results = Counter(one["result"] for group in categories for one in group["checks"])
    return Group(_sentence(results), "", _unusual(categories), _well(categories, every=every))


def _sentence(results: Mapping[str, int]) -> str:
    failed, warnings, well = (results.get(one, 0) for one in ("failed", "warning", "ok"))
    parts = [
        f"{counted(failed, 'check')} failed" if failed else "",
        counted(warnings, "warning") if warnings else "",
    ]
    unusual = ", ".join(filter(None, parts))
    fine = f"{counted(well, 'check')} passed"
    return f"{unusual}, {fine}" if unusual else f"all {fine}"


def _unusual(categories: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return what is wrong: what it is, what was found, what to do; what failed stands first."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    rows = [
        (result, group["name"], *row)
        for result in ("failed", "warning")
        for group in categories
        for row in _folded([one for one in group["checks"] if one["result"] == result])
    ]
    for result, name, what, found, hint in rows:
        told = {result: f"{name}: {what}", "found": found, "do this": hint}
        for word, text in told.items():
            if text:
                table.add_row(word, text)
        table.add_row()
    return table


def _well(categories: Sequence[Mapping[str, Any]], *, every: bool) -> RenderableType:
    """Return what is well: one line per category, or one per check."""
    from mesh.operate.doctor.checks import first_of

    rows: list[tuple[str, str, str]] = []
    for group in categories:
        well = [one for one in group["checks"] if one["result"] == "ok"]
        notes = first_of(dict.fromkeys(one["note"] for one in well if one["note"]))
        if every:
            rows += [(group["name"], one["description"], one["note"]) for one in well]
        elif well:
            count = f"{len(well)} of {len(group['checks'])}"
            rows.append((group["name"], count, notes))
    if not rows:
        return ""
    columns = ("ABOUT", "CHECK" if every else "PASSED")
    if any(note for *_, note in rows):
        return grid((*columns, "FOUND"), rows)
    return grid(columns, [row[:2] for row in rows])


def _folded(checks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield one row per check, and one for all that only point to the checks of kafka.

    A row tells what was looked at, what was found, and what to do.
    """
    from mesh.operate.doctor.checks import SEE_KAFKA

    pointing = [one for one in checks if one["hint"] == SEE_KAFKA]
    for one in checks:
        what = one["description"]
        if one in pointing[1:]:
            continue
        if pointing[1:] and one is pointing[0]:
            what += f"; and {len(pointing) - 1} more"
        yield what, one["error"] or one["note"], one["hint"]
