"""The in-memory Kafka cluster when it is unkind: outcomes, crashes, late and tiny fetches. R3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mesh.errors import (
    TransportDeniedError,
    TransportError,
    TransportFencedError,
    TransportUnknownError,
)
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_clients import MemoryWriter
from mesh.transport.memory_faults import Call, CrashNow, MemoryFaults, Outcome
from mesh.transport.port import TopicPartition, TopicSpec

T0 = TopicPartition("t", 0)


@dataclass
class Planned(MemoryFaults):
    """Answers the calls of one kind in turn, then lets everything succeed."""

    call: Call
    outcomes: list[Outcome | type[BaseException]]
    limits: list[int] = field(default_factory=list)
    seen: list[tuple[str, int]] = field(default_factory=list)

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is not self.call or not self.outcomes:
            return None
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Outcome):
            return outcome
        raise outcome

    def fetch_limit(self, client: str, limit: int) -> int:
        return self.limits.pop(0) if self.limits else limit

    def appended(self, topic: str, partition: int) -> None:
        self.seen.append((topic, partition))


@pytest.fixture
def kafka() -> MemoryKafka:
    kafka = MemoryKafka("m")
    kafka.admin().create([TopicSpec(name="t", partitions=1), TopicSpec(name="u", partitions=1)])
    return kafka


def values(kafka: MemoryKafka, topic: str = "t") -> list[bytes | None]:
    reader = kafka.reader("test")
    reader.assign({TopicPartition(topic, 0): 0})
    return [record.value() for record in reader.read(0, 100)]


def send(writer: MemoryWriter, *messages: bytes) -> None:
    writer.begin()
    for message in messages:
        writer.produce("t", message, partition=0)
    writer.commit()


@pytest.mark.parametrize(
    ("outcome", "error", "seen"),
    [
        (Outcome.FAILED, TransportError, []),
        (Outcome.UNKNOWN_COMMITTED, TransportUnknownError, [b"a"]),
        (Outcome.UNKNOWN_ABORTED, TransportUnknownError, []),
    ],
)
def test_a_successor_finds_out_what_became_of_a_commit(
    kafka: MemoryKafka, outcome: Outcome, error: type[TransportError], seen: Sequence[bytes]
) -> None:
    """Opening it ends what is open; what the former one wrote is there as a whole or not at all."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.COMMIT, [outcome])
    with pytest.raises(error):
        send(writer, b"a")
    successor = kafka.writer("w", "id")
    send(successor, b"next")
    assert values(kafka) == [*seen, b"next"]


def test_an_unanswered_commit_hides_what_follows_until_it_is_fenced(kafka: MemoryKafka) -> None:
    """The request was lost: for the brokers the transaction goes on."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.COMMIT, [Outcome.UNKNOWN_ABORTED])
    with pytest.raises(TransportUnknownError):
        send(writer, b"a")
    kafka.writer("plain").produce("t", b"behind", partition=0)
    assert values(kafka) == []
    kafka.writer("w", "id")
    assert values(kafka) == [b"behind"]


def test_who_goes_on_after_a_lost_commit_commits_it_with_the_next_one(kafka: MemoryKafka) -> None:
    """The second attempt doubles the first. Spec: R3."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.COMMIT, [Outcome.UNKNOWN_ABORTED])
    with pytest.raises(TransportUnknownError):
        send(writer, b"a")
    send(writer, b"a")
    assert values(kafka) == [b"a", b"a"]


def test_who_goes_on_after_an_unknown_commit_gets_a_torn_transaction(kafka: MemoryKafka) -> None:
    """KAFKA-17754: the late copy of the request ends the next transaction in its middle. R3."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.COMMIT, [Outcome.UNKNOWN_COMMITTED])
    with pytest.raises(TransportUnknownError):
        send(writer, b"a")
    with pytest.raises(TransportError):
        send(writer, b"copy", b"position")
    assert values(kafka) == [b"a", b"copy"]
    send(writer, b"later")
    assert values(kafka) == [b"a", b"copy", b"later"]


def test_the_late_copy_cannot_touch_a_successor(kafka: MemoryKafka) -> None:
    """Another epoch: the brokers refuse it. Spec: R3."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.COMMIT, [Outcome.UNKNOWN_COMMITTED])
    with pytest.raises(TransportUnknownError):
        send(writer, b"a")
    send(kafka.writer("w", "id"), b"copy", b"position")
    assert values(kafka) == [b"a", b"copy", b"position"]
    with pytest.raises(TransportFencedError):
        writer.begin()


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN_COMMITTED, Outcome.UNKNOWN_ABORTED])
def test_an_abort_with_an_unknown_outcome_shows_nothing(
    kafka: MemoryKafka, outcome: Outcome
) -> None:
    """Whichever it was, a successor goes on."""
    writer = kafka.writer("w", "id")
    kafka.faults = Planned(Call.ABORT, [outcome])
    writer.begin()
    writer.produce("t", b"a", partition=0)
    with pytest.raises(TransportUnknownError):
        writer.abort()
    send(kafka.writer("w", "id"), b"next")
    assert values(kafka) == [b"next"]


def test_begin_may_fail(kafka: MemoryKafka) -> None:
    """As after a lost connection; with a new writer it goes on."""
    kafka.faults = Planned(Call.BEGIN, [Outcome.FAILED, Outcome.UNKNOWN_COMMITTED])
    writer = kafka.writer("w", "id")
    with pytest.raises(TransportError):
        writer.begin()
    with pytest.raises(TransportUnknownError):
        writer.begin()
    send(kafka.writer("w", "id"), b"a")
    assert values(kafka) == [b"a"]


def test_a_topic_that_refuses_is_named_at_the_commit(kafka: MemoryKafka) -> None:
    """And nothing of the transaction is seen anywhere."""
    writer = kafka.writer("w", "id")
    kafka.denied["u"] = "no right to write"
    writer.begin()
    writer.produce("t", b"a", partition=0)
    writer.produce("u", b"b", partition=0)
    with pytest.raises(TransportDeniedError, match="no right") as refused:
        writer.commit()
    assert refused.value.topics == ("u",)
    kafka.denied.clear()
    send(writer, b"later")
    assert values(kafka) == [b"later"]


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        (Call.OPEN, []),
        (Call.OPENED, []),
        (Call.BEGIN, []),
        (Call.PRODUCE, []),
        (Call.COMMIT, []),
        (Call.COMMITTED, [b"a"]),
    ],
)
def test_a_crash_leaves_what_had_happened(
    kafka: MemoryKafka, call: Call, seen: Sequence[bytes]
) -> None:
    """Before it took effect or after; no handler of errors stops it."""
    kafka.faults = Planned(call, [CrashNow])
    with pytest.raises(CrashNow):
        send(kafka.writer("w", "id"), b"a")
    send(kafka.writer("w", "id"), b"next")
    assert values(kafka) == [*seen, b"next"]


def test_fetches_may_be_late_and_tiny(kafka: MemoryKafka) -> None:
    """Nothing is skipped by it."""
    send(kafka.writer("w", "id"), b"a", b"b", b"c")
    kafka.faults = Planned(Call.READ, [], limits=[0, 1, 0, 1])
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    found = [[record.value() for record in reader.read(0, 100)] for _ in range(6)]
    assert found == [[], [b"a"], [], [b"b"], [b"c"], []]


def test_somebody_may_watch_what_becomes_visible(kafka: MemoryKafka) -> None:
    """Once per partition and commit, not when a record is handed over."""
    watch = kafka.faults = Planned(Call.READ, [])
    writer = kafka.writer("w", "id")
    writer.begin()
    writer.produce("t", b"a", partition=0)
    assert watch.seen == []
    writer.produce("u", b"b", partition=0)
    writer.commit()
    assert watch.seen == [("t", 0), ("u", 0)]


def test_a_silent_member_loses_its_lanes_after_the_session_timeout(kafka: MemoryKafka) -> None:
    """It believes in them until it polls, as a paused process does."""
    now = [0]
    kafka.now_ms = lambda: now[0]
    kafka.session_timeout_ms = 6000
    zombie, heir = kafka.membership("a", "g", "t"), kafka.membership("b", "g", "t")
    zombie.poll()
    heir.poll()
    assert (zombie.lanes(), heir.lanes()) == ({0}, set())
    for now[0] in (3000, 6000):
        heir.poll()
        assert heir.lanes() == set()
    now[0] = 6001
    heir.poll()
    assert (zombie.lanes(), heir.lanes()) == ({0}, {0})
    zombie.poll()
    assert zombie.lanes() == set()


def test_a_truncated_log_gives_its_offsets_out_again(kafka: MemoryKafka) -> None:
    """Readers beyond it lose their position."""
    send(kafka.writer("w", "id"), b"a", b"b")
    reader = kafka.reader("r")
    reader.assign({T0: 0})
    assert len(reader.read(0, 10)) == 2
    assert reader.position(T0) == 3
    kafka.truncate(T0, 1)
    assert values(kafka) == [b"a"]
    assert reader.read(0, 10) == []
    assert reader.lost() == [T0]
    kafka.writer("plain").produce("t", b"c", partition=0)
    assert values(kafka) == [b"a", b"c"]


def test_truncation_forgets_transactions_that_lie_behind_it(kafka: MemoryKafka) -> None:
    """The last stable offset does not point beyond the end."""
    kafka.writer("plain").produce("t", b"a", partition=0)
    writer = kafka.writer("w", "id")
    writer.begin()
    writer.produce("t", b"b", partition=0)
    kafka.truncate(T0, 1)
    assert kafka.admin().stable_ends([T0]) == kafka.admin().ends([T0]) == {T0: 1}
    writer.commit()
    assert values(kafka) == [b"a"]


def test_a_recreated_topic_is_empty_and_another_one(kafka: MemoryKafka) -> None:
    """Same name and settings."""
    send(kafka.writer("w", "id"), b"a")
    before = kafka.admin().describe(["t"])["t"]
    kafka.recreate("t")
    after = kafka.admin().describe(["t"])["t"]
    assert (after.name, after.partitions) == (before.name, before.partitions)
    assert after.topic_id != before.topic_id
    assert values(kafka) == []
