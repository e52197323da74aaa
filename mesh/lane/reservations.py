"""How far direct copies go before positions beyond them are committed. Spec: K18, DESIGN 5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lane.batch import RESERVED_MS, Batch, DirectRows
from mesh.transport.port import Row, TopicPartition


@dataclass(slots=True)
class Unwritten:
    """The first offset of each source of which a copy may not be in Kafka yet.

    Attributes:
        ready: Of copies that may be written.
        sent: Of copies that were handed to the client library since all before were acknowledged.
    """

    ready: dict[TopicPartition, int] = field(default_factory=dict)
    sent: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, firsts: Mapping[TopicPartition, int]) -> None:
        """Record that copies may be written from now on."""
        _keep_lowest(self.ready, firsts)

    def hand_over(self) -> None:
        """Record that all copies that might be written were handed to the client library."""
        _keep_lowest(self.sent, self.ready)
        self.ready.clear()

    def count_as_lost(
        self, position: Callable[[TopicPartition], int]
    ) -> Mapping[TopicPartition, int]:
        """Return how many offsets of each source copies that were handed over may lack; once.

        Those that are still under way are among them: nobody counts them again.

        Args:
            position: Returns how far a source is read.
        """
        lost = {
            at: (offsets, reached)
            for at, first in self.sent.items()
            if (offsets := (reached := position(at)) - first) > 0
        }
        for at, (_, reached) in lost.items():
            self.sent[at] = reached
            if at in self.ready:
                self.ready[at] = reached
        return {at: offsets for at, (offsets, _) in lost.items()}

    def below(
        self, at: TopicPartition, position: int, waiting: Mapping[TopicPartition, int]
    ) -> int:
        """Return of how many offsets before a position copies may not be in Kafka.

        Args:
            at: The source.
            position: How far it is read.
            waiting: First offsets of copies that wait for a commit.
        """
        firsts = [kept[at] for kept in (waiting, self.ready, self.sent) if at in kept]
        return max(0, position - min(firsts, default=position))


@dataclass(slots=True)
class Reservations:
    """What a lane may hand on of direct sources, and what it has.

    Attributes:
        inherited: The former owner had reserved the offsets below this one.
        doubtful: Of so many offsets, also of guaranteed sources, copies may be lost that the former
            owner had not written.
        ready: Copies that may be written.
        handed_on: Next offset after the last whose copies became `ready`.
        ahead: The lane has reserved the offsets below this one, so copies need not wait for a
            commit.
        committed_ms: When the last successful commit was begun.
        unwritten: From where on copies may not be in Kafka yet.
    """

    inherited: dict[TopicPartition, int]
    doubtful: dict[TopicPartition, int]
    ready: list[DirectRows] = field(default_factory=list)
    handed_on: dict[TopicPartition, int] = field(default_factory=dict)
    ahead: dict[TopicPartition, int] = field(default_factory=dict)
    committed_ms: int = 0
    unwritten: Unwritten = field(default_factory=Unwritten)
    _epochs: dict[TopicPartition, int] = field(default_factory=dict)

    def about_to_read(self, batch: Batch, at: TopicPartition, last: int) -> None:
        """Decide whether copies of records up to offset `last` may go before the next commit."""
        if last >= self.ahead.get(at, 0):
            batch.wait_for_commit(at)
        else:
            self.handed_on[at] = last + 1

    def hand_over(
        self, batch: Batch, at: TopicPartition, topic: str, partition: int, rows: Sequence[Row]
    ) -> None:
        """Take copies of a direct source: they may go if a committed position is beyond them."""
        if at in batch.waiting:
            batch.have_wait(at, topic, partition, rows)
        else:
            self.ready.append((topic, partition, rows))
            batch.note_unwritten(at, self.unwritten.ready)

    def committed(
        self,
        batch: Batch,
        began_ms: int,
        reserved: Mapping[TopicPartition, int],
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Record a commit: what waited for it may go, and what it has reserved.

        Args:
            batch: What is committed.
            began_ms: When that was begun.
            reserved: By source, below which offset.
            positions: Up to where each source is read.
        """
        for at in batch.readings:
            if (offset := reserved.get(at)) is not None:
                self.ahead[at], self.handed_on[at] = offset, positions[at]
        self.committed_ms = began_ms
        self.ready += batch.direct
        self.unwritten.add(batch.unwritten)

    def expire(self, now_ms: int) -> None:
        """Have copies wait for the next commit if the last one is long ago.

        It tells whether the lane is still owned: a successor may serve it already.
        """
        if now_ms - self.committed_ms > RESERVED_MS:
            self.ahead = dict.fromkeys(self.ahead, 0)

    def go_on_behind(self, at: TopicPartition, position: int, committed: int) -> None:
        """Record that copies of a source went so far, beyond what was committed or not."""
        self.doubtful[at] = max(0, committed - position)
        self.inherited.pop(at, None)
        self.handed_on[at] = max(position, committed)

    def forget(self, at: TopicPartition) -> None:
        """Know nothing of what was reserved of a source, nor by whom: its topic is another one."""
        self.ahead.pop(at, None)
        self.inherited.pop(at, None)
        self._epochs.pop(at, None)  # those of another life of a node begin anew

    def passed_inherited(self, at: TopicPartition) -> None:
        """Record that a source is read on behind all that the former owner had reserved."""
        self.inherited.pop(at, None)

    def take_doubtful(self) -> Mapping[TopicPartition, int]:
        """Return what may be lost of each source, to be counted once."""
        doubtful, self.doubtful = self.doubtful, {}
        return doubtful

    def ready_sent(self) -> None:
        """Record that all that was ready was handed to the client library."""
        self.ready.clear()
        self.unwritten.hand_over()

    def all_written(self) -> None:
        """Record that all that was handed to the client library is in Kafka."""
        self.unwritten.sent.clear()

    def take_back(self, ready: int, handed_on: Mapping[TopicPartition, int]) -> None:
        """Forget copies that became ready since: what failed comes again."""
        del self.ready[ready:]
        self.handed_on.update(handed_on)

    def epoch(self, at: TopicPartition, epoch: int) -> int:
        """Return the highest lane epoch seen on a direct outbox partition, this one included."""
        highest = max(epoch, self._epochs.get(at, epoch))
        self._epochs[at] = highest
        return highest

    def sources(self) -> Iterable[TopicPartition]:
        """Return the sources of which something was reserved."""
        return list(self.ahead)


def _keep_lowest(kept: dict[TopicPartition, int], firsts: Mapping[TopicPartition, int]) -> None:
    """Add first offsets to those that are known."""
    for at, first in firsts.items():
        kept[at] = min(first, kept.get(at, first))
