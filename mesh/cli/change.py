"""A topology is put in force on the running mesh: shown, asked for, carried out and reported.

`mesh apply` does so with a file, `mesh zone` with what it has edited. Spec: DESIGN 3, K27, K28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli import clock
from mesh.cli.plan import against_mesh, shown
from mesh.cli.render import Output, render
from mesh.cli.session import Session, named
from mesh.cli.target import is_asked, say
from mesh.errors import TransportError, TransportUnavailableError, wrong_input

if TYPE_CHECKING:
    from mesh.config.located import Locate
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
    """Show what a topology would change, ask, put it in force and report how that went.

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
        with change_context(seen, after, reports) as context:
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
def change_context(
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


def outcome_document(outcome: Outcome) -> Mapping[str, object]:
    """Return what scripts get about the end of a change."""
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
        **outcome_document(outcome),
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
