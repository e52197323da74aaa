"""An ingress that loses its end again and again, against what a naive reader finds there. R6, K9.

Whatever becomes of the log meanwhile: once all stops are accepted, each record that a reader finds
in it from its beginning has been delivered, once, in its order.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from mesh.model.control import Pause, Stop
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_pause, encode_stop
from mesh.wire.keys import SubjectPauseKey, accept_key, subject_pause_key
from tests.component.worker.conftest import subject
from tests.component.worker.test_commits import ZERO
from tests.property.effort import examples
from tests.property.one_node import ENDPOINT, INGRESS, OneNode

AT = TopicPartition(INGRESS, 0)
PAUSE = subject_pause_key(SubjectPauseKey("a", "x"))
LOOK_MS = 6_000
"""After so long a worker that lives has looked whether a topic is still the same."""
PLAIN, COMMITTED, ABORTED = "plain", "committed", "aborted"
WAYS = st.sampled_from([PLAIN, PLAIN, COMMITTED, ABORTED])
MOMENTS = st.sampled_from([1, 200, LOOK_MS, LOOK_MS])


class LostEnds(RuleBasedStateMachine):
    """A log grows, is cut off, trimmed and recreated; its reader rests, dies and lags."""

    def __init__(self) -> None:
        super().__init__()
        self.node = OneNode(lanes=1)
        self.kafka, self.world = self.node.kafka, self.node.world
        self.writer = self.kafka.writer("client", "client")
        self.is_alive = True

    def stops(self) -> list[Stop]:
        lanes = self.world.workers["a"].lanes if self.is_alive else None
        owned = lanes.owned.values() if lanes is not None else ()
        return [stop for lane in owned for stop in lane.progress.stopped.values()]

    # -- the log ------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), way=WAYS, ms=MOMENTS)
    def append(self, count: int, way: str, ms: int) -> None:
        """A transaction takes one offset more, of a marker that nobody sees."""
        if way == PLAIN:
            self.node.publish(count)
        else:
            self.writer.begin()
            for _ in range(count):
                value = b"%d" % self.node.published
                self.writer.produce(AT.topic, value, partition=0, headers=[subject("x")])
                self.node.published += 1
            (self.writer.commit if way == COMMITTED else self.writer.abort)()
        self.node.run(ms)

    @rule(
        had=st.integers(0, 4),
        after=MOMENTS,
        records=st.integers(1, 6),
        come=st.lists(st.tuples(st.integers(1, 3), WAYS), max_size=3),
        ms=MOMENTS,
    )
    def cut_off(
        self, had: int, after: int, records: int, come: list[tuple[int, str]], ms: int
    ) -> None:
        """Some of it may have been read, and others may stand there before anybody looks."""
        if had:
            self.append(had, PLAIN, after)
        self.kafka.truncate(AT, records)
        for count, way in come:
            self.append(count, way, 0)
        self.node.run(ms)

    @rule(count=st.integers(0, 2), ms=MOMENTS)
    def delete_or_recreate(self, count: int, ms: int) -> None:
        """Nothing comes to a new topic before the next look, but it may be another one by then."""
        if count:
            log = self.kafka.topics[AT.topic].logs[0]
            self.kafka.admin().delete_before({AT: min(log.end, log.start + count)})
            self.node.run(ms)
        else:
            self.kafka.recreate(AT.topic)
            self.node.run(LOOK_MS)

    # -- its reader ---------------------------------------------------------------------------

    @rule(what=st.sampled_from(["dies", "rests", "goes on", "lags"]), ms=MOMENTS)
    def disturb(self, what: str, ms: int) -> None:
        """It dies or comes back, rests before the next record, or commits late what it has read."""
        if what == "dies":
            (self.world.kill if self.is_alive else self.world.start)("a")
            self.is_alive = not self.is_alive
        elif what == "lags":
            self.node.slow.looks[ZERO] = 30 - self.node.slow.looks[ZERO]
        else:
            value = encode_pause(Pause("")) if what == "rests" else None
            self.node.write(self.node.names.config(), value, PAUSE)
        self.node.run(ms)

    @rule(ms=MOMENTS)
    def accept(self, ms: int) -> None:
        for stop in self.stops():
            key = accept_key("a", stop.topic, stop.partition)
            self.node.write(self.node.names.config(), encode_stop(stop), key)
        self.node.run(ms)

    # -- in the end ---------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything heals, and an operator accepts what is lost until nothing is left of it."""
        self.node.slow.looks[ZERO] = 0
        self.disturb("goes on", 0)
        if not self.is_alive:
            self.disturb("dies", 0)
        for _ in range(8):
            self.node.run(2 * LOOK_MS)
            if not self.stops():
                break
            self.accept(0)
        assert self.stops() == []
        there, came = self.node.numbers(INGRESS), self.node.numbers(ENDPOINT)
        assert len(set(came)) == len(came)
        assert [value for value in came if value in set(there)] == there


TestLostEnds = LostEnds.TestCase
TestLostEnds.settings = settings(examples(60), stateful_step_count=8)
