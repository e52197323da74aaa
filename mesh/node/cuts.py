"""From where on this node's messages reach whom: the cuts its lanes announce. Spec: K25, K28."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.core.interest import Members
from mesh.model.control import Version, is_address, node_address
from mesh.node.relinking import has_switched, is_switching, topology_cut


@dataclass(slots=True)
class Cuts:
    """Collects new cuts, and holds back those that are not certain yet.

    While nodes switch to another topology one after the other, some still pass on what they heard
    over links that are gone. So a node that becomes known meanwhile may be known over a walk that
    ends nowhere: no cut is announced for it before every node works by the new topology. One that
    was known before is known over a walk that stays, or this node's sources hold.

    Attributes:
        uuid: Of this node; its own subscriptions need no way.
        number: Of the topology that the next round goes by; 0 before the first change.
    """

    uuid: str
    number: int = 0
    _news: dict[str, int] = field(default_factory=dict)
    _late: dict[str, int] = field(default_factory=dict)
    _reached: Mapping[str, int] | None = None

    @property
    def has_news(self) -> bool:
        """Whether a round would announce a cut."""
        return bool(self._news)

    def read(self, uuid: str, offset: int) -> None:
        """Record how much of a node's `clients` is known here."""
        self._news[uuid] = offset

    def follow(self, version: Version, entries: Mapping[str, Members]) -> dict[str, int]:
        """Follow a stage of a change; return the cut that says which topology holds from here.

        Once every node works by the new topology everything still known is announced again: other
        rules may apply on the way, and by these the earlier announcements say nothing.

        Args:
            version: Of the change and its stage.
            entries: The interest in force until now.
        """
        self._news = self._late | self._news
        self._late = {}
        if has_switched(version):
            self._news = dict(_known(entries)) | self._news
        self._reached = dict(_known(entries)) if is_switching(version) else None
        return topology_cut(self.number)

    def take(self, entries: Mapping[str, Members]) -> dict[str, int]:
        """Return new cuts, once: of this node, and of others that are still known."""
        news, self._news = self._news, {}
        cuts: dict[str, int] = {}
        for uuid, offset in news.items():
            if uuid == self.uuid or node_address(uuid) in entries:
                (cuts if self._stands(uuid) else self._late)[uuid] = offset
        return cuts

    def all(self, entries: Mapping[str, Members]) -> Mapping[str, int]:
        """Return every node whose `clients` offset is known, for a lane that starts.

        Args:
            entries: The interest in force.
        """
        known = {uuid: offset for uuid, offset in _known(entries) if self._stands(uuid)}
        return topology_cut(self.number) | known

    def _stands(self, uuid: str) -> bool:
        return self._reached is None or uuid == self.uuid or uuid in self._reached


def _known(entries: Mapping[str, Members]) -> Iterator[tuple[str, int]]:
    for filter_, members in entries.items():
        if is_address(filter_):
            for _, interest in members:
                if interest.clients_offset is not None:
                    yield filter_.partition("/")[2], interest.clients_offset
