"""What a lane remembers of broken chains; a successor would find it out again. Spec: K11, K20."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.holds import ChainKey
from mesh.model.patience import Patience
from mesh.transport.port import TopicPartition

AGAIN_MS = 15_000
"""How long a repair may take to come before it is asked for again, and how long one that has come
several times for nothing is not asked for."""

REPAIR_MS = Patience(AGAIN_MS, 480_000)
"""How long is waited without a later frame of the chain: its source may not be read at all just
now, and each repair sends all that is missing."""


@dataclass(slots=True)
class BrokenChains:
    """When repairs were asked for, what in them nobody can read, and which holes are expected.

    A hole is expected where an operator accepted a frame of the outbox that cannot be read: whose
    it was is unknown, so the next hole there, of whatever source, is asked for by nobody.
    """

    _asked_ms: dict[ChainKey, int] = field(default_factory=dict)
    _ask_again_ms: dict[ChainKey, int] = field(default_factory=dict)
    _accepted_at: set[TopicPartition] = field(default_factory=set)
    _unreadable: dict[TopicPartition, None] = field(default_factory=dict)

    def leave(self, outboxes: Collection[str]) -> None:
        """Forget what was of outboxes that are read no further.

        One that comes back is another: what is missing there has nothing to do with it.
        """
        self._asked_ms = _of_others(self._asked_ms, outboxes)
        self._ask_again_ms = _of_others(self._ask_again_ms, outboxes)
        self._accepted_at = {at for at in self._accepted_at if at.topic not in outboxes}
        for at in [one for one in self._unreadable if one.topic in outboxes]:
            del self._unreadable[at]

    # -- repairs --------------------------------------------------------------------------

    def repair_asked(self, key: ChainKey, attempts: int, now_ms: int) -> None:
        """Record that a repair was asked for, and how often that had been before."""
        self.repair_comes(key, attempts, now_ms)
        self._unreadable.pop(key[0], None)

    def repair_comes(self, key: ChainKey, attempts: int, now_ms: int) -> None:
        """Record that a repair is under way: wait for the rest as long once more. Spec: K11."""
        self._asked_ms[key] = now_ms
        self._ask_again_ms[key] = now_ms + REPAIR_MS.nth(attempts)

    def is_late(self, key: ChainKey, now_ms: int) -> bool:
        """Return whether a repair has not come for so long that it may have been lost."""
        return now_ms - self._asked_ms.setdefault(key, now_ms) >= AGAIN_MS

    def rest(self, keys: Iterable[ChainKey], now_ms: int) -> None:
        """Have repairs be asked for after a while."""
        self._ask_again_ms.update(dict.fromkeys(keys, now_ms + AGAIN_MS))

    def due(self, now_ms: int) -> Sequence[ChainKey]:
        """Return the chains for which a repair is to be asked for again."""
        return [key for key, due_ms in self._ask_again_ms.items() if due_ms <= now_ms]

    @property
    def due_ms(self) -> Iterable[int]:
        """When repairs are to be asked for again."""
        return self._ask_again_ms.values()

    def mended(self, key: ChainKey) -> None:
        """Record that a repair came: nobody asks for it again."""
        self._ask_again_ms.pop(key, None)

    # -- holes that are expected ----------------------------------------------------------

    def expect_hole(self, at: TopicPartition) -> None:
        """Have the next hole in an outbox be passed: an operator accepted the frame there."""
        self._accepted_at.add(at)

    def expects_hole(self, at: TopicPartition) -> bool:
        """Return whether the next hole in an outbox is asked for by nobody."""
        return at in self._accepted_at

    def hole_passed(self, at: TopicPartition) -> None:
        """Record that this hole was found."""
        self._accepted_at.discard(at)

    # -- frames that nobody can read ------------------------------------------------------

    def note_unreadable(self, at: TopicPartition) -> None:
        """Record that a frame of an outbox could not be read: a repair may bring it again."""
        self._unreadable[at] = None

    def has_unreadable(self, at: TopicPartition) -> bool:
        """Return whether a frame there could not be read since a repair was asked for."""
        return at in self._unreadable

    def unreadable_passed(self, at: TopicPartition) -> None:
        """Record that the hole in which it stood is announced: it explains no other one."""
        self._unreadable.pop(at, None)


def _of_others(kept: Mapping[ChainKey, int], outboxes: Collection[str]) -> dict[ChainKey, int]:
    """Return what is kept of chains that come by none of some outboxes."""
    return {key: ms for key, ms in kept.items() if key[0].topic not in outboxes}
