"""`mesh apply`: put a topology file in force on the running mesh. Spec: DESIGN 3, K27, K28."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli import clock
from mesh.cli.plan import against_mesh, shown
from mesh.cli.render import Output, OutputOption, render
from mesh.cli.session import Session, in_force_if_known, named, open_session
from mesh.cli.target import HERE, Target, is_asked, say
from mesh.cli.topology import legal_document_or_refused, read_or_refused
from mesh.errors import NotInTimeError, TransportError, TransportUnavailableError, wrong_input

if TYPE_CHECKING:
    from mesh.config.located import Document, Locate
    from mesh.model.topology import Topology
    from mesh.operate.changes.begin import PendingChange
    from mesh.operate.changes.draining import FollowedLaneReports
    from mesh.operate.changes.driver import ChangeContext, Outcome
    from mesh.operate.changes.in_force import TopologyInForce
    from mesh.operate.changes.plan import Place, Plan
    from mesh.transport.port import KafkaCluster

WAIT_S = 60.0
MOVED_ON = "MOVED_ON"
"""Code of the problem that another topology is in force than the plan was made against."""

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DeleteOption = Annotated[
    bool,
    typer.Option(
        "--allow-delete",
        help="Delete topics that nobody needs any more, with unread messages in them.",
    ),
]
WaitOption = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds it may take, 60 if left out; waits for nodes too."),
]


def apply(
    proposed: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A topology file, or what `mesh plan --out` kept."),
    ] = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    wait: WaitOption = None,
    abort: Annotated[
        bool, typer.Option("--abort", help="Go back: no node works by the new topology yet.")
    ] = False,
    unattended: Annotated[
        bool,
        typer.Option(
            "--unattended",
            help="Take back what is not in time, and another change that was left before, where "
            "no node works by it yet: nobody pauses until somebody comes.",
        ),
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a topology in force on the running mesh, without loss and in order.

    Only sources of walks that move or end pause. A change that was left is gone on with by the
    same command.

    Exit codes: 0 in force, or nothing to change; 1 a Kafka cluster does not answer; 2 refused;
    10 not in time.
    """
    from mesh.operate.changes.plan_file import large_plan

    if abort == (proposed is not None):
        raise wrong_input("--abort", "give either a FILE, or --abort without one")
    if proposed is None:
        with open_session(target, is_look=False) as seen:
            _abort(seen.in_force(), seen, wait, output)
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
        found = seen.in_force()
        begun = read_begun_last(found, seen)
        if unattended and (left := _may_go_back(begun, topology)) is not None:
            say(f"taking back the change to version {left.change.number}, which was left")
            _take_back(found, seen, None)
            begun = read_begun_last(found, seen)
        if kept and (begun is None or not begun.is_open):
            _refuse_moved_on(document, found)
        told: list[int] = []
        try:
            with _interrupted_by_sigterm(told) if unattended else nullcontext():
                put_in_force(found, seen, topology, begun, part.within("spec").where, how)
        except (Exception, KeyboardInterrupt) as late:
            # Libraries in C hand an interrupt on as an error of their own.
            is_ended = bool(told) or isinstance(late, KeyboardInterrupt)
            is_late = is_ended or isinstance(late, NotInTimeError)
            if not (unattended and is_late) or _may_go_back(read_begun_last(found, seen)) is None:
                raise
            _take_back(found, seen, None)
            if is_ended:
                say("told to end: it is taken back, and nobody pauses")
                raise KeyboardInterrupt from late
            reason = str(late).rpartition("; ")[0]  # what follows is how to go on or back
            raise NotInTimeError(f"{reason}; it is taken back, and nobody pauses") from late


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a topology is put in force.

    Attributes:
        name: What people call it: a file, or a command.
        yes: Whether nobody is asked.
        allow_delete: Whether topics that nobody needs any more are deleted.
        wait: Seconds it may take; None is the default, and nodes are not waited for.
        output: How it is told.
    """

    name: str
    yes: bool
    allow_delete: bool
    wait: float | None
    output: Output


def put_in_force(
    found: TopologyInForce,
    seen: Session,
    after: Topology,
    begun: PendingChange | None,
    locate: Locate,
    how: ApplyOptions,
) -> None:
    """Show what a topology would change, ask, put it in force and tell how that went.

    Args:
        found: What is in force.
        seen: The mesh.
        after: A legal topology.
        begun: The change that was begun last.
        locate: Gives the place of a path below its spec.
        how: What was asked for.

    Raises:
        ConfigError: A running mesh cannot follow it, messages would be lost, another change is
            under way, or another topology came into force meanwhile; nothing was changed.
        NotBegunError: Nodes that must take part do not; nothing was changed.
        NotInTimeError: The change was begun and is not done.
    """
    from mesh.operate.changes.draining import FollowedLaneReports
    from mesh.operate.changes.plan import refuse_loss

    with FollowedLaneReports.begun(found.topology, seen.kafka, clock.now_ms) as reports:
        goes_on = begun is not None and begun.is_open
        made = against_mesh(found, seen, after, locate)
        if made.is_empty and not goes_on:
            if not found.number:
                found = _found(after, seen)
            _tell_nothing(found, made, how.name, how.output)
            return
        if not (how.allow_delete or goes_on):
            refuse_loss(made.unread, locate)
        if how.output is Output.TABLE:
            render({}, lambda: shown(made, how.name), how.output)
        if _ask(yes=how.yes):
            seen = seen.observed_again()  # who is up may have changed while somebody thought
        begun = _still_so(found, seen)
        with _change_context(seen, after, reports) as context:
            outcome = _carry_out(found, after, begun, seen, context, how)
        deleted = _delete(made.topics.deleted, seen.kafka) if how.allow_delete else ()
        _tell(outcome, made, deleted, how.output)


def _found(topology: Topology, seen: Session) -> TopologyInForce:
    """Write a topology as what is in force where nobody has: nodes go by their files till then.

    Raises:
        ConfigError: Somebody has put another one in force meanwhile.
        TransportError: A Kafka cluster did not answer or did not take it.
    """
    from mesh.operate.changes.founding import publish
    from mesh.operate.changes.in_force import TopologyInForce

    return TopologyInForce(number=publish(topology, seen.kafka), topology=topology)


def _still_so(found: TopologyInForce, seen: Session) -> PendingChange | None:
    """Refuse what was planned against another topology than the one in force by now."""
    from mesh.operate.changes.in_force import read_in_force

    now, _ = read_in_force(seen.kafka, found.topology.prefix)
    if now is not None and (now.number, now.hash) != (found.number, found.hash):
        message = (
            f"somebody has put {named(now)} in force, and this was planned against {named(found)}; "
            "nothing was changed: give the command again"
        )
        raise wrong_input("mesh.config", message, code=MOVED_ON)
    return read_begun_last(found, seen)


def _carry_out(
    found: TopologyInForce,
    after: Topology,
    begun: PendingChange | None,
    seen: Session,
    context: ChangeContext,
    how: ApplyOptions,
) -> Outcome:
    from mesh.operate.changes.begin import begin_change

    down = [node for node in found.topology.nodes if not seen.beats[node]]
    given_up = [node for node in down if node not in after.nodes] if how.allow_delete else []
    change = begin_change(found, after, begun, context, given_up=given_up)
    return change.run(WAIT_S if how.wait is None else how.wait, how.wait or 0.0)


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


def _abort(found: TopologyInForce, seen: Session, wait: float | None, output: Output) -> None:
    outcome = _take_back(found, seen, wait)
    text = f"change {outcome.number} is aborted; {named(found)}, stays in force"
    render(_as_mapping(outcome), lambda: text, output)


def _take_back(found: TopologyInForce, seen: Session, wait: float | None) -> Outcome:
    from mesh.operate.changes.begin import abort_change
    from mesh.operate.changes.draining import FollowedLaneReports

    begun = read_begun_last(found, seen)
    with (
        FollowedLaneReports.begun(found.topology, seen.kafka, clock.now_ms) as reports,
        _change_context(seen, found.topology, reports) as context,
    ):
        return abort_change(found, begun, context).run(WAIT_S if wait is None else wait)


@contextmanager
def _change_context(
    seen: Session, after: Topology, reports: FollowedLaneReports
) -> Iterator[ChangeContext]:
    """Open the Kafka clusters that the mesh has afterwards, too."""
    from mesh.operate.changes.driver import ChangeContext
    from mesh.view.connection import open_kafka

    fresh = [name for name in after.kafka if name not in seen.kafka]
    more = open_kafka(after, fresh, client_prefix="mesh-cli")
    try:
        kafka: Mapping[str, KafkaCluster] = {**seen.kafka, **{name: more[name] for name in fresh}}
        yield ChangeContext(
            kafka=kafka,
            view=seen.view,
            now_ms=clock.now_ms,
            pause=clock.pause,
            tell=say,
            beats=seen.beats,
            reports=reports,
        )
    finally:
        for name in fresh:
            more[name].close()


def read_begun_last(found: TopologyInForce, seen: Session) -> PendingChange | None:
    """Return the change that was begun last; refuse to go on blindly.

    Raises:
        TransportUnavailableError: A Kafka cluster does not answer: to try again is right.
    """
    from mesh.operate.changes.begin import read_begun

    for fault in seen.view.unreachable.values():
        raise TransportUnavailableError(f"nothing was changed: {fault}")
    try:
        return read_begun(seen.kafka, found.topology.prefix)
    except TransportError as error:
        raise TransportUnavailableError(f"nothing was changed: {error}") from error


def _refuse_moved_on(document: Document, found: TopologyInForce) -> None:
    base = document.value.get("base") if isinstance(document.value, Mapping) else None
    if base == {"version": found.number, "hash": found.hash}:
        return
    where = document.within("base").where()
    message = (
        f"the plan was made against another topology than {named(found)}, which is in force now: "
        "plan again"
    )
    raise wrong_input(where, message, code=MOVED_ON)


def _ask(*, yes: bool) -> bool:
    """Ask a person to agree; return whether there was one to ask."""
    if yes or not is_asked():
        return False
    if not typer.confirm("put this in force?", err=True):
        say("nothing was changed")
        raise typer.Exit(2)
    return True


def _delete(places: Sequence[Place], kafka: Mapping[str, KafkaCluster]) -> Sequence[Place]:
    """Delete topics; name those that could not be, and go on. Returns those that are gone."""
    gone: list[Place] = []
    for place in places:
        try:
            kafka[place.kafka].admin().delete([place.topic])
        except TransportError as error:
            say(f"warning: {error}")
        else:
            gone.append(place)
    return gone


def _as_mapping(outcome: Outcome) -> Mapping[str, object]:
    return {
        "version": outcome.number,
        "in_force": outcome.is_in_force,
        "ms": outcome.ms,
        "pauses_ms": dict(outcome.pauses),
    }


def _tell_nothing(found: TopologyInForce, made: Plan, proposed: str, output: Output) -> None:
    data = {"version": found.number, "in_force": True, "ms": 0, "pauses_ms": {}}
    data |= {"restart": [], "deleted": [], "left": []}
    render(data, lambda: shown(made, proposed), output)


def _tell(outcome: Outcome, made: Plan, deleted: Sequence[Place], output: Output) -> None:
    left = [one for one in (*made.topics.deleted, *made.topics.left) if one not in deleted]
    data = {
        **_as_mapping(outcome),
        "restart": list(made.to_restart),
        "deleted": [{"kafka": one.kafka, "topic": one.topic} for one in deleted],
        "left": [{"kafka": one.kafka, "topic": one.topic} for one in left],
    }
    lines = [f"version {outcome.number} is in force; it took {outcome.ms / 1000:.1f} s"]
    lines += [f"{node} paused for {ms / 1000:.1f} s" for node, ms in outcome.pauses.items()]
    if not outcome.pauses:
        lines.append("nobody paused")
    if made.to_restart:
        from mesh.cli.plan_tables import restart_hint

        lines.append(restart_hint(made))
    if deleted:
        lines.append(f"{len(deleted)} topics were deleted")
    if left:
        lines.append(f"{len(left)} topics that nobody needs any more were left where they are")
    render(data, lambda: "\n".join(lines), output)
