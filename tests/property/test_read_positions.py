"""What a node says to be read, against a naive replay of what its lanes have committed. K12, K16."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesh.core.read_positions import ReadPositions
from mesh.lab.world import worker_name
from mesh.model.facts import EpochRaised, SourceAt
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.transport.port import MEMBER_TIMEOUT_MS, TopicPartition
from mesh.view.lane_reports import LaneReports
from mesh.wire.state import decode_fact
from tests.component.worker.test_commits import ONE, ZERO
from tests.property.effort import examples
from tests.property.one_node import ENDPOINT, INGRESS, OneNode

PROGRESS = "mesh.a.progress"
WRITERS = {0: ZERO, 1: ONE}
PARTS = st.sampled_from([*WRITERS])
WORKERS = st.integers(0, 1)


class LostAnswers(MemoryFaults):
    """The next commit of a lane has this outcome."""

    def __init__(self) -> None:
        self.next: dict[str, Outcome] = {}

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        return self.next.pop(what, None) if call is Call.COMMIT else None


class PositionsAgainstCommits(RuleBasedStateMachine):
    """Two lanes of one node; commits come late, fail or are never heard of, and workers die.

    The model has no positions but those in the committed records of `progress`, the last one of
    each source.
    """

    def __init__(self) -> None:
        super().__init__()
        self.node, self.answers = OneNode(lanes=2), LostAnswers()
        self.node.kafka.faults = self.answers
        self.paused: set[str] = set()

    @rule(ms=st.sampled_from([1, 10, 50, 300, 2_000, MEMBER_TIMEOUT_MS + 1_000]))
    def wait(self, ms: int) -> None:
        self.node.run(ms)

    @rule(count=st.integers(1, 4), part=PARTS)
    def publish(self, count: int, part: int) -> None:
        self.node.publish(count, part)

    @rule(part=PARTS, looks=st.sampled_from([0, 2, 20]), fails=st.booleans())
    def commit_late(self, part: int, looks: int, *, fails: bool) -> None:
        """A commit that takes longer may fail in the end."""
        self.node.slow.looks[WRITERS[part]] = looks
        self.node.slow.fails = fails and looks > 0

    @rule(part=PARTS, outcome=st.sampled_from(Outcome))
    def lose_answer(self, part: int, outcome: Outcome) -> None:
        self.answers.next[WRITERS[part]] = outcome

    @rule(worker=WORKERS)
    def start_or_kill(self, worker: int) -> None:
        if self._is_there(worker):
            self.node.world.kill("a", worker)
            self.paused.discard(worker_name("a", worker))
        else:
            self.node.world.start("a", worker)

    @rule(worker=WORKERS)
    def pause_or_resume(self, worker: int) -> None:
        """Its lanes may be another one's when it goes on."""
        name = worker_name("a", worker)
        if name in self.paused:
            self.node.world.resume("a", worker)
            self.paused.discard(name)
        elif self._is_there(worker):
            self.node.world.pause("a", worker)
            self.paused.add(name)

    def _is_there(self, worker: int) -> bool:
        world = self.node.world
        return worker_name("a", worker) in {*world.workers, *world._waiting}

    # -- what is said -------------------------------------------------------------------------

    def replayed(self) -> tuple[dict[TopicPartition, int], dict[int, int]]:
        """Return the committed positions, and the epoch of each lane."""
        positions: dict[TopicPartition, int] = {}
        epochs: dict[int, int] = {}
        for part in WRITERS:
            for record in self.node.records(PROGRESS, part):
                fact = decode_fact(record.value() or b"")
                if isinstance(fact, SourceAt) and fact.at.topic == INGRESS:
                    positions[fact.at] = fact.next
                elif isinstance(fact, EpochRaised):
                    epochs[part] = fact.epoch
        return positions, epochs

    @invariant()
    def everybody_says_what_is_committed(self) -> None:
        """Whoever lags says less, and nobody more; below it all is delivered, and nothing else."""
        positions, epochs = self.replayed()
        node = self.node
        for worker in node.world.workers.values():
            if (lanes := worker.lanes) is None:
                continue
            for at, told in lanes.read_positions(None).items():
                lane = lanes.owned[at.partition]
                assert told.read <= positions.get(at, 0)
                is_newest = lane.progress.epoch == epochs[lane.number]
                if is_newest and lane.batch is None and lane.closing is None:
                    assert told.read == positions[at]
        mates = ReadPositions()
        for part in WRITERS:
            for record in node.records(PROGRESS, part):
                mates.apply(part, decode_fact(record.value() or b""))
        said = mates.of_topics([INGRESS])
        assert {at: one.read for at, one in said.items()} == positions
        reports = LaneReports(node.world.topology, {"k": node.kafka})
        reports.read()
        for at, position in positions.items():
            assert reports.of("a").read.reached(at) == position
        for part in WRITERS:
            position = positions.get(TopicPartition(INGRESS, part), 0)
            assert node.numbers(ENDPOINT, part) == node.numbers(INGRESS, part)[:position]

    def teardown(self) -> None:
        """Once all is well, all is read."""
        self.answers.next.clear()
        for part in WRITERS:
            self.commit_late(part, 0, fails=False)
        for worker in range(2):
            if worker_name("a", worker) in self.paused:
                self.pause_or_resume(worker)
            if not self._is_there(worker):
                self.node.world.start("a", worker)
        self.node.run(30_000)
        self.everybody_says_what_is_committed()
        positions, _ = self.replayed()
        assert sum(positions.values()) == self.node.published


TestPositionsAgainstCommits = PositionsAgainstCommits.TestCase
TestPositionsAgainstCommits.settings = settings(examples(20), stateful_step_count=16)
