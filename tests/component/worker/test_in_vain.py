"""What was asked, opened or noted in vain leaves nothing behind, and what goes on forgets nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.moving import MEMBER
from mesh.errors import TransportUnavailableError
from mesh.model.control import NEVER
from mesh.model.inputs import VersionsVoided
from mesh.model.interest_inputs import CLIENTS
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.orders import NodeOrders
from mesh.worker.control.standing_by import StandingBy
from mesh.worker.lanes.takeover_waits import LANE_HEARS_FIRST_MS
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.questions import Questions
from mesh.worker.queue_moves.movers import Movers
from mesh.worker.topics.own_topics import LOOK_MS, OwnTopics, control_topics
from mesh.worker.worker import Worker
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.gates import Gate
from tests.said import Said

AT = TopicPartition("mesh.a.clients", 0)
AWAY = TransportUnavailableError("no broker answers")
UNANSWERED = {"log_level": "warning", "fault": "no broker answers"}


def mesh_behind(gate: Gate, more: dict[str, object] | None = None) -> SmallMesh:
    return SmallMesh({**CHAIN, **(more or {})}, errands=lambda: gate)


# -- a lane that waits ----------------------------------------------------------------------------


class Lagging:
    """A worker that knows `clients` up to some offset, and a lane that goes by more.

    Attributes:
        looks: How late answers come, the first ones first; at once when there are none left.
        is_away: Whether no broker answers.
    """

    def __init__(self, looks: list[int]) -> None:
        self.known, self.end, self.asked = 3, 5, 0
        self.is_away = False
        self.voided: list[tuple[int, int]] = []
        learner = SimpleNamespace(
            is_behind=self.is_late,
            lacks_clients=self.is_late,
            lagging=lambda _: [],
            topology_number=0,
        )
        following = SimpleNamespace(awaited={CLIENTS: (0, 4)}, change=NEVER, topology=0)
        self.lane = SimpleNamespace(following=following, taken_ms=0)
        self.lanes: Any = SimpleNamespace(
            topology=topology_from_mapping(CHAIN),
            machine=SimpleNamespace(learner=learner, change=None, number=0, lost_topology=0),
            owned={0: self.lane},
            home=SimpleNamespace(admin=lambda: self),
        )
        self.questions = Questions(SteppedErrands(lambda: looks.pop(0) if looks else 0))
        recall: Any = SimpleNamespace(records=lambda _: [])
        listener: Any = SimpleNamespace(orders=NodeOrders("a"), has_read_all=self.has_read)
        self.acknowledged = AcknowledgedInterest("a", recall, self.questions, listener)

    def is_late(self, versions: dict[str, tuple[int, int]]) -> bool:
        return versions[CLIENTS][1] > self.known

    def has_read(self, _topic: str, taken_ms: int, now_ms: int) -> bool:
        """It never gets that far here."""
        return now_ms < taken_ms

    def ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert places == [AT]
        self.asked += 1
        if self.is_away:
            raise AWAY
        return {AT: self.end}

    def step(self, now_ms: int) -> None:
        for told in self.acknowledged.step(self.lanes, now_ms):
            assert isinstance(told, VersionsVoided)
            self.voided += told.versions.values()


ASKED, LATE = [0, 0], [1_000]
"""A question is put at once, and its answer is a thousand looks late."""


def test_a_lane_waits_by_no_answer_that_was_asked_for_before() -> None:
    """By an old one `clients` looks shorter than what the lane's former owner knew. Spec: K16."""
    worker = Lagging([*ASKED, *LATE])
    worker.step(LANE_HEARS_FIRST_MS)
    assert worker.asked == 1
    assert worker.questions.are_open
    worker.known = 4  # the worker has heard what the lane waited for
    worker.step(LANE_HEARS_FIRST_MS + 10)
    assert not worker.questions.are_open
    worker.lane.following.awaited = {CLIENTS: (0, 8)}
    worker.lane.taken_ms, worker.end = 2_000, 9
    for now_ms in range(3_000, 30_000, 10):
        worker.step(now_ms)
    assert worker.asked > 1
    assert worker.voided == []


def test_a_topic_that_is_shorter_is_not_waited_for() -> None:
    """The answer is heeded all the same."""
    worker = Lagging([])
    worker.end = 4
    worker.step(LANE_HEARS_FIRST_MS)
    assert worker.voided == [(0, 4)]


def test_a_topic_that_cannot_be_looked_at_is_told_and_looked_at_again(said: Said) -> None:
    worker = Lagging([])
    worker.end, worker.is_away = 4, True
    worker.step(LANE_HEARS_FIRST_MS)
    assert said.of("clients.not_looked_at") == [UNANSWERED]
    worker.is_away = False
    worker.step(2 * LANE_HEARS_FIRST_MS)
    assert said.of("clients.shorter") == [{"log_level": "warning", "known": 4, "end": 4}]
    assert worker.voided == [(0, 4)]


def test_topics_that_cannot_be_looked_at_are_told_and_looked_at_again(said: Said) -> None:
    kafka = MemoryKafka("k")
    topology = topology_from_mapping(CHAIN)
    kafka.faults = AdminFaults(describe=AWAY, times=1)
    admin, questions = kafka.admin(), Questions(SteppedErrands())
    topics = OwnTopics(topology, "a", admin, questions, 0, control_topics, "control")
    assert topics.changed(LOOK_MS) == ()
    assert said.of("topics.not_looked_at") == [{**UNANSWERED, "of": "control"}]
    topics.changed(2 * LOOK_MS)
    assert topics.id_of("mesh.a.control") == kafka.topics["mesh.a.control"].info.topic_id


# -- a standby that gets lanes --------------------------------------------------------------------


def test_a_standby_that_gets_a_lane_takes_its_question_back() -> None:
    kafka = MemoryKafka("k")
    questions = Questions(SteppedErrands(lambda: 1_000))
    recall: Any = SimpleNamespace(records=lambda _: [])
    standby = StandingBy("w", "mesh.a.learned", kafka.writer("w"), recall, questions)
    standby.step({CLIENTS: (0, 4)}, 10_000)
    assert questions.are_open
    standby.step(None, 10_010)
    assert not questions.are_open


def test_a_standby_that_cannot_read_what_others_reported_goes_on(said: Said) -> None:
    """What workers that are gone have left there is cleared by the next standby."""
    kafka = MemoryKafka("k")

    def unanswered(_: TopicPartition) -> Any:
        raise AWAY

    recall: Any = SimpleNamespace(records=unanswered)
    questions = Questions(SteppedErrands())
    standby = StandingBy("w", "mesh.a.learned", kafka.writer("w"), recall, questions)
    standby.step({CLIENTS: (0, 4)}, 10_000)
    standby.step({CLIENTS: (0, 4)}, 20_000)
    assert said.of("standbys.not_read") == [UNANSWERED]


# -- limits that brokers say nothing about ---------------------------------------------------------


def test_what_brokers_do_not_say_of_limits_and_queues_is_told_and_asked_again(said: Said) -> None:
    """Nothing counts as full meanwhile, and no worker ends."""
    limits = [
        {"link": ["a", "b"], "outboxBytes": 2_000, "whenFull": "stop"},
        {"endpoint": "s", "bytes": 2_000, "whenFull": "stop"},
    ]
    mesh = SmallMesh({**CHAIN, "limits": limits, "queues": {"q": {"policy": "any"}}})
    mesh.subscribe("c", "q", ">", b'{"kind": "queue"}')
    mesh.run(1_000)
    workers = dict(mesh.world.workers)
    mesh.kafka.faults = AdminFaults(ends=AWAY, readers=AWAY, passed=AWAY, group_members=AWAY)
    mesh.run(6_000)
    assert UNANSWERED in said.of("backlog.unknown")
    assert UNANSWERED in said.of("endpoints.unknown")
    assert UNANSWERED in said.of("queues.unknown")
    mesh.kafka.faults = None
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert [one.value() for one in mesh.delivered()] == [b"1"]
    assert mesh.world.workers == workers


# -- limits that a change takes away --------------------------------------------------------------


def is_asking(worker: Worker) -> bool:
    return any(map(worker._questions.is_open, ("backlogs", "consumed", "noted")))


@pytest.mark.parametrize(
    "limit",
    [
        {"link": ["a", "b"], "outboxBytes": 2_000, "whenFull": "stop"},
        {"endpoint": "s", "bytes": 2_000, "whenFull": "stop"},
    ],
    ids=["link", "endpoint"],
)
def test_what_was_asked_for_a_limit_that_is_gone_stays_open_for_nobody(
    limit: dict[str, object],
) -> None:
    """Each turn would wait for 10 ms at most, for ever."""
    gate = Gate("_asking")
    mesh = mesh_behind(gate, {"limits": [limit]})
    mesh.run(2_000)
    worker = mesh.world.workers["a" if "link" in limit else "c"]
    gate.is_shut = True
    mesh.run(6_000)
    assert is_asking(worker)
    backlogs = worker.background.backlogs
    without = SimpleNamespace(topology=topology_from_mapping(CHAIN))
    backlogs.relink(cast("Any", without), mesh.world.clock.ms)
    mesh.run(6_000)
    assert not is_asking(worker)


# -- movers ---------------------------------------------------------------------------------------


def moving(gate: Gate) -> tuple[SmallMesh, Movers]:
    """Return a mesh in which a moves messages of a queue to c, and a's movers."""
    mesh = mesh_behind(gate)
    value = json.dumps({"kind": "queue", "policy": "any"}).encode()
    for node in "ac":
        mesh.subscribe(node, "jobs", "work/>", value)
    mesh.run(10_000)
    for number in range(20):
        mesh.publish(b"%03d" % number, [subject("work/x")])
    mesh.run(5_000)
    topic = mesh.names.endpoint("c", "jobs")
    consumer = mesh.kafka.consumer("client", topic, topic)
    movers = mesh.world.workers["a"].background.movers
    for _ in range(400):
        mesh.run(50)
        consumer.read(0.0, 1)
        if any(one.ends_written for one in movers._movers.values()):
            return mesh, movers
    raise AssertionError("nothing moved")


def members(mesh: SmallMesh) -> list[str]:
    topic = mesh.names.endpoint("a", "jobs")
    return [name for name in mesh.kafka.admin().group_members(topic) if MEMBER in name]


def is_read(movers: Movers) -> bool:
    """Whether a newer demand may count, for a neighbour that has told nothing."""
    return movers._is_read((0, "jobs"), movers.lanes.owned[0].link("b"), {})


def test_a_mover_that_leaves_leaves_its_marks_behind() -> None:
    """What it sent is on its way still: a newer demand counts once that is read."""
    _, movers = moving(Gate(""))
    assert not is_read(movers)
    movers._leave((0, "jobs"))
    assert movers._movers == {}
    assert not is_read(movers)


def test_a_mover_that_was_opened_in_vain_takes_no_marks_along() -> None:
    gate = Gate("_open")
    mesh, movers = moving(gate)
    movers._leave((0, "jobs"))
    gate.is_shut = True
    for _ in range(200):
        mesh.run(50)
        if movers.is_opening:
            break
    else:
        pytest.fail("no mover was opened again")
    movers._consumers.seen["jobs"].target = None
    gate.is_shut = False
    movers._take_opened(mesh.world.clock.ms)
    assert movers._movers == {}
    assert not is_read(movers)


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_mover_that_is_leaving_when_its_worker_ends_leaves_its_group(end: str) -> None:
    """Else the group keeps a partition for it until a time-out, and nobody consumes that."""
    gate = Gate("_closing", is_shut=True)
    mesh, movers = moving(gate)
    assert members(mesh)
    movers._leave((0, "jobs"))
    assert members(mesh)
    worker = mesh.world.workers.pop("a")
    getattr(worker, end)()
    assert members(mesh) == []
