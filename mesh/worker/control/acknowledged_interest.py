"""The worker that takes a lane learns what the node has acknowledged, even without the neighbours.

A worker may take a lane while it has heard less from a neighbour than the lane's former owner,
which has acknowledged what it heard: the new owner lags, or cannot reach that Kafka cluster itself.
What was acknowledged is stored in `learned`, in the node's own Kafka cluster, and the lane reads
nothing until the worker has applied it; a timeout is no answer. What the former owner routed by but
had not acknowledged yet, because another worker did not know it, may be missing there: then the
lane waits until this worker hears it. Spec: K16, K21, K25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.lane import Lane
from mesh.model.control import NEVER, Version, change_version
from mesh.model.inputs import (
    Input,
    NeighbourAwaited,
    NeighbourLags,
    RoundRequested,
    TopologyLost,
    VersionsVoided,
)
from mesh.model.interest_inputs import CLIENTS, VersionByInput, input_name, neighbour_of
from mesh.model.topics import TopicNames
from mesh.node.machine import NodeMachine
from mesh.transport.port import TopicPartition
from mesh.worker.control.frozen_neighbours import LastProven, last_proven
from mesh.worker.control.listener import Listener
from mesh.worker.control.orders import NodeOrders
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.takeover_waits import LANE_HEARS_FIRST_MS
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall

LOOK_MS = 500
"""How often to check whether lanes wait for a change of the topology: a busy worker should not pay
for that in every turn."""

TOPOLOGY_GONE = (
    "mesh.config holds no topology any more, or an older one, and the file may be older than what "
    "the node worked by: its lanes read nothing; write there what is in force (`mesh apply`), or a "
    "record with the key `topology` and no value to have it go by its file"
)

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
    _look_ms: int = 0

    def step(self, lanes: Lanes, now_ms: int) -> Iterator[Input]:
        """Yield what the node has acknowledged of neighbours that this worker knows less about.

        Feed each to the machine at once: what follows depends on what the machine knows by then.
        """
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + LOOK_MS
            yield from self._heed_change(lanes, now_ms)
        is_behind = lanes.machine.learner.is_behind
        heard = _taken_long_ago(lanes, now_ms)
        waiting = [lane for lane in heard if is_behind(lane.following.awaited)]
        is_asked = self.questions.is_open("learned") or self.questions.is_open("clients")
        if not waiting:
            yield from self._heard(self._awaited)
            if is_asked:  # a lane that waits later must not go by this answer
                self.questions.forget("learned")
                self.questions.forget("clients")
        elif is_asked or now_ms - self._tried_ms >= LANE_HEARS_FIRST_MS:
            self._tried_ms = now_ms
            yield from self._look_up(lanes, waiting, now_ms)

    def _look_up(self, lanes: Lanes, waiting: Sequence[Lane], now_ms: int) -> Iterator[Input]:
        """Look up what some lanes wait for in the node's own topics."""
        learner = lanes.machine.learner
        awaited = [lane.following.awaited for lane in waiting]
        taken_ms, names = _last_taken_ms(waiting), TopicNames(lanes.topology.prefix)
        yield from self._heed_clients(lanes, awaited, taken_ms, now_ms)
        versions: dict[str, Version] = {}
        for known in awaited:
            for input_, version in known.items():
                versions[input_] = max(version, versions.get(input_, version))
        place = TopicPartition(names.learned(self.node), 0)
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
            its_versions = {one: v for one, v in versions.items() if neighbour_of(one) == name}
            learned, proven = kept.get(name, ({}, {}))
            told = {input_name(name, scope): version for scope, version in proven.items()}
            sure = {one: v for one, v in its_versions.items() if v <= told.get(one, NEVER)}
            if learner.hearing.can_recall(name, sure):
                log.warning("neighbour.recalled", neighbour=name)
                yield NeighbourLags(name, learned, sure)
            elif learner.neighbours[name].frozen:
                # Nobody knows when it can be reached, so the node starts without it, by what it has
                # acknowledged: that is all it owes.
                yield VersionsVoided(its_versions)
            elif self.listener.has_read_all(names.control(name), taken_ms, now_ms):
                # Its control topic lost its end or was recreated, and nobody was there to see it.
                log.warning("neighbour.shorter", neighbour=name)
                yield VersionsVoided(its_versions)
            elif name not in self._awaited:
                self._awaited[name] = None
                text = "lanes read nothing until it proves as much"
                log.warning("neighbour.awaited", neighbour=name, text=text)
                yield NeighbourAwaited(name, is_awaited=True)

    def _heard(self, names: Iterable[str]) -> Iterator[NeighbourAwaited]:
        """Stop waiting for neighbours."""
        for name in list(names):
            del self._awaited[name]
            yield NeighbourAwaited(name, is_awaited=False)

    def _heed_change(self, lanes: Lanes, now_ms: int) -> Iterator[RoundRequested | TopologyLost]:
        """Stop waiting for a topology, or a change of it, that `mesh.config` no longer holds.

        The topic has lost its end, was recreated or restored, or compaction removed what a stranger
        had overwritten. If it still says what is in force, or leaves that to the nodes' files, all
        is known. Otherwise what it says, like the file, is older than what the lane worked by, and
        nobody may guess: a change that has begun since says nothing until nodes switch. Spec: K28.
        """
        machine, orders = lanes.machine, self.listener.orders
        change, number = _known(machine, orders)
        late = [
            lane
            for lane in _taken_long_ago(lanes, now_ms)
            if lane.following.change > change or lane.following.topology > number
        ]
        config = TopicNames(lanes.topology.prefix).config()
        if late and not self.listener.has_read_all(config, _last_taken_ms(late), now_ms):
            return
        lacking = [lane for lane in late if lane.following.topology > number]
        orders.owed = max((lane.following.topology for lane in lacking), default=0)
        lost = 0 if orders.is_left_to_files or orders.has_owed else orders.owed
        for lane in late:
            if lane not in lacking or not (lost or orders.has_owed):
                followed = lane.following.change
                log.warning("change.gone", lane=lane.number, known=followed, told=change)
                lane.following.forget_change(lane.learner)
                yield RoundRequested()  # the leader may wait for it, too
        if lost != machine.lost_topology:
            if lost:
                log.error("topology.gone", number=lost, text=TOPOLOGY_GONE)
            yield TopologyLost(lost)

    def _heed_clients(
        self, lanes: Lanes, awaited: Sequence[VersionByInput], taken_ms: int, now_ms: int
    ) -> Iterator[VersionsVoided]:
        """Stop waiting for a subscription that `clients` no longer holds.

        The topic has lost its end, or was recreated while nobody was there to notice. Or its
        records were deleted, so nothing that is read there is as new as what lanes route by.
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
                yield VersionsVoided({CLIENTS: version})
            elif self.listener.has_read_all(place.topic, taken_ms, now_ms):
                log.warning("clients.deleted", known=version[1])
                yield VersionsVoided({CLIENTS: version})


def _known(machine: NodeMachine, orders: NodeOrders) -> tuple[Version, int]:
    """Return the newest change that was reported, and the number of the topology followed."""
    change = NEVER if machine.change is None else change_version(*machine.change)
    number, told = machine.learner.topology_number, orders.change
    if told is not None:
        change = max(change, told.version)
        number = max(number, told.number) if told.stage.has_switched else number
    return change, number


def _taken_long_ago(lanes: Lanes, now_ms: int) -> Sequence[Lane]:
    """Return the lanes that have had time to hear what they wait for."""
    owned = lanes.owned.values()
    return [lane for lane in owned if now_ms - lane.taken_ms >= LANE_HEARS_FIRST_MS]


def _last_taken_ms(lanes: Iterable[Lane]) -> int:
    """Return when the last of these lanes was taken: former owners of all had ended by then."""
    return max(lane.taken_ms for lane in lanes)


def _kept(
    recall: Recall, place: TopicPartition, neighbours: Sequence[str]
) -> Mapping[str, LastProven]:
    """Return what the node has kept of neighbours."""
    records = recall.records(place)
    return {name: last_proven(records, name) for name in neighbours}
