"""What the node has acknowledged is known to whoever takes a lane, also if its neighbours are not.

A worker may take a lane while it has heard less of a neighbour than the lane's former owner, who
has acknowledged it: it lags, or its own way to that Kafka cluster is cut. What was acknowledged
stands in `learned`, in the node's own Kafka cluster. The lane reads nothing before the worker goes
by that; no time passes for an answer. What the former owner routed by and had not acknowledged yet,
because a mate did not know it, may lack there: then the lane waits until this worker hears it.
Spec: K16, K21, K25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.model.inputs import NeighbourAwaited, NeighbourLags
from mesh.model.topics import TopicNames
from mesh.node.learner import Learner
from mesh.node.rounds import CLIENTS, input_name, neighbour_of
from mesh.transport.port import TopicPartition
from mesh.worker.control.listening import Listener
from mesh.worker.control.unreachable_neighbours import Kept, kept_of
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.takeover_waits import LANE_HEARS_FIRST_MS
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall

NEVER = (-1, -1)
"""Older than every version."""

log = structlog.get_logger()


@dataclass(slots=True)
class AcknowledgedInterest:
    """Reads `learned` for lanes whose former owner knew more than this worker.

    Attributes:
        node: Whose lanes.
        recall: Reads the node's own topics.
        questions: Asks beside the loop.
        listener: Reads what neighbours write.
    """

    node: str
    recall: Recall
    questions: Questions
    listener: Listener
    _tried_ms: int = -LANE_HEARS_FIRST_MS
    _awaited: dict[str, None] = field(default_factory=dict)

    def step(self, lanes: Lanes, now_ms: int) -> Iterator[NeighbourLags | NeighbourAwaited]:
        """Yield what the node has acknowledged of neighbours of whom this worker knows less."""
        learner = lanes.machine.learner
        awaited = [
            lane.awaited
            for lane in lanes.owned.values()
            if now_ms - lane.taken_ms >= LANE_HEARS_FIRST_MS and learner.is_behind(lane.awaited)
        ]
        is_asked = self.questions.is_open("learned") or self.questions.is_open("clients")
        if not awaited:
            yield from self._heard(self._awaited)
            if is_asked:  # a lane that waits later must not go by this answer
                self.questions.forget("learned")
                self.questions.forget("clients")
            return
        if not is_asked and now_ms - self._tried_ms < LANE_HEARS_FIRST_MS:
            return
        self._tried_ms = now_ms
        self._heed_clients(lanes, awaited)
        versions: dict[str, tuple[int, int]] = {}
        for known in awaited:
            for source, version in known.items():
                versions[source] = max(version, versions.get(source, version))
        place = TopicPartition(TopicNames(lanes.topology.prefix).learned(self.node), 0)
        late = learner.lagging(versions)
        yield from self._heard(one for one in self._awaited if one not in late)
        try:
            kept = self.questions.answer(("learned",), partial(_kept, self.recall, place, late))
        except TransportError as error:
            log.warning("learned.not_read", fault=str(error))
            return
        if kept is None:
            return
        for name in late:
            learned, proven = kept.get(name, ({}, {}))
            told = {input_name(name, scope): version for scope, version in proven.items()}
            sure = {source: v for source, v in versions.items() if v <= told.get(source, NEVER)}
            if learner.can_recall(name, sure):
                log.warning("neighbour.recalled", neighbour=name)
                yield NeighbourLags(name, learned, sure)
            elif learner.neighbours[name].frozen:
                # Nobody knows when it can be reached, and the node starts without it: by what it
                # has acknowledged, which is all that it owes.
                self._void(learner, name, versions)
            elif self.listener.has_read_all(name):
                # Its control topic has lost its end, or is another one, and nobody was there then.
                log.warning("neighbour.shorter", neighbour=name)
                self._void(learner, name, versions)
            elif name not in self._awaited:
                self._awaited[name] = None
                log.warning("neighbour.awaited", neighbour=name, text="lanes read nothing before")
                yield NeighbourAwaited(name, is_awaited=True)

    @staticmethod
    def _void(learner: Learner, name: str, versions: Mapping[str, tuple[int, int]]) -> None:
        """Wait for nothing more of what somebody has routed by."""
        for source in versions:
            if neighbour_of(source) == name:
                learner.versions.void(source, versions[source])

    def _heard(self, names: Iterable[str]) -> Iterator[NeighbourAwaited]:
        """Stop waiting for neighbours."""
        for name in list(names):
            del self._awaited[name]
            yield NeighbourAwaited(name, is_awaited=False)

    def _heed_clients(self, lanes: Lanes, awaited: Sequence[Mapping[str, tuple[int, int]]]) -> None:
        """Wait for no subscription that `clients` does not hold any more.

        It has lost its end, or was recreated while nobody was there to notice.
        """
        learner = lanes.machine.learner
        late = [known[CLIENTS] for known in awaited if learner.lacks_clients(known)]
        if not late and not self.questions.is_open("clients"):
            return
        place = TopicPartition(TopicNames(lanes.topology.prefix).clients(self.node), 0)
        try:
            ends = self.questions.answer(("clients",), partial(lanes.home.admin().ends, [place]))
        except TransportError as error:
            log.warning("clients.not_looked_at", fault=str(error))
            return
        for version in late:
            if ends is not None and ends.get(place, 0) <= version[1]:
                log.warning("clients.shorter", known=version[1], end=ends.get(place, 0))
                learner.versions.void(CLIENTS, version)


def _kept(recall: Recall, place: TopicPartition, neighbours: Sequence[str]) -> Mapping[str, Kept]:
    """Return what the node has kept of neighbours."""
    records = recall.records(place)
    return {name: kept_of(records, name) for name in neighbours}
