"""Interest that was read, and waits for the next round to put it in force. K16, K25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.interest import Member, Members
from mesh.model.control import Interest, Scope
from mesh.node.cuts import Cuts
from mesh.node.versions import InputVersions


@dataclass(slots=True)
class PendingInterest:
    """Changes of interest since the last round began, and how far all was read.

    Attributes:
        cuts: The positions from which messages reach other nodes.
        versions: How far each input is read, and routed by.
        changes: What each member now wants of a filter; None: nothing.
        new_filters: New filters per neighbour's scope, to be stored before it is acknowledged.
    """

    cuts: Cuts
    versions: InputVersions = field(default_factory=InputVersions)
    changes: dict[tuple[str, Member], Interest | None] = field(default_factory=dict)
    new_filters: dict[tuple[str, Scope], dict[str, None]] = field(default_factory=dict)

    @property
    def has_news(self) -> bool:
        """Whether a round would change anything, even if only a version has to be acknowledged."""
        return bool(self.changes) or self.cuts.has_news or self.versions.has_news

    def put(self, filter_: str, member: Member, interest: Interest | None) -> None:
        """Set what a member wants of a filter from the next round on."""
        self.changes[filter_, member] = interest

    def forget(self, gone: Sequence[str], entries: Mapping[str, Members]) -> None:
        """Remove neighbours' interest from the next round on, and their inputs.

        Args:
            gone: The neighbours.
            entries: The interest in force.
        """
        for filter_, member in list(self.changes):
            if member.zone and member.name in gone:
                del self.changes[filter_, member]
        for filter_, members in entries.items():
            for member, _ in members:
                if member.zone and member.name in gone:
                    self.put(filter_, member, None)
        self.versions.forget(gone)
