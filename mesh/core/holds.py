"""The targets that a lane leaves out, folded from what it and its catch-ups have recorded.

Both record holds in partitions of their own, and there is no order between partitions. So each hold
has a number, a catch-up's record counts only for the hold of its number, and everything that
follows from both is derived again from all of them. A catch-up records how far it has written and
nothing else: only the lane knows how far it has read since, so only the lane ends a hold. Spec:
K12, K20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.facts import Held
from mesh.model.frames import SourcePartition, TopicPartition

ChainKey = tuple[TopicPartition, SourcePartition]
"""Partition of an outbox or target, and a source there."""


@dataclass(slots=True)
class Holds:
    """The holds of one lane; iterates over the targets.

    Attributes:
        sent_by_catch_ups: Last source offset that catch-ups have sent, in any hold.
    """

    sent_by_catch_ups: dict[ChainKey, int] = field(default_factory=dict)
    _own: dict[str, dict[ChainKey, Held]] = field(default_factory=dict)
    _caught_up: dict[ChainKey, Held] = field(default_factory=dict)
    _next: dict[str, dict[ChainKey, int]] = field(default_factory=dict)

    def apply(self, fact: Held) -> None:
        """Apply the lane's own record about one source at a target."""
        target, key = fact.at.topic, (fact.at, fact.source)
        own = self._own.setdefault(target, {})
        own.pop(key, None)
        if not fact.is_over:
            own[key] = fact
        if not own:
            del self._own[target]
        self._meet(target)

    def apply_catch_up(self, fact: Held) -> None:
        """Apply a record of a catch-up."""
        self._caught_up[fact.at, fact.source] = fact
        self._meet(fact.at.topic)

    def __contains__(self, target: object) -> bool:
        """Return whether something of a target is left out."""
        return target in self._next

    def __iter__(self) -> Iterator[str]:
        """Yield the targets."""
        return iter(self._next)

    def __bool__(self) -> bool:
        """Return whether any target is left out."""
        return bool(self._next)

    def number(self, target: str) -> int:
        """Return the number of a target's present hold; 0 if there is none."""
        return max((own.number for own in self.kept(target)), default=0)

    def next(self, target: str) -> Mapping[ChainKey, int]:
        """Return the first offset of each source that is not written at a target."""
        return self._next.get(target, {})

    def sent(self, key: ChainKey) -> int | None:
        """Return how far catch-ups have sent a held source; None if they have not.

        What was sent in an earlier hold may have been lost since, and the loss accepted.
        """
        own = self._own.get(key[0].topic, {}).get(key)
        return None if own is None or self._of(own) is None else self.sent_by_catch_ups.get(key)

    @property
    def held(self) -> Sequence[Held]:
        """The lane's records of each source that is not written at a target."""
        return [
            own
            for target, following in self._next.items()
            for own in self.kept(target)
            if (own.at, own.source) in following
        ]

    def kept(self, target: str) -> Sequence[Held]:
        """Return the lane's records about a target."""
        return list(self._own.get(target, {}).values())

    def _of(self, own: Held) -> Held | None:
        """Return what a catch-up recorded about the same source in the same hold."""
        word = self._caught_up.get((own.at, own.source))
        return word if word is not None and word.number == own.number else None

    def _meet(self, target: str) -> None:
        """Determine how far a target is written."""
        number = self.number(target)
        found = {
            (own.at, own.source): max(own.next, (self._of(own) or own).next)
            for own in self.kept(target)
            if own.number == number
        }
        self._next.pop(target, None)
        if found:
            self._next[target] = found
