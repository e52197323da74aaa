"""What a queue's consumer remembers of one partition: what is done, and what was handed out.

All of it fits beside the group's offset, so the next consumer of the partition continues with it.
An offset counts as handed out before anybody sees its message: a consumer that dies over a message
leaves the count behind, and a message that kills every consumer ends as a dead letter.
Spec: DESIGN 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW = 256
"""How far beyond the oldest open offset messages are handed out: the remark has no more room."""

TIMES_MAX = 1 << 31
"""Highest delivery count that a remark may contain."""

_VERSION = "1"


@dataclass(slots=True)
class Share:
    """One partition of a queue, while one consumer has it.

    Attributes:
        base: Lowest offset that is not done.
        begun: First offset that was never handed out.
        leader_epoch: The highest of the records that were read; None if unknown.
    """

    base: int
    begun: int
    leader_epoch: int | None = None
    _done: set[int] = field(default_factory=set)
    _often: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, offset: int, remark: str, leader_epoch: int | None = None) -> Share:
        """Return what a group has committed; a foreign remark counts as none.

        Any member of the group may write one, so numbers that no window has are not ours: a range
        up to a billion would use up the memory of every reader.
        """
        share = cls(offset, offset, leader_epoch)
        try:
            version, begun, done, often = remark.split(";")
            if version != _VERSION:
                return share
            found = cls(offset, offset + _number(begun), leader_epoch)
            for text in filter(None, done.split(",")):
                first, _, last = text.partition("-")
                found._done.update(
                    range(offset + _number(first), offset + _number(last or first) + 1)
                )
            for text in filter(None, often.split(",")):
                at, _, times = text.partition(":")
                found._often[offset + _number(at)] = _number(times, TIMES_MAX)
        except ValueError:
            return share
        return found

    @property
    def remark(self) -> str:
        """The metadata that is committed with `base`."""
        done = ",".join(
            str(first - self.base) if first == last else f"{first - self.base}-{last - self.base}"
            for first, last in _ranges(sorted(self._done))
        )
        often = ",".join(f"{at - self.base}:{n}" for at, n in sorted(self._often.items()))
        return f"{_VERSION};{max(0, self.begun - self.base)};{done};{often}"

    def times(self, offset: int) -> int:
        """Return how often the message at an offset was handed out so far."""
        return self._often.get(offset, 1 if offset < self.begun else 0)

    def is_done(self, offset: int) -> bool:
        """Return whether nobody should see the message at an offset again."""
        return offset < self.base or offset in self._done

    def done_from(self, offset: int) -> int:
        """Return how many messages after an open one, from an offset on, are done."""
        return sum(one >= offset for one in self._done)

    def has_room(self, offset: int) -> bool:
        """Return whether a message so far ahead of the oldest open one may be handed out."""
        return offset < self.base + WINDOW

    def hand_out(self, offset: int) -> int:
        """Count one more delivery; return how many there are, including this one."""
        times = self.times(offset) + 1
        self.begun = max(self.begun, offset + 1)
        if times > 1:
            self._often[offset] = times
        else:
            self._often.pop(offset, None)
        return times

    def take_back(self, offset: int) -> None:
        """Count one delivery less: nobody has seen the message, and nobody was told about it."""
        self._often[offset] = self.times(offset) - 1

    def finish(self, offset: int, left: Iterable[int], end: int) -> None:
        """Note that nobody should see the message at an offset again.

        Nothing beyond the window is noted: it was never handed out, so it is no message, and the
        next consumer skips it as well. A remark that named it would count as none.

        Args:
            offset: Its own.
            left: Offsets read so far that are not done.
            end: First offset that was not read yet.
        """
        if self.has_room(offset):
            self._done.add(offset)
        self._often.pop(offset, None)
        self.skip(left, end)

    def skip(self, left: Iterable[int], end: int) -> None:
        """Skip what holds no message: markers, aborted records, and what a broker has deleted.

        Otherwise nothing after a hole as wide as the window would ever be handed out.

        Args:
            left: Offsets read so far that are not done.
            end: First offset that was not read yet.
        """
        self.base = max(self.base, min(left, default=end))
        self._done = {one for one in self._done if one >= self.base}
        self._often = {at: times for at, times in self._often.items() if at >= self.base}
        self.begun = max(self.begun, self.base)

    def meet(self, offset: int, leader_epoch: int | None) -> bool:
        """Forget what a record has replaced; return whether there may be anything.

        A later leader writes where an earlier one's records are only if a log has lost them: from
        the first record of a later leader on, nothing is as remembered. Spec: R6.

        Args:
            offset: Its own.
            leader_epoch: Of the leader that wrote it; None if that is not known.
        """
        known = self.leader_epoch
        if leader_epoch is None or (known is not None and leader_epoch <= known):
            return False
        self.leader_epoch = leader_epoch
        if known is None:
            return False
        self.base, self.begun = min(self.base, offset), min(self.begun, offset)
        self._done = {one for one in self._done if one < offset}
        self._often = {at: times for at, times in self._often.items() if at < offset}
        return True


def _number(text: str, most: int = WINDOW) -> int:
    """Return a number of a remark.

    Raises:
        ValueError: It is not one, or larger than the mesh ever writes.
    """
    if not (text.isascii() and text.isdecimal()) or (number := int(text[:20])) > most:
        raise ValueError(text[:20])
    return number


def _ranges(offsets: list[int]) -> Iterable[tuple[int, int]]:
    """Yield (first, last) of each run of consecutive offsets."""
    begin = 0
    for index, offset in enumerate(offsets):
        if index + 1 == len(offsets) or offsets[index + 1] != offset + 1:
            yield offsets[begin], offset
            begin = index + 1
