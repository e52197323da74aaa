"""What catching up a held target needs, opened in the one order that is safe. Spec: R3, K16, K20.

The second writer comes first: after that, what progress says of former tries is final. Then the
lane proves that it is still owned: a former owner who has not heard of it would end holds by its
own position, which the present one has passed. Only then is it known from where on the sources
are to be read, and their readers are opened. All of it beside the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.lane.batch import Batch
from mesh.lane.held import hold_key, sources_of, tell_ended
from mesh.lane.kept import kept_in
from mesh.lane.lane import Lane
from mesh.model.facts import Fact
from mesh.runtime.background.catching_up import Begins, CatchUp
from mesh.runtime.lanes.owned import Lanes
from mesh.runtime.lanes.second_writer import open_second_writer_of, second_progress
from mesh.runtime.process.errands import Errand, Steps
from mesh.runtime.process.recall import Recall
from mesh.transport.port import KafkaCluster, TopicPartition, Writer

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Proof:
    """That nobody had taken a lane before a moment. Spec: K16.

    None but its owner can commit: once what it decides from that moment on is committed, whoever
    takes it later fences what was opened before.

    Attributes:
        lane: The lane.
        batch: What it decides then.
    """

    lane: Lane
    batch: Batch

    @staticmethod
    def begin(lane: Lane, now_ms: int) -> Proof:
        """Have the lane commit soon."""
        batch = lane.open(now_ms)
        batch.is_awaited = True
        return Proof(lane, batch)

    @property
    def is_given(self) -> bool:
        """Whether a lane that is owned still has committed it."""
        closing = self.lane.closing
        return self.lane.batch is not self.batch and (
            closing is None or closing.batch is not self.batch
        )


@dataclass(slots=True)
class _Second:
    """The second writer of a lane, and what it and its predecessors have told before."""

    writer: Writer
    told: Sequence[Fact] = ()

    def close(self) -> None:
        self.writer.close()


@dataclass(slots=True)
class Opened:
    """What a catch-up needs.

    Attributes:
        lane, target: What for.
        hold: Number of the hold.
        writer: The lane's second writer.
        again: Is to read the sources.
        begins: With this.
    """

    lane: Lane
    target: str
    hold: int
    writer: Writer
    again: CatchUp
    begins: Begins


@dataclass(slots=True)
class Opening:
    """Opens what catching up one target of a lane needs.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: All lanes of the worker.
        lane, target: What for.
        is_vain: Whether it has shown that nothing is to be written, or cannot be now.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    lane: Lane
    target: str
    is_vain: bool = False
    _writer: Errand[_Second] = field(init=False)
    _second: _Second | None = None
    _proof: Proof | None = None
    _hold: int = 0
    _again: CatchUp | None = None
    _begins: Errand[Begins] | None = None

    def __post_init__(self) -> None:
        """Begin with the writer."""
        lanes, place = self.lanes, second_progress(self.lane)
        steps = _opening_second(self.kafka[self.home], lanes.recall, self.lane, place)
        self._writer = lanes.errands.begin(steps)

    @property
    def key(self) -> tuple[int, str]:
        """Number of the lane, and the target."""
        return self.lane.number, self.target

    def close(self) -> None:
        """Release what was opened, and what is being opened once it is."""
        self._writer.call_off()
        if self._begins is not None:
            self._begins.call_off()

    def step(self, now_ms: int) -> Opened | None:
        """Go on; return what was opened once all is, or see `is_vain`.

        Raises:
            TransportError: It cannot be opened now.
        """
        if self._second is None and self._writer.has_ended():
            self._second = self._writer.result()
            self._proof = Proof.begin(self.lane, now_ms)
        if not self.lanes.owns(self.lane):
            self.is_vain = True
            return None
        if self._proof is not None and self._proof.is_given and self._second is not None:
            self._proof = None
            self._begin_to_read(self._second, now_ms)
        if self._second is None or self._again is None or self._begins is None:
            return None
        if not self._begins.has_ended():
            return None
        begins, hold = self._begins.result(), self.lane.positions.holds.number(self.target)
        self.is_vain = hold != self._hold
        return Opened(self.lane, self.target, hold, self._second.writer, self._again, begins)

    def _begin_to_read(self, second: _Second, now_ms: int) -> None:
        """Learn how far the target is written; open readers unless nothing more is to be."""
        lane, target = self.lane, self.target
        for fact in second.told:
            lane.positions.apply_catch_up(fact)
        tell_ended(lane, now_ms)
        self.is_vain = not lane.leaves_out(target)
        if self.is_vain:
            return
        self._hold = lane.positions.holds.number(target)
        sources = sources_of(lane, target)
        if sources is None:
            log.info("target.waits", target=target, lane=lane.number)
            self.is_vain = True  # a source cannot be read now: its Kafka cluster does not answer
            return
        self._again = CatchUp(self.lanes, lane, sources)
        written = lane.positions.holds.next(target)
        begins = {one.at: written.get(hold_key(lane, target, one), 0) for one in sources}
        steps = self._again.opening(self.kafka, begins, "held")
        self._begins = self.lanes.errands.begin(steps)


def _opening_second(
    kafka: KafkaCluster, recall: Recall, lane: Lane, place: TopicPartition
) -> Steps[_Second]:
    yield
    writer = open_second_writer_of(lane, kafka)
    try:
        yield
        return _Second(writer, list(kept_in(recall.records(place)).facts.values()))
    except BaseException:
        writer.close()
        raise
