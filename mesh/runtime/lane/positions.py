"""Where a lane stands: what it has read, sent and accepted. Recovered from its progress. K12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.chain import Chains
from mesh.model.control import Stop
from mesh.model.frames import NONE_OFFSET, Era, SourcePartition
from mesh.model.state import EraBegan, Progress, ProgressKind
from mesh.node.relinking import CHANGE, UNCHANGED
from mesh.runtime.lane.refused import RefusedFrames
from mesh.transport.port import TopicPartition

ENDED = -1
"""Offset that says that a target is held no longer."""

LEFT = "left"
"""Reason in the position of an outbox that is read no further, because its link was removed."""

HoldKey = tuple[TopicPartition, SourcePartition]
"""Partition of a held target, and one of the lane's sources."""


@dataclass(slots=True)
class Hold:
    """A target that a lane leaves out, because it cannot be written. Spec: K20.

    Attributes:
        number: Tells one hold from another, also of the same target in the same lane epoch.
        next: First source offset not written there, per target partition and source.
    """

    number: int
    next: dict[HoldKey, int] = field(default_factory=dict)


@dataclass(slots=True)
class Positions:
    """State of one lane that survives it.

    Attributes:
        epoch: The lane epoch of the last taking. Spec: K18.
        next: Next offset to read per source partition.
        ahead: Direct sources: this lane has reserved the offsets below this one, so their copies
            need not wait for a commit. Spec: K18.
        inherited: Direct sources: the former owner had reserved the offsets below this one.
        topic_ids: Topic id that a position belongs to: a topic made anew is another one.
        generations: Of the offsets of a source, where that is not 0. Spec: K9.
        stopped: Sources that are read no further, and why. Spec: R6.
        sent: Last source offset sent, per outbox partition and source. Spec: K11.
        chains: What has been accepted, per outbox partition read. Spec: K11.
        gaps: Chains that are broken: the last offset accepted, and how often a repair was asked
            for before. Spec: K11.
        in_force: Versions of interest in force at the last commit.
        followed: How far the former owner followed changes of the topology.
        holds: Targets that are left out for a while, by topic. Spec: K20.
        since: Offset of a source from which on a link carries it; 0 if that is all. Repairs send
            nothing before it: that went other ways while there was no such link.
        left: Outboxes whose links were removed; what is there when they come back may be new.
        eras: By which topologies each source worked, ascending. Spec: K10.
        refused: Frames that were not taken whole, by outbox partition. Spec: K20.
        ended: Holds that a catch-up ended before the lane could tell.
        holds_begun: How many began in this epoch.
    """

    epoch: int = 0
    next: dict[TopicPartition, int] = field(default_factory=dict)
    ahead: dict[TopicPartition, int] = field(default_factory=dict)
    inherited: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, bytes] = field(default_factory=dict)
    generations: dict[TopicPartition, int] = field(default_factory=dict)
    stopped: dict[TopicPartition, Stop] = field(default_factory=dict)
    sent: dict[tuple[TopicPartition, SourcePartition], int] = field(default_factory=dict)
    chains: dict[TopicPartition, Chains] = field(default_factory=dict)
    gaps: dict[tuple[TopicPartition, SourcePartition], tuple[int, int]] = field(
        default_factory=dict
    )
    in_force: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    followed: tuple[int, int] = UNCHANGED
    holds: dict[str, Hold] = field(default_factory=dict)
    ended: dict[HoldKey, int] = field(default_factory=dict)
    since: dict[HoldKey, int] = field(default_factory=dict)
    left: dict[TopicPartition, None] = field(default_factory=dict)
    eras: dict[TopicPartition, Sequence[EraBegan]] = field(default_factory=dict)
    refused: dict[TopicPartition, RefusedFrames] = field(default_factory=dict)
    holds_begun: int = 0
    _written_beside: dict[HoldKey, None] = field(default_factory=dict)

    def copy_of_target(self) -> Positions:
        """Return what is known for one target, apart from what becomes of it."""
        return Positions(self.epoch, sent=dict(self.sent), eras=self.eras, refused=self.refused)

    def left_out(self, at: TopicPartition, topic_id: bytes, offset: int) -> int | None:
        """Return after which origin offset a frame's messages were taken; None if all were."""
        frames = self.refused.get(at)
        return None if frames is None else frames.after(topic_id, offset)

    def era_of(self, at: TopicPartition, offset: int) -> Era | None:
        """Return by which topology what stands at an offset of a source was taken, if known."""
        for began in reversed(self.eras.get(at, ())):
            if began.first <= offset:
                return began.era
        return None

    def recover(self, progress: Progress) -> None:
        """Apply one progress record; later ones of the same key replace earlier ones."""
        about = TopicPartition(progress.topic, progress.partition)
        source = SourcePartition(progress.topic_id or b"", progress.source_partition)
        match progress.kind:
            case ProgressKind.EPOCH:
                self.epoch = progress.offset
            case ProgressKind.SOURCE:
                self.next[about] = progress.offset
                self.inherited.pop(about, None)
                if progress.ahead:
                    self.inherited[about] = progress.offset + progress.ahead
                self.topic_ids[about] = progress.topic_id or b""
                self.generations[about] = progress.generation
                self.left.pop(about, None)
                if progress.reason == LEFT:
                    self.left[about] = None
            case ProgressKind.SENT:
                self.sent[about, source] = progress.offset
                self.since[about, source] = progress.ahead
            case ProgressKind.ACCEPTED:
                self.chains.setdefault(about, Chains()).last[source] = progress.offset
            case ProgressKind.REFUSED:
                self.refused.setdefault(about, RefusedFrames()).recover(progress)
            case ProgressKind.ERA:
                self.eras[about] = progress.eras
            case ProgressKind.INTEREST:
                self.in_force = versions(progress)
                self.followed = self.in_force.get(CHANGE, UNCHANGED)
            case ProgressKind.STOPPED:
                self.stopped.pop(about, None)
                if (stop := stop_of(progress)) is not None:
                    self.stopped[about] = stop
            case ProgressKind.GAP:
                self.gaps.pop((about, source), None)
                self.chains.setdefault(about, Chains()).broken.discard(source)
                if progress.reason:
                    self.gaps[about, source] = (progress.offset, progress.ahead)
                    self.chains[about].broken.add(source)
            case ProgressKind.HELD if progress.offset == ENDED:
                if (hold := self.holds.get(about.topic)) is not None:
                    hold.next.pop((about, source), None)
                    if not hold.next:
                        del self.holds[about.topic]
            case ProgressKind.HELD:
                hold = self.holds.get(about.topic)
                if hold is None or hold.number != progress.ahead:
                    hold = self.holds[about.topic] = Hold(progress.ahead)
                hold.next[about, source] = progress.offset

    def recover_caught_up(self, progress: Progress) -> None:
        """Apply one record of the lane's catch-ups, after all that the lane itself wrote. K20."""
        about = TopicPartition(progress.topic, progress.partition)
        source = SourcePartition(progress.topic_id or b"", progress.source_partition)
        hold = self.holds.get(about.topic)
        if progress.kind is ProgressKind.SENT and (about, source) in self._written_beside:
            self.sent[about, source] = max(progress.offset, self.sent.get((about, source), -1))
        if progress.kind is not ProgressKind.HELD:
            return
        self._written_beside.pop((about, source), None)
        if hold is None or hold.number != progress.ahead:
            return  # of a time before: what was sent then may have been lost and accepted since
        self._written_beside[about, source] = None
        if progress.offset != ENDED:
            hold.next[about, source] = progress.offset
            return
        hold.next.pop((about, source), None)
        self.ended[about, source] = hold.number
        if not hold.next:
            del self.holds[about.topic]


def versions(progress: Progress) -> Mapping[str, tuple[int, int]]:
    """Return the versions in force that an `interest` record tells."""
    return {entry.scope: (entry.epoch, entry.number) for entry in progress.in_force}


def stop_of(progress: Progress) -> Stop | None:
    """Return the stop that a `stopped` record tells, or None if it was lifted."""
    if not progress.reason:
        return None
    lost = progress.ahead
    return Stop(
        progress.topic,
        progress.partition,
        progress.topic_id or b"",
        progress.reason,
        progress.offset,
        progress.offset + lost if lost >= 0 else NONE_OFFSET,
        progress.generation,
    )
