"""Links as one of their ends sees them: what they are, and which messages they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.core.conditions import Condition, condition, selects_subject
from mesh.core.interest_controls import NO_LOCALS, Locals, locals_on
from mesh.core.joins import rows_back
from mesh.model.frames import MessageClass
from mesh.model.joins import Join, JoinRow
from mesh.model.reasons import FilterCause
from mesh.model.subject import matches
from mesh.model.topology import Topology, ZoneKind

Causes = tuple[FilterCause | None, FilterCause | None]
"""What bars a subject from a link whoever wants it, and what does not select it to leave."""


@dataclass(frozen=True, slots=True, order=True)
class LocalLink:
    """A link as one of its ends sees it.

    Attributes:
        neighbour, zone, kind: What it is.
        out, into: Joins by which messages leave on it and come by it; None if it is another link.
        back: Rows by which addresses go back over the join that leads here.
        locals: What does not cross it, because an end of it keeps it local.
        direct_only: Whether guaranteed messages do not cross it. Spec: DMR-11.
        when: Conditions that messages must meet to leave on it. Spec: EMS-14.
    """

    neighbour: str
    zone: str
    kind: ZoneKind
    out: Join | None = field(default=None, compare=False)
    into: Join | None = field(default=None, compare=False)
    back: tuple[JoinRow, ...] = field(default=(), compare=False)
    locals: Locals = field(default=NO_LOCALS, compare=False)
    direct_only: bool = field(default=False, compare=False)
    when: tuple[Condition, ...] = field(default=(), compare=False)

    @property
    def sends(self) -> bool:
        """Whether messages of this end leave on it."""
        return self.kind is not ZoneKind.JOIN or self.out is not None

    @property
    def takes(self) -> bool:
        """Whether messages of the other end come by it."""
        return self.kind is not ZoneKind.JOIN or self.into is not None

    def carries(self, message_class: MessageClass) -> bool:
        """Return whether messages of a class cross it at all, in either direction. Spec: DMR-11."""
        return not self.direct_only or message_class is MessageClass.DIRECT

    def cause_against(self, subject: str, message_class: MessageClass) -> FilterCause | None:
        """Return what keeps a message off the link wherever it arrived from, or None."""
        if self.locals.bars(subject):
            return FilterCause.LOCAL
        return None if self.carries(message_class) else FilterCause.DIRECT_ONLY

    def cause_unselected(self, subject: str) -> FilterCause | None:
        """Return what does not select a subject to leave on the link, headers apart, or None."""
        if self.out is not None and not matches(self.out.filter, subject):
            return FilterCause.JOIN_FILTER
        return None if selects_subject(self.when, subject) else FilterCause.SELECTOR

    @property
    def is_choosy(self) -> bool:
        """Whether the link itself distinguishes subjects."""
        return self.out is not None or self.locals != NO_LOCALS or bool(self.when)

    def causes(self, subject: str, message_class: MessageClass) -> Causes:
        """Return all reasons of the link itself against a subject."""
        against = self.cause_against(subject, message_class)
        return against, None if against is not None else self.cause_unselected(subject)

    @property
    def zone_out(self) -> str:
        """Zone that messages of this end are in once they have crossed it."""
        return self.zone if self.out is None else self.out.zone


def local_links(topology: Topology, node: str) -> Sequence[LocalLink]:
    """Return the links of a node, sorted by neighbour."""
    found = []
    for link in topology.links_of(node):
        other = link.other(node)
        into = topology.joins.get((other, node))
        found.append(
            LocalLink(
                neighbour=other,
                zone=link.zone,
                kind=topology.kind_of(link),
                out=topology.joins.get((node, other)),
                into=into,
                back=() if into is None else tuple(rows_back(topology.joins, into)),
                locals=locals_on(topology, node, other),
                direct_only=topology.zones[link.zone].direct_only,
                when=tuple(map(condition, topology.conditions.get((node, other), ()))),
            )
        )
    return sorted(found)
