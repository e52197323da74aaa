"""An ingress that loses its end again and again, against what a naive reader finds there. R6, K9.

Whatever becomes of the log meanwhile: once all stops are accepted, each record that a reader finds
in it from its beginning has been delivered, once, in its order.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

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

    @initialize(count=st.integers(1, 6))
    def begin(self, count: int) -> None:
        self.append(count, LOOK_MS)

    @rule(count=st.integers(1, 4), ms=MOMENTS)
    def append(self, count: int, ms: int) -> None:
        self.node.publish(count)
        self.node.run(ms)

    @rule(count=st.integers(1, 3), is_kept=st.booleans(), ms=MOMENTS)
    def append_at_once(self, count: int, ms: int, *, is_kept: bool) -> None:
        """A transaction takes one offset more, of a marker that nobody sees."""
        self.writer.begin()
        for _ in range(count):
            value = b"%d" % self.node.published
            self.writer.produce(AT.topic, value, partition=0, headers=[subject("x")])
            self.node.published += 1
        (self.writer.commit if is_kept else self.writer.abort)()
        self.node.run(ms)

    @rule(records=st.integers(1, 4), come=st.integers(0, 6), ms=MOMENTS)
    def cut_off(self, records: int, come: int, ms: int) -> None:
        """Others may stand there before anybody looks."""
        self.kafka.truncate(AT, records)
        if come:
            self.node.publish(come)
        self.node.run(ms)

    @rule(records=st.integers(1, 4), ms=MOMENTS)
    def cut_off_in_a_transaction(self, records: int, ms: int) -> None:
        """What comes first has a marker behind it."""
        self.kafka.truncate(AT, records)
        self.append_at_once(1, ms, is_kept=True)

    @rule(count=st.integers(1, 2), ms=MOMENTS)
    def delete(self, count: int, ms: int) -> None:
        log = self.kafka.topics[AT.topic].logs[0]
        self.kafka.admin().delete_before({AT: min(log.end, log.start + count)})
        self.node.run(ms)

    @rule(times=st.integers(1, 2))
    def recreate(self, times: int) -> None:
        """Nothing comes before the next look: until then it would be taken for the former's."""
        for _ in range(times):
            self.kafka.recreate(AT.topic)
            self.node.run(LOOK_MS)

    # -- its reader ---------------------------------------------------------------------------

    @rule(ms=MOMENTS)
    def die_or_come_back(self, ms: int) -> None:
        if self.is_alive:
            self.world.kill("a")
        else:
            self.world.start("a")
        self.is_alive = not self.is_alive
        self.node.run(ms)

    @rule(is_paused=st.booleans(), ms=MOMENTS)
    def pause(self, ms: int, *, is_paused: bool) -> None:
        """What is read no further for a while is assigned again later."""
        value = encode_pause(Pause("")) if is_paused else None
        self.node.write(self.node.names.config(), value, PAUSE)
        self.node.run(ms)

    @rule(looks=st.sampled_from([0, 3, 30]))
    def commit_late(self, looks: int) -> None:
        """What was read is not committed yet when the log changes."""
        self.node.slow.looks[ZERO] = looks

    @rule(ms=MOMENTS)
    def accept(self, ms: int) -> None:
        for stop in self.stops():
            key = accept_key("a", stop.topic, stop.partition)
            self.node.write(self.node.names.config(), encode_stop(stop), key)
        self.node.run(ms)

    # -- in the end ---------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything heals, and an operator accepts what is lost until nothing is left of it."""
        self.pause(0, is_paused=False)
        self.commit_late(0)
        if not self.is_alive:
            self.die_or_come_back(0)
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
TestLostEnds.settings = settings(examples(40), stateful_step_count=16)
