"""Puts a topology in force on a running mesh: planned, agreed to and carried out.

`mesh apply` and `mesh zone` do so for people, `ZoneManager` for programs. Spec: DESIGN 3, K27, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mesh.config.legal import legal_topology_from
from mesh.config.published import published_text
from mesh.config.zone_edits import Spec, place_in_spec
from mesh.core.legality import Locate
from mesh.errors import ConfigError, TransportError, wrong_input
from mesh.model.topology import Topology
from mesh.operate.changes.begin import PendingChange, begin_change, begun_last
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import ChangeOutcome, MeshToChange
from mesh.operate.changes.founding import publish
from mesh.operate.changes.in_force import TopologyInForce, read_in_force
from mesh.operate.changes.plan import Place, Plan, refuse_loss
from mesh.operate.changes.proposal import plan_on_mesh
from mesh.operate.status import observe
from mesh.view import connection

WAIT_S = 60.0
"""How long a change may take by default."""

MOVED_ON = "MOVED_ON"
"""Code of the problem that the topology in force is not the one that the plan was made against."""

Edit = Callable[[Topology], Spec]
"""The topology in force -> the spec that is wanted instead."""


def _refuse_overtaken(mesh: MeshToChange) -> None:
    """Refuse a plan against another topology than the one now in force.

    Raises:
        ConfigError: Another one is in force.
    """
    found = mesh.in_force
    now, _ = read_in_force(mesh.kafka, mesh.topology.prefix)
    if now is not None and (now.number, now.hash) != (found.number, found.hash):
        message = (
            f"somebody has put {now.label} in force, and this was planned against "
            f"{found.label}; nothing was changed: give the command again"
        )
        raise wrong_input("mesh.config", message, code=MOVED_ON)


@contextmanager
def _with_added_kafka(mesh: MeshToChange, after: Topology) -> Iterator[MeshToChange]:
    """Open the Kafka clusters that a change adds, too."""
    fresh = [name for name in after.kafka if name not in mesh.kafka]
    more = connection.open_kafka(after, fresh, client_prefix="mesh-change") if fresh else {}
    try:
        yield replace(mesh, kafka={**mesh.kafka, **{name: more[name] for name in fresh}})
    finally:
        for name in fresh:
            more[name].close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The outcome of putting a topology in force.

    Attributes:
        plan: What it changed.
        number: Number of the topology in force.
        outcome: How the change went; None if there was nothing to change.
        deleted: Topics that were deleted.
    """

    plan: Plan
    number: int
    outcome: ChangeOutcome | None = None
    deleted: Sequence[Place] = ()


def _is_outdated(found: TopologyInForce, reports: FollowedLaneReports) -> bool:
    """Return whether lanes have worked by a later topology than is recorded: it is of a backup.

    Their workers wait for that one once they start again, or do so already: heartbeats tell it only
    of the worker that leads. A change without differences then says that this one is in force, by a
    number that they follow.
    """
    reports.read()
    return 0 < found.number < reports.worked_by


def wanted_topology(found: TopologyInForce, begun: PendingChange | None, edit: Edit) -> Topology:
    """Return the legal topology that an edit of the one in force leads to.

    If a change was left after some Kafka clusters already had it in force, the same edit continues
    it, although what the edit asks for is there by now.

    Raises:
        ConfigError: The edit is impossible, or does not lead to a legal topology.
    """
    before = found.topology
    try:
        return legal_topology_from(edit(before), place_in_spec, name=before.name, since=before)
    except ConfigError:
        if begun is None or not begun.is_open or begun.change.topology != published_text(before):
            raise
        return before


def put_in_force(
    mesh: MeshToChange,
    after: Topology,
    begun: PendingChange | None,
    locate: Locate,
    *,
    agree: Callable[[Plan], bool] = lambda _: False,
    allow_delete: bool = False,
    limit_s: float = WAIT_S,
    patience_s: float = 0.0,
) -> Done:
    """Put a topology in force, or continue the change that was begun to that end.

    Args:
        mesh: The mesh.
        after: A legal topology.
        begun: The change that was begun last.
        locate: Gives the place of a path below its spec.
        agree: Shown the plan before anything is changed; raises if that is not wanted, and
            returns whether somebody took time to think about it.
        allow_delete: Whether topics that are no longer needed are deleted, including what is
            unread in them.
        limit_s: How long the change may take.
        patience_s: How long to wait for nodes that must take part and are down.

    Raises:
        ConfigError: A running mesh cannot follow it, messages would be lost, another change is
            under way, or another topology came into force meanwhile; nothing was changed.
        NotBegunError: Nodes that must take part do not; nothing was changed.
        NotInTimeError: The change was begun and is not done.
        TransportError: A Kafka cluster does not answer.
    """
    found = mesh.in_force
    with FollowedLaneReports.begun(found.topology, mesh.kafka, mesh.time.now_ms) as reports:
        plan = plan_on_mesh(mesh, found, after, locate)
        goes_on = begun is not None and begun.is_open
        if plan.is_empty and not goes_on and not _is_outdated(found, reports):
            # Without a record of what is in force nodes go by their files until then.
            return Done(plan=plan, number=found.number or publish(after, mesh.kafka))
        if not (allow_delete or goes_on):
            refuse_loss(plan.unread, locate)
        if agree(plan):
            mesh.view.refresh()
            # Other nodes may be up by now.
            mesh = replace(mesh, beats=observe(mesh.view, mesh.time))
        newest = begun_last(mesh)
        _refuse_overtaken(mesh)  # last: a change that ends meanwhile is in force by then
        down = [node for node in found.topology.nodes if not mesh.beats[node]]
        given_up = [node for node in down if node not in after.nodes] if allow_delete else []
        with _with_added_kafka(mesh, after) as reaching:
            change = begin_change(reaching, reports, after, newest, given_up=given_up)
            outcome = change.run(limit_s, patience_s)
        deleted = _delete(plan.topics.deleted, mesh) if allow_delete else ()
        return Done(plan=plan, number=outcome.number, outcome=outcome, deleted=deleted)


def _delete(places: Sequence[Place], mesh: MeshToChange) -> Sequence[Place]:
    """Delete topics; report those that could not be, and go on. Return those that are gone."""
    gone: list[Place] = []
    for place in places:
        try:
            mesh.kafka[place.kafka].admin().delete([place.topic])
        except TransportError as error:
            mesh.tell(f"warning: {error}")
        else:
            gone.append(place)
    return gone
