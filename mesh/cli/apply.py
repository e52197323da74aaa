"""`mesh apply`: put a topology file in force on the running mesh. Spec: DESIGN 3, K27, K28."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.change import ApplyOptions, outcome_document, put_and_tell
from mesh.cli.given_topology import legal_document_or_refused, read_or_refused
from mesh.cli.options import AllowDeleteOption, ChangeWaitOption, YesOption
from mesh.cli.render import Output, OutputOption, render, say
from mesh.cli.session import in_force_if_known, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import NotInTimeError, wrong_input

if TYPE_CHECKING:
    from mesh.config.located import Document
    from mesh.model.topology import Topology
    from mesh.operate.changes.begin import PendingChange
    from mesh.operate.changes.driver import ChangeOutcome, MeshToChange
    from mesh.operate.changes.in_force import TopologyInForce


def apply(
    proposed: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A topology file, or a plan that `mesh plan --out` saved."
        ),
    ] = None,
    yes: YesOption = False,
    allow_delete: AllowDeleteOption = False,
    wait: ChangeWaitOption = None,
    abort: Annotated[
        bool,
        typer.Option(
            "--abort",
            help="Roll back the change under way, if no node works by the new topology yet.",
        ),
    ] = False,
    unattended: Annotated[
        bool,
        typer.Option(
            "--unattended",
            help="Roll back a change that misses its deadline, or one left behind, as long as no "
            "node works by it, so that nobody stays paused.",
        ),
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a topology in force on the running mesh, without loss and in order.

    Only sources whose messages take a new path, or lose one, pause. To go on with a change that
    was interrupted, give the same command again.

    Exit codes: 0 in force, or nothing to change; 1 a Kafka cluster does not answer; 2 refused;
    10 not in time.
    """
    from mesh.operate.changes.begin import begun_last
    from mesh.operate.changes.plan_file import large_plan

    if abort == (proposed is not None):
        raise wrong_input("--abort", "give either a FILE, or --abort without one")
    if proposed is None:
        with open_session(target, is_look=False) as seen:
            _abort(seen.to_change(), wait, output)
        return
    # What is wrong with the file is reported before anybody is asked.
    document = large_plan(proposed) or read_or_refused(proposed, output)
    kept = document.within("kind").value == "Plan"
    part = document.within("document") if kept else document
    topology = legal_document_or_refused(part, output, lambda: in_force_if_known(target))
    how = ApplyOptions(
        name=str(proposed), yes=yes, allow_delete=allow_delete, wait=wait, output=output
    )
    with open_session(target, is_look=False) as seen:
        mesh = seen.to_change()
        begun = begun_last(mesh)
        if unattended and (left := _may_go_back(begun, topology)) is not None:
            say(f"taking back the change to version {left.change.number}, which was left")
            _take_back(mesh, None)
            begun = begun_last(mesh)
        if kept and (begun is None or not begun.is_open):
            _refuse_moved_on(document, mesh.in_force)
        told: list[int] = []
        try:
            with _interrupted_by_sigterm(told) if unattended else nullcontext():
                put_and_tell(mesh, topology, begun, part.within("spec").where, how)
        except (Exception, KeyboardInterrupt) as late:
            # Libraries in C hand an interrupt on as an error of their own.
            is_ended = bool(told) or isinstance(late, KeyboardInterrupt)
            is_late = is_ended or isinstance(late, NotInTimeError)
            if not (unattended and is_late) or _may_go_back(begun_last(mesh)) is None:
                raise
            _take_back(mesh, None)
            if is_ended:
                say("interrupted: the change was rolled back and no node is paused")
                raise KeyboardInterrupt from late
            reason = str(late).rpartition("; ")[0]  # what follows is how to go on or back
            raise NotInTimeError(
                f"{reason}; the change was rolled back and no node is paused"
            ) from late


@contextmanager
def _interrupted_by_sigterm(told: list[int]) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, and note it: that is how Kubernetes ends a pod."""

    def end(number: int, _frame: object) -> None:
        told.append(number)
        signal.signal(number, before)  # a second one ends it at once
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _may_go_back(begun: PendingChange | None, but: Topology | None = None) -> PendingChange | None:
    """Return a change that is under way if no node works by it, unless it leads to `but`."""
    from mesh.config.published import published_text
    from mesh.model.control import Stage

    if begun is None or not begun.is_open:
        return None
    is_early = begun.change.stage in (Stage.HOLD, Stage.ABORT)
    is_meant = but is not None and begun.change.topology == published_text(but)
    return begun if is_early and not is_meant else None


def _abort(mesh: MeshToChange, wait: float | None, output: Output) -> None:
    outcome = _take_back(mesh, wait)
    text = f"change {outcome.number} is aborted; {mesh.in_force.label}, stays in force"
    render(outcome_document(outcome), lambda: text, output)


def _take_back(mesh: MeshToChange, wait: float | None) -> ChangeOutcome:
    from mesh.operate.changes.begin import abort_change, begun_last
    from mesh.operate.changes.draining import FollowedLaneReports
    from mesh.operate.changes.put_in_force import WAIT_S

    begun, topology = begun_last(mesh), mesh.in_force.topology
    with FollowedLaneReports.begun(topology, mesh.kafka, mesh.time.now_ms) as reports:
        return abort_change(mesh, reports, begun).run(WAIT_S if wait is None else wait)


def _refuse_moved_on(document: Document, found: TopologyInForce) -> None:
    from mesh.operate.changes.put_in_force import MOVED_ON

    base = document.value.get("base") if isinstance(document.value, Mapping) else None
    if base == {"version": found.number, "hash": found.hash}:
        return
    where = document.within("base").where()
    message = (
        f"the plan was made against another topology than {found.label}, which is in force now: "
        "plan again"
    )
    raise wrong_input(where, message, code=MOVED_ON)
