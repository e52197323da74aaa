"""Subjects kept off a link, and what nodes themselves want, by the topology alone.

A subject crosses a link unless one of its two ends keeps it local. Both ends know the controls of
both, so the sender refuses what the receiver would not have, and no other node needs to know.

Spec: EMS-11, UM-1, DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mesh.core.matcher import Shape
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.subject import matches
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Locals:
    """Filters of subjects that do not cross a link, as one of its ends sees them.

    Attributes:
        here: Local at this end, so on every link of it.
        there: Local at the other end.
    """

    here: tuple[str, ...] = ()
    there: tuple[str, ...] = ()

    def bars(self, subject: str) -> bool:
        """Return whether a subject does not cross the link, in either direction. Spec: EMS-11."""
        return any(matches(filter_, subject) for filter_ in (*self.here, *self.there))

    def hides(self, filter_: str) -> bool:
        """Return whether this end offers nothing of a filter: all that it selects is local here.

        What is local at the other end alone is offered, because a scope may have several readers.
        """
        return any(covers(wide, filter_) for wide in self.here)


NO_LOCALS = Locals()


def filters_at(topology: Topology, node: str, kind: ControlKind) -> tuple[str, ...]:
    """Return the filters of one kind of control at a node, sorted."""
    return tuple(
        control.filter
        for control in topology.interest
        if control.node == node and control.kind is kind
    )


def locals_on(topology: Topology, node: str, neighbour: str) -> Locals:
    """Return what does not cross the link of two nodes, as the first of them sees it."""
    if not topology.interest:
        return NO_LOCALS
    return Locals(
        filters_at(topology, node, ControlKind.LOCAL),
        filters_at(topology, neighbour, ControlKind.LOCAL),
    )


def controls_barring(
    topology: Topology, nodes: Sequence[str], subject: str
) -> Iterator[InterestControl]:
    """Yield the controls that keep a subject off every link of these nodes, in their order."""
    for node in nodes:
        for control in topology.interest:
            is_local = control.node == node and control.kind is ControlKind.LOCAL
            if is_local and matches(control.filter, subject):
                yield control


def covers(wide: str, narrow: str) -> bool:
    """Return whether a filter selects every subject that another one selects. Spec: K26."""
    shape = Shape.of(wide)
    if shape.starts_wild and narrow.startswith("$"):
        return False
    return shape.covers(narrow.split("/")) == wide
