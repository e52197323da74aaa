"""Targets that lanes leave out, by their own word: what is for these comes later. Spec: K20."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.model.facts import Held
from streaming.audits.chains import ChainKey
from streaming.audits.tickets import EVERYONE
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import ENDPOINT, OUTBOX, place_of


@dataclass(slots=True)
class OpenHolds:
    """All targets that are held, be they endpoints or outboxes.

    Attributes:
        prefix: Start of every topic name.
        open: Each target, with the source of which it is left out.
    """

    prefix: str
    open: dict[ChainKey, None] = field(default_factory=dict)

    def take(self, target: ChainKey, *, is_over: bool) -> None:
        """Begin or end a hold as a lane reports; catch-ups do neither."""
        self.open.pop(target, None)
        if not is_over:
            self.open[target] = None

    def forget(self, node: str, key: str) -> None:
        """Take that a node keeps nothing any more under a key: a hold of a target that is gone."""
        for target in self.open:
            is_own = place_of(self.prefix, target.outbox.topic).node == node
            if is_own and key == " ".join(map(str, (Held.word, *target.outbox, *target.source))):
                del self.open[target]
                return

    def endpoints(self, node: str) -> Mapping[str, None]:
        """Return the casefolded names of the endpoints that a node holds, or all nodes do."""
        places = (place_of(self.prefix, target.outbox.topic) for target in self.open)
        return {
            place.other.casefold(): None
            for place in places
            if place.kind == ENDPOINT and node in (place.node, EVERYONE)
        }

    def before(self, node: str, endpoint: str) -> TopicPartition | None:
        """Return a target that a node cannot write just now, and that may be what is waited for.

        Args:
            node: The node.
            endpoint: Casefolded name of the one endpoint there that is waited for; empty if it is
                none: an outbox may lead to whatever is.
        """
        for target in (one.outbox for one in self.open):
            place = place_of(self.prefix, target.topic)
            is_meant = place.kind == ENDPOINT and place.other.casefold() == endpoint
            if place.node == node and (is_meant or place.kind == OUTBOX):
                return target
        return None
