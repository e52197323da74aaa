"""What lanes tell of subscriptions: from where on each source knows them, and where they ended.

That is what cuts in ledgers say (K25), and what outboxes hold below them. Of clients only versions
are known here, which are offsets of `clients` topics: what they ask for is
`streaming.audits.interest`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from mesh.model.state import Cut
from streaming.audits.cuts import (
    CutKey,
    KnownCut,
    answering,
    cut_that_knows,
    followed_by,
    joined,
    told_until,
)
from streaming.audits.eras import OF_THE_FILE
from streaming.tables.rows import SourceKey, TopicPartition

ErasOf = Callable[[TopicPartition], Sequence[int]]
"""Source partition -> numbers of the topologies that it was routed by."""

UNTOLD = -1
"""Stands for a time before all: what a source had told of subscriptions counts no more."""


class EndKey(NamedTuple):
    """The frames of an outbox partition below an offset, where an unsubscribe took effect."""

    outbox: TopicPartition
    position: int


@dataclass(slots=True)
class LaneKnowledge:
    """What all lanes have told.

    Attributes:
        cuts: Per source partition and uuid, in the order of the ledger.
        ends: For unsubscribes: last origin offset per source in the frames below a position.
        renamed: Uuid that a node had -> the one that it has: what was told of the former counts, as
            long as its `clients` topic is the same, whose offsets versions are.
        unread_cuts: Node -> how often records of its ledgers were gone before they were read: who
            knows what its lanes had told there of subscriptions.
        told_since: Of these times, those before the newest cut of a source.
        changes: How often any of that has changed.
    """

    cuts: dict[CutKey, list[KnownCut]] = field(default_factory=dict)
    ends: dict[EndKey, dict[SourceKey, int]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    unread_cuts: dict[str, int] = field(default_factory=dict)
    told_since: dict[CutKey, int] = field(default_factory=dict)
    changes: int = 0

    def lose_cuts(self, node: str) -> None:
        """Take that records of a node's ledgers were gone before they were read."""
        self.unread_cuts[node] = self.unread_cuts.get(node, 0) + 1
        self.changes += 1

    def cut(
        self, cut: Cut, era: int = OF_THE_FILE, *, node: str = "", is_again: bool = False
    ) -> None:
        """Take a cut; one that tells no newer `clients` offset than an earlier one is no news.

        Args:
            cut: The cut.
            era: Number of the topology that its source is routed by: what was told by a former
                one may have been forgotten.
            node: In whose ledger it stands.
            is_again: Whether offsets of its source have come again: then a lane may go back, and
                what it knew further on it knows of those that come since. Spec: K9.
        """
        uuid = self.renamed.get(cut.uuid, cut.uuid)
        key = CutKey(TopicPartition(cut.topic, cut.partition), uuid)
        is_late = self._is_untold(key, node)
        if is_late:
            self.told_since[key] = self.unread_cuts.get(node, 0)
        told = KnownCut(cut.position, cut.clients_offset, era, cut.topic_id.hex(), is_late)
        before = self.cuts.get(key, [])
        self.cuts[key] = followed_by(told, before, is_again=is_again)
        if is_late or self.cuts[key] != before:
            self.changes += 1

    def _is_untold(self, key: CutKey, node: str) -> bool:
        """Return whether a source has no cut since ledger records of its node were lost."""
        return self.told_since.get(key, 0) < self.unread_cuts.get(node, 0)

    def forget_era(self, place: TopicPartition, last: int) -> None:
        """Lower the topology numbers of a source's cuts to this one."""
        for key, cuts in self.cuts.items():
            if key.place == place:
                self.cuts[key] = told_until(last, cuts)
        self.changes += 1

    def rename(self, former: str, uuid: str) -> None:
        """Take that a node calls itself otherwise: what lanes know of it they know still."""
        self.renamed = {one: uuid for one, now in self.renamed.items() if now == former} | {
            one: now for one, now in self.renamed.items() if now != former
        }
        self.renamed.pop(uuid, None)
        self.renamed[former] = uuid
        for key in [key for key in self.cuts if key.uuid == former]:
            before, now = self.cuts.pop(key), key._replace(uuid=uuid)
            self.cuts[now] = joined(before, self.cuts.get(now, ()))
            self.told_since[now] = max(self.told_since.pop(key, 0), self.told_since.get(now, 0))
        self.changes += 1

    def forget_versions(self, uuid: str) -> None:
        """Forget what was told of a node whose `clients` topic was recreated: versions begin again.

        Args:
            uuid: Of the node; empty if it has told none.
        """
        self.renamed = {one: now for one, now in self.renamed.items() if now != uuid}
        for key in [key for key in self.cuts if key.uuid == uuid]:
            del self.cuts[key]
            self.told_since[key] = UNTOLD
        self.changes += 1

    def told_of(self, uuid: str | None) -> Mapping[TopicPartition, Sequence[KnownCut]]:
        """Return, by source partition, the cuts for a node's subscriptions."""
        return {key.place: cuts for key, cuts in self.cuts.items() if key.uuid == uuid}

    def position(
        self, place: TopicPartition, uuid: str, version: int, era: int = OF_THE_FILE
    ) -> int | None:
        """Return where routing at a source partition began to know a version, if it does.

        Args:
            place: The partition.
            uuid: Whose version.
            version: What must be known.
            era: What the ledger told by a former topology does not count.
        """
        found = cut_that_knows(self.cuts.get(CutKey(place, uuid), ()), version, era)
        return None if found is None else found.position

    def unknown_below(self, key: CutKey, node: str, version: int, era: int = OF_THE_FILE) -> float:
        """Return below which offset nobody can tell whether a source knew a version.

        That is where records of its ledger were gone before they were read, up to the first cut
        that is there: a lane tells of all subscriptions once a day, and each of them once besides.

        Args:
            key: The source, and whose version.
            node: Which reads the source.
            version: What must be known.
            era: What the ledger told by a former topology does not count.
        """
        if not (self.unread_cuts or self.told_since):
            return 0
        found = cut_that_knows(self.cuts.get(key, ()), version, era)
        if found is not None:
            return found.position if found.is_late else 0
        return inf if self._is_untold(key, node) else 0

    def unknown_ends(
        self,
        ended: Mapping[str, Iterable[int]],
        uuids: Mapping[str, str],
        reader_of: Callable[[str], str],
    ) -> Sequence[EndKey]:
        """Return what must be read of outboxes to know where subscriptions ended.

        Answers that no subscription asks for any more are forgotten.

        Args:
            ended: Node -> versions with which its subscriptions have ended.
            uuids: Node -> uuid.
            reader_of: Topic -> the node that reads it as an outbox; empty for other topics.
        """
        found: dict[EndKey, None] = {}
        for node, versions in ended.items():
            uuid = uuids.get(node)
            ways = [
                key.place
                for key in self.cuts
                if key.uuid == uuid and reader_of(key.place.topic) == node
            ]
            for way in ways:
                for version in versions:
                    position = self.position(way, uuid or "", version)
                    if position is not None:
                        found[EndKey(way, position)] = None
        self.ends = {key: last for key, last in self.ends.items() if key in found}
        return sorted(key for key in found if key not in self.ends)

    def forget_recreated(self, outbox: TopicPartition) -> None:
        """Forget what an outbox held that was recreated."""
        self.ends = {key: last for key, last in self.ends.items() if key.outbox != outbox}

    def ended(self, key: EndKey, last: dict[SourceKey, int]) -> None:
        """Take what was read of an outbox: last origin offset per source below the position."""
        self.ends[key] = last
        self.changes += 1

    def keep(
        self,
        versions: Mapping[str, Iterable[int]],
        eras_of: ErasOf,
        read_of: Callable[[str], float],
    ) -> None:
        """Keep the cuts that answer for these versions, and the newest.

        Args:
            versions: Uuid -> versions that may be asked for.
            eras_of: By which topologies each source partition was routed.
            read_of: Uuid -> offset up to which the `clients` topic of its node has been read.
        """
        for key, cuts in self.cuts.items():
            asked = versions.get(key.uuid, ())
            self.cuts[key] = answering(cuts, asked, eras_of(key.place), read_of(key.uuid))
            if any(one.is_late for one in self.cuts[key]):
                self.told_since.setdefault(key, 0)
