"""Do the nodes serve, and if not, what do they wait for? Spec: K23, K28, K32."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.control import Change, Stage
from mesh.model.words import LinkWord
from mesh.node.unproven_neighbours import START_PATIENCE_MS
from mesh.operate.doctor.checks import SEE_KAFKA, Category, Check, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.operate.interest.propagation import unapplied
from mesh.operate.status import link_state

CHANGE_STILL_S = 60.0
"""A change that stays at one stage for this long is stuck."""


def check_nodes(at: Examination) -> Iterator[Check]:
    """Yield one check per node, and one of the newest change of the topology.

    Another one per node whose lanes have worked by a topology that was put in force.
    """
    for node in at.topology.nodes:
        seen = at.view.nodes[node]
        error = hint = ""
        if at.view.is_unreachable(node):
            error, hint = "its Kafka cluster does not answer", SEE_KAFKA
        elif seen.identity is None:
            error, hint = "never ran", f"start it: mesh node run {node}"
        elif not at.beats[node]:
            error, hint = (
                "sends no heartbeats",
                f"start it, or look at its log: mesh node run {node}",
            )
        elif seen.heartbeat is not None and (lost := seen.heartbeat.lost_topology):
            error = f"its lanes read nothing: mesh.config has lost version {lost} of the topology"
            hint = f"`mesh apply` the file that says what was in force: {node} goes on by that"
        elif not seen.is_ready:
            waits = first_of(_waits_for(at, node))
            error = "sends heartbeats but does not serve yet" + (f": {waits}" if waits else "")
            hint = (
                f"a start waits up to {START_PATIENCE_MS // 1000} s for a neighbour's proof, then "
                "goes by what it wanted before; if it lasts, look at links and the worker's log"
            )
        yield judged(Category.NODES, f"node {node} serves", error, hint)
        yield from _check_in_force(at, node)
    yield from _check_change(at)


def _check_in_force(at: Examination, node: str) -> Iterator[Check]:
    """Yield whether `mesh.config` holds the topology that a node's lanes have worked by.

    Its heartbeats speak of the worker that leads it alone: another one may wait for that topology,
    and its lanes with it.
    """
    beat, worked_by = at.view.nodes[node].heartbeat, at.reports().of(node).worked_by
    number = at.view.number_in_force(at.topology.nodes[node].kafka)
    if not worked_by or not number or (beat is not None and beat.lost_topology):
        return
    lacks = f"it has version {number}, and lanes of {node} have worked by version {worked_by}"
    yield judged(
        Category.NODES,
        f"mesh.config has the topology of {node}",
        f"{lacks}: a worker that has started since reads nothing" if number < worked_by else "",
        f"`mesh apply` the file that says what was in force: {node} goes on by that",
    )


def _waits_for(at: Examination, node: str) -> Iterator[str]:
    """Yield what a node that does not serve has not proven yet, neighbour by neighbour."""
    for link in at.topology.links_of(node):
        other = link.other(node)
        if at.view.is_unreachable(other):
            yield f"the Kafka cluster of {other} does not answer"
        elif link_state(at.view.nodes[node], other) not in (LinkWord.UP, LinkWord.DISABLED):
            scopes = ", ".join(map(str, unapplied(at.view, link, writer=other)))
            yield f"what {other} offers is not proven" + (f" (scopes {scopes})" if scopes else "")


def _check_change(at: Examination) -> Iterator[Check]:
    """Yield one check, if a change was ever begun."""
    change = at.view.change
    if change is None:
        return
    description = f"the change to version {change.number} goes on"
    since_s = 0.0 if at.wall_ms is None else (at.wall_ms() - at.view.change_ms) / 1000
    behind = first_of(_behind(at, change))
    if since_s < CHANGE_STILL_S or not (change.stage.holds_sources or behind):
        yield judged(Category.NODES, description, "", "")
        return
    error = f"it has been at stage {change.stage} for {since_s:.0f} s"
    hint = "go on with it by the command that began it (`mesh apply` of the same file)"
    if change.stage is Stage.HOLD:
        error += f", and {len(change.holding)} nodes take nothing from their clients"
        hint += ", or go back by `mesh apply --abort`"
    elif change.stage is Stage.ABORT:
        hint = "end it by `mesh apply --abort`"
    yield judged(Category.NODES, description, error + (f": {behind}" if behind else ""), hint)


def _behind(at: Examination, change: Change) -> Iterator[str]:
    """Yield nodes that beat and have not done what the stage requires."""
    for node, seen in at.view.nodes.items():
        reported = seen.heartbeat.change if seen.heartbeat is not None else None
        if not at.beats.get(node) or reported is None:
            continue
        if reported.version < change.version:
            yield f"{node} has not read it"
        elif not reported.is_done:
            yield f"{node} has not done it"
