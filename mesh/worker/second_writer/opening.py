"""What a catch-up needs, opened in the one order that is safe. Spec: R3, K16, K20.

The second writer comes first: after that, progress is final about earlier attempts. Then the lane
proves that it is still owned: a former owner that does not know of its successor would go by its
own position, which the successor has passed. Only then is it known from where to read the sources,
and their readers are opened. All of it happens beside the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.model.facts import Fact
from mesh.transport.port import KafkaCluster, TopicPartition, Writer
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.second_writer import open_second_writer_of, second_progress
from mesh.worker.process.errands import Errand, Steps
from mesh.worker.process.recall import Recall, read_progress
from mesh.worker.second_writer.catching_up import CatchUpStart


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that nobody had taken a lane before a moment. Spec: K16.

    Only its owner can commit: once what it decides from that moment on is committed, whoever
    takes it later fences what was opened before.

    Attributes:
        lane: The lane.
        batch: What it decides from then on.
    """

    lane: Lane
    batch: Batch

    @staticmethod
    def begin(lane: Lane, now_ms: int) -> Proof:
        """Make the lane commit soon."""
        return Proof(lane, lane.open(now_ms, is_awaited=True))

    @property
    def is_given(self) -> bool:
        """Whether a lane that is still owned has committed it."""
        closing = self.lane.closing
        return self.lane.batch is not self.batch and (
            closing is None or closing.batch is not self.batch
        )


@dataclass(slots=True)
class _Second:
    """The second writer of a lane, and what it and its predecessors have recorded before."""

    writer: Writer
    told: Sequence[Fact] = ()

    def close(self) -> None:
        self.writer.close()


D = TypeVar("D", bound="DueCatchUp")


class DueCatchUp(Protocol):
    """A target to catch up, and how to find out what it lacks."""

    @property
    def lane(self) -> Lane:
        """Whose sources are to be read again."""

    def begin(self, told: Sequence[Fact]) -> Steps[CatchUpStart] | None:
        """Return what opens the readers; None if there is nothing to read, or not now.

        Args:
            told: What earlier catch-ups of the lane recorded; it does not change any more.
        """


@dataclass(slots=True)
class OpenedCatchUp:
    """The writer of a catch-up, and what it begins to read with."""

    writer: Writer
    begins: CatchUpStart


@dataclass(slots=True)
class Opening(Generic[D]):
    """Opens what catching up needs.

    Attributes:
        kafka: The node's own Kafka cluster.
        lanes: All lanes of the worker.
        due: What to open it for.
        is_vain: Whether it turned out that nothing is to be written, or nothing can be now.
    """

    kafka: KafkaCluster
    lanes: Lanes
    due: D
    is_vain: bool = False
    _writer: Errand[_Second] = field(init=False)
    _second: _Second | None = None
    _proof: Proof | None = None
    _begins: Errand[CatchUpStart] | None = None

    def __post_init__(self) -> None:
        """Open the writer first."""
        lanes, lane = self.lanes, self.due.lane
        steps = _opening_second(self.kafka, lanes.recall, lane, second_progress(lane))
        self._writer = lanes.errands.begin(steps)

    def close(self) -> None:
        """Release what was opened, and later what is still being opened."""
        self._writer.call_off()
        if self._begins is not None:
            self._begins.call_off()

    def step(self, now_ms: int) -> OpenedCatchUp | None:
        """Go on; return the resources once all are open, or None; see `is_vain`.

        Raises:
            TransportError: It cannot be opened now.
        """
        lane = self.due.lane
        if self._second is None and self._writer.has_ended():
            self._second = self._writer.result()
            self._proof = Proof.begin(lane, now_ms)
        if not self.lanes.owns(lane):
            self.is_vain = True
            return None
        if self._second is None:
            return None
        if self._proof is not None and self._proof.is_given:
            self._proof = None
            steps = self.due.begin(self._second.told)
            self.is_vain = steps is None
            self._begins = None if steps is None else self.lanes.errands.begin(steps)
        if self._begins is None or not self._begins.has_ended():
            return None
        return OpenedCatchUp(self._second.writer, self._begins.result())


def _opening_second(
    kafka: KafkaCluster, recall: Recall, lane: Lane, place: TopicPartition
) -> Steps[_Second]:
    yield
    writer = open_second_writer_of(lane, kafka)
    try:
        yield
        return _Second(writer, list(read_progress(recall.records(place)).facts.values()))
    except BaseException:
        writer.close()
        raise
