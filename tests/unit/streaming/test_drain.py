"""`--until-drained` ends on a mesh that lives: what was there when it began is judged. K29, K30."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mesh.errors import TransportUnavailableError
from streaming.audits.block import Certificate
from streaming.audits.comparisons import UncertifiedRange
from streaming.audits.interest import EndpointKey
from streaming.audits.strangers import StrangerKey
from streaming.audits.unwanted_deliveries import AbridgedDeliveries
from streaming.job.drain import ASK_EVERY_S, DRAIN_STILL_S, STILL_LOOKS, AuditorDrain
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.state import State
from streaming.job.supervisor import QuerySupervisor
from streaming.tables.digest import Digest
from streaming.tables.rows import IngressRow, SourceKey, TopicPartition, UnwantedRow
from tests.streaming.planted import chain_topology

PLACE = TopicPartition("mesh.a.in.g", 0)
CONTROL = TopicPartition("mesh.a.control", 0)
FAR = TopicPartition("mesh.c.control", 0)
ENDPOINT = EndpointKey("b", "s1")


@dataclass
class Brokers:
    """One Kafka cluster, which answers or does not."""

    logs: dict[TopicPartition, int]
    is_there: bool = True

    def topics(self) -> Iterable[str]:
        if not self.is_there:
            raise TransportUnavailableError("away")
        return [place.topic for place in self.logs]

    def described(self, topics: list[str]) -> Mapping[str, tuple[str, int]]:
        return dict.fromkeys(topics, ("aa", 1))

    def stable_ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: self.logs[place] for place in places}


@dataclass
class Mesh:
    """Two Kafka clusters of a mesh, and what the auditor knows."""

    near: Brokers = field(default_factory=lambda: Brokers({PLACE: 5, CONTROL: 3}))
    far: Brokers = field(default_factory=lambda: Brokers({FAR: 2}))
    state: State = field(default_factory=lambda: State.of(chain_topology()))
    drain: AuditorDrain = field(default_factory=AuditorDrain)
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        homes = dict(self.state.eras.homes())
        brokers = {"k1": self.near, "k2": self.far}
        self.kafka_clusters = AuditedKafkaClusters("mesh.", brokers, homes=homes)  # type: ignore[arg-type]

    def look(self, seconds: float = 1.0) -> bool:
        """Ask and look once, some time later."""
        self.now_s += seconds
        self.drain.ask(self.kafka_clusters, self.now_s)
        return self.drain.look(self.state, self.kafka_clusters, self.now_s)

    def read(self, *places: TopicPartition) -> None:
        """Read up to where logs end now."""
        logs = {**self.near.logs, **self.far.logs}
        self.state.read.update({place: logs[place] for place in places or logs})

    def publish(self, last: int) -> None:
        """Know of a message of the first block, or of a later one."""
        row = IngressRow(PLACE, last // 4096, "acme/x", Digest(1, 2, 3, 4), last, last)
        self.state.certifier.blocks.publish([row], self.now_s)

    def waits(self, reason: str, block: int = 0, last: int = 4, of: str = str(ENDPOINT)) -> None:
        self.state.certifier.waiting = [UncertifiedRange(str(PLACE), block, of, last, reason)]

    def certify(self, last: int) -> None:
        self.state.certifier.blocks.open[PLACE][0].issued[ENDPOINT] = Certificate(
            str(PLACE), 0, 0, last, str(ENDPOINT), 5, 5, equal=True, partial=True
        )


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


def test_it_ends_once_all_that_was_there_is_read_though_nodes_beat_on(mesh: Mesh) -> None:
    assert not mesh.look()
    assert "mesh.a.in.g/0 is read up to 0 of 5" in mesh.drain.left
    mesh.read(PLACE, CONTROL)
    assert not mesh.look()
    mesh.read(FAR)
    mesh.near.logs[CONTROL] += 1  # a heartbeat
    mesh.far.logs[FAR] += 1
    assert mesh.look()


def test_a_kafka_cluster_that_nobody_knows_how_to_reach_is_waited_for(mesh: Mesh) -> None:
    """A change has brought it, and its record does not say where it is: nothing there is judged."""
    mesh.kafka_clusters.needed = dict.fromkeys(("k1", "k2", "k3"))
    mesh.read()
    assert not mesh.look()
    assert mesh.drain.left == ("k3 does not say where its logs end",)


def test_what_had_been_published_is_waited_for_and_what_came_later_is_not(mesh: Mesh) -> None:
    mesh.look()
    mesh.read()
    mesh.publish(4)
    mesh.waits("b at mesh.a.to.b.g/0: read up to 2 of 5")
    assert not mesh.look()
    assert mesh.drain.left == (
        "mesh.a.in.g/0 block 0 for b/s1: b at mesh.a.to.b.g/0: read up to 2 of 5",
    )
    # More is published all the time, so the block itself never rests.
    mesh.publish(9)
    mesh.certify(3)
    mesh.waits("read up to 6 of 10", last=9)
    assert not mesh.look()
    mesh.certify(4)
    assert mesh.look()
    mesh.waits("read up to 6 of 10", block=1, last=5000)
    assert mesh.look()


def test_a_block_with_news_is_not_judged_yet(mesh: Mesh) -> None:
    mesh.look()
    mesh.read()
    mesh.publish(4)
    mesh.waits("news to settle", of="*")
    assert not mesh.look()
    mesh.state.certifier.waiting = []
    assert mesh.look()


def test_what_stands_still_is_told_and_no_longer_waited_for(mesh: Mesh) -> None:
    """K30: it is no loss, and no proof either."""
    mesh.look()
    mesh.read()
    mesh.publish(4)
    for position in range(200):  # it moves, however slowly
        mesh.waits(f"read up to {position}")
        assert not mesh.look(DRAIN_STILL_S / 2)
    while not mesh.look(DRAIN_STILL_S / 4):
        assert mesh.drain.looks <= STILL_LOOKS
    assert mesh.drain.looks == STILL_LOOKS
    assert mesh.drain.left == ("mesh.a.in.g/0 block 0 for b/s1: read up to 199",)


def test_looks_that_are_far_apart_do_not_make_it_still(mesh: Mesh) -> None:
    """A batch may take minutes."""
    mesh.look()
    for _ in range(STILL_LOOKS - 2):
        assert not mesh.look(10 * DRAIN_STILL_S)


def test_a_kafka_cluster_that_does_not_answer_is_asked_again(mesh: Mesh) -> None:
    mesh.far.is_there = False
    assert not mesh.look()
    mesh.read()
    assert not mesh.look()
    assert mesh.drain.left == ("k2 does not say where its logs end",)
    mesh.far.is_there = True
    assert mesh.look(ASK_EVERY_S)


def test_what_was_read_and_is_in_doubt_is_waited_for(mesh: Mesh) -> None:
    mesh.look()
    mesh.read()
    blocks = mesh.state.certifier.blocks
    key = StrangerKey("mesh.b.ep.s1", SourceKey("ff", 0))
    blocks.unplaced.parked.hold(key, [], mesh.now_s)
    assert not mesh.look()
    blocks.unplaced.parked[key] = (mesh.now_s + 1, [])  # others of that source, which came later
    assert mesh.look()


class Living:
    """The auditor of a mesh whose nodes beat: each look of the supervisor finds another batch."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.state, self.kafka_clusters = mesh.state, mesh.kafka_clusters
        self.judgements = 0
        self.batch_at_s = 0.0
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.steps: list[Callable[[], None]] = []
        self.is_making = False
        self.judged = 0

    def is_taking(self, _: float) -> bool:
        return self.is_making

    def clock(self) -> float:
        self.mesh.now_s += 1.0
        return self.mesh.now_s

    def look(self) -> None:
        if self.steps:
            self.steps.pop(0)()
        self.judgements += 1
        assert self.judgements < 1000, "it does not end"

    def looked(self) -> None:
        """Nobody asks for it."""

    def judge(self) -> None:
        self.judgements += 1
        self.judged += 1


def test_what_has_too_many_subjects_is_waited_for_until_it_is_read_again(mesh: Mesh) -> None:
    row = UnwantedRow(TopicPartition("mesh.b.ep.s1", 0), SourceKey("dd", 0), 9, 0, 8, 0, 8, ("x",))
    mesh.state.unwanted.abridged.append(AbridgedDeliveries(row, "x", mesh.now_s))
    mesh.read()
    assert not mesh.look()
    assert mesh.drain.left == ("what looks wrong is not read again yet",)
    mesh.state.unwanted.abridged.clear()
    assert mesh.look()


def test_the_supervisor_ends_on_a_mesh_that_lives(mesh: Mesh, monkeypatch) -> None:
    """It waited for three seconds without a batch, and nodes beat each second."""
    monkeypatch.setattr("streaming.job.supervisor.PULSE_S", 0.0)
    living = Living(mesh)
    flock = SimpleNamespace(follow=lambda _: None)
    supervisor = QuerySupervisor(living, living, living, flock, print)  # type: ignore[arg-type]
    mesh.publish(4)
    mesh.waits("b to read on")
    living.steps = [mesh.read]
    supervisor.watch(mesh.drain)
    assert mesh.drain.left == ("mesh.a.in.g/0 block 0 for b/s1: b to read on",)
    living.steps = [mesh.state.certifier.waiting.clear]
    supervisor.watch(mesh.drain)
    assert mesh.drain.left == ()


@pytest.mark.parametrize("is_making", [False, True])
def test_the_supervisor_leaves_it_to_a_batch_that_is_made_to_judge(
    mesh: Mesh, monkeypatch, *, is_making: bool
) -> None:
    """What is read again for a judgement would keep the batch waiting."""
    monkeypatch.setattr("streaming.job.supervisor.PULSE_S", 0.0)
    monkeypatch.setattr("streaming.job.supervisor.JUDGE_S", 0.0)
    living, followed = Living(mesh), []
    living.is_making = is_making
    living.steps = [lambda: None, lambda: None, living.stopping.set]
    flock = SimpleNamespace(follow=followed.append)
    QuerySupervisor(living, living, living, flock, print).watch()  # type: ignore[arg-type]
    assert bool(living.judged) is not is_making
    assert followed


def test_a_topic_that_is_deleted_after_it_was_read_is_not_waited_for() -> None:
    """The auditor forgets how far it had read it."""
    mesh = Mesh()
    mesh.read(PLACE, CONTROL)
    assert not mesh.look()
    del mesh.state.read[PLACE]
    mesh.read(FAR)
    assert mesh.look()
