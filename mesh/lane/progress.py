"""How far a lane has got: all that it keeps of itself, folded from its facts. Spec: K12.

The same fold serves a lane that runs and one that is taken: there the facts come from `progress`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.core.holds import ChainKey, Holds
from mesh.lane.partly_taken_marks import PartlyTakenMarks
from mesh.model.control import Stop
from mesh.model.facts import (
    UNLINKED,
    Accepted,
    EpochRaised,
    EraBegan,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
    target_fact,
)
from mesh.model.frames import NONE_OFFSET, Era, SourcePartition
from mesh.model.interest_inputs import VersionByInput
from mesh.transport.port import TopicPartition


class LeftIn(NamedTuple):
    """The Kafka cluster in which an outbox was when its link was removed, as far as it is known."""

    kafka: str = ""
    cluster_id: str = ""
    """Names may mean others by now."""


@dataclass(slots=True)
class Progress:
    """What one lane has read, sent and accepted, and what it waits for: it outlives its owner.

    Attributes:
        epoch: The lane epoch of the last taking. Spec: K18.
        next: Next offset to read per source partition.
        reserved: Direct sources: below this offset copies may have been handed on without another
            commit. Spec: K18.
        unwritten: Of so many offsets before `next` direct copies may not have been written. K18.
        topic_ids: Topic id that a position belongs to: a recreated topic is another one.
        generations: Of the offsets of a source, where that is not 0. Spec: K9.
        leader_epochs: Of the record before a position, where that is known: a log that lost its
            end and has grown beyond the position again shows by it. Spec: R6.
        stopped: Sources that are read no further, and why. Spec: R6.
        sent: Position sent last, per outbox partition and source. Spec: K11.
        moved: Chains among these that are movers': they keep them themselves.
        accepted: Position accepted last, per outbox partition read and sender's source. Spec: K11.
        gaps: Chains that are broken: the position accepted last, and how often a repair was asked
            for before. Spec: K11.
        in_force: Versions of interest in force.
        holds: Targets that are left out for a while. Spec: K20.
        since: Position in a source from which on a link carries it; 0 if that is all. Repairs send
            nothing before it: that went other ways while there was no such link.
        links: Number of the link over which a chain was sent last. Spec: K12.
        unlinked: Outboxes whose links were removed, and where they were; what is there when they
            come back may be new.
        eras: By which topologies each source worked, ascending. Spec: K10.
        partly_taken: Frames that were not taken whole, by outbox partition. Spec: K20.
        truncations: Losses at the end of a source that were accepted.
    """

    epoch: int = 0
    next: dict[TopicPartition, int] = field(default_factory=dict)
    reserved: dict[TopicPartition, int] = field(default_factory=dict)
    unwritten: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, bytes] = field(default_factory=dict)
    generations: dict[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: dict[TopicPartition, Stop] = field(default_factory=dict)
    sent: dict[ChainKey, int] = field(default_factory=dict)
    moved: dict[ChainKey, None] = field(default_factory=dict)
    accepted: dict[ChainKey, int] = field(default_factory=dict)
    gaps: dict[ChainKey, tuple[int, int]] = field(default_factory=dict)
    in_force: VersionByInput = field(default_factory=dict)
    holds: Holds = field(default_factory=Holds)
    since: dict[ChainKey, int] = field(default_factory=dict)
    links: dict[ChainKey, int] = field(default_factory=dict)
    unlinked: dict[TopicPartition, LeftIn] = field(default_factory=dict)
    eras: dict[TopicPartition, Sequence[EraBegan]] = field(default_factory=dict)
    partly_taken: dict[TopicPartition, PartlyTakenMarks] = field(default_factory=dict)
    truncations: dict[TopicPartition, Truncations] = field(default_factory=dict)

    @property
    def sent_without_link(self) -> Sequence[Sent]:
        """What was sent to outboxes that have no link at present."""
        return [
            Sent(*key, self.sent[key], since, self.links[key])
            for key, since in self.since.items()
            if since == UNLINKED
        ]

    def of_target(self, sent: Mapping[ChainKey, int]) -> Progress:
        """Return what a catch-up knows: how far its target has got, and what was taken."""
        return Progress(self.epoch, sent=dict(sent), eras=self.eras, partly_taken=self.partly_taken)

    def sent_by_movers(self, sent: Mapping[ChainKey, int]) -> None:
        """Go on behind what movers have sent: they keep it themselves."""
        self.sent.update(sent)
        self.moved.update(dict.fromkeys(sent))

    def taken_after(self, at: TopicPartition, topic_id: bytes, offset: int) -> int | None:
        """Return after which origin offset a frame's messages were taken; None if all were."""
        frames = self.partly_taken.get(at)
        return None if frames is None else frames.after(topic_id, offset)

    @property
    def ids_read(self) -> Mapping[TopicPartition, bytes]:
        """Topic ids of all sources that were read, or stopped before anything of them was."""
        return {at: stop.topic_id for at, stop in self.stopped.items()} | self.topic_ids

    def era_of(self, at: TopicPartition, offset: int) -> Era | None:
        """Return by which topology what stands at an offset of a source was taken, if known."""
        for began in reversed(self.eras.get(at, ())):
            if began.first <= offset:
                return began.era
        return None

    def topology_of(self, places: Iterable[TopicPartition]) -> int:
        """Return the number of the newest topology by which sources are taken; 0 for a file."""
        newest = (eras[-1] for at in places if (eras := self.eras.get(at)))
        return max((one.era.number for one in newest), default=0)

    def apply(self, fact: Fact) -> None:
        """Apply one fact; later ones of the same key replace earlier ones."""
        at = fact.at
        match fact:
            case Sent():
                self.sent[at, fact.source] = fact.last
                self.since[at, fact.source] = fact.since
                self.links[at, fact.source] = fact.link
            case Accepted():
                self.accepted[at, fact.source] = fact.last
            case SourceAt():
                self.next[at] = fact.next
                self.reserved.pop(at, None)
                if fact.ahead:
                    self.reserved[at] = fact.next + fact.ahead
                self.unwritten.pop(at, None)
                if fact.behind:
                    self.unwritten[at] = fact.behind
                self.topic_ids[at] = fact.topic_id
                self.generations[at] = fact.generation
                self.leader_epochs.pop(at, None)
                if fact.leader_epoch >= 0:
                    self.leader_epochs[at] = fact.leader_epoch
                self.unlinked.pop(at, None)
                if fact.is_unlinked:
                    self.unlinked[at] = LeftIn(fact.kafka, fact.cluster_id)
            case EpochRaised():
                self.epoch = fact.epoch
            case PartlyTaken():
                self.partly_taken.setdefault(at, PartlyTakenMarks()).apply(fact)
            case ErasBegun():
                self.eras[at] = fact.eras
            case Truncations():
                self.truncations[at] = fact
            case InterestInForce():
                self.in_force = versions(fact)
            case Halted():
                self.stopped.pop(at, None)
                if not fact.is_over:
                    self.stopped[at] = fact.stop
            case Gap():
                self.gaps.pop((at, fact.source), None)
                if fact.is_open:
                    self.gaps[at, fact.source] = (fact.last, fact.attempts)
            case Held():
                self.holds.apply(fact)
                self._take_caught_up((at, fact.source))

    def apply_catch_up(self, fact: Fact) -> None:
        """Apply one fact that a catch-up of the lane has committed. Spec: K20."""
        match told := target_fact(fact):
            case Held():
                self.holds.apply_catch_up(told)
            case Sent():
                self.holds.sent_by_catch_ups[told.at, told.source] = told.last
            case None:
                return  # the lane's own
        self._take_caught_up((told.at, told.source))

    def _take_caught_up(self, key: ChainKey) -> None:
        if (last := self.holds.sent(key)) is not None:
            self.sent[key] = max(last, self.sent.get(key, NONE_OFFSET))

    def source_at(
        self, at: TopicPartition, reached: int, ahead: int = 0, behind: int = 0
    ) -> SourceAt:
        """Return the fact that a source is read so far, and what else is to be said of it.

        Args:
            at: The source: it was read before.
            reached: The next offset to read.
            ahead: So many offsets from there on may be handed on before another commit.
            behind: Of so many before direct copies may not have been written.
        """
        is_same = reached == self.next.get(at)
        left_in = self.unlinked.get(at, LeftIn())
        return SourceAt(
            at,
            self.topic_ids[at],
            reached,
            ahead,
            self.generations.get(at, 0),
            at in self.unlinked,
            left_in.kafka,
            self.leader_epochs.get(at, -1) if is_same else -1,
            behind,
            left_in.cluster_id,
        )

    def found(self, at: TopicPartition, topic_id: bytes) -> None:
        """Know what a source is from now on; what is read of it next keeps that."""
        self.unlinked.pop(at, None)
        self.topic_ids[at] = topic_id

    def reset(self, at: TopicPartition) -> None:
        """Know no position of a source any more: its topic is another one."""
        known = (self.next, self.reserved, self.unwritten, self.generations, self.leader_epochs)
        for kept in known:
            kept.pop(at, None)

    def forget_source(self, at: TopicPartition) -> Sequence[SourcePartition]:
        """Know nothing of a source any more; return whose chains came by it."""
        chains = [of for place, of in self.accepted if place == at]
        self.reset(at)
        known = (self.unlinked, self.topic_ids, self.eras, self.truncations, self.partly_taken)
        for kept in known:
            kept.pop(at, None)
        for of in chains:
            del self.accepted[at, of]
        return chains

    def forget(self, fact: Held | Sent) -> None:
        """Forget a target that is gone."""
        self.sent.pop((fact.at, fact.source), None)
        self.moved.pop((fact.at, fact.source), None)
        self.since.pop((fact.at, fact.source), None)
        self.links.pop((fact.at, fact.source), None)


def versions(fact: InterestInForce) -> VersionByInput:
    """Return the versions that are in force."""
    return {entry.scope: (entry.epoch, entry.number) for entry in fact.versions}
