"""The in-memory Kafka cluster against a model written for clarity: a list per partition."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_clients import MemoryReader, MemoryWriter
from mesh.transport.memory_group import MemoryMembership
from mesh.transport.port import BEGINNING, TopicPartition, TopicSpec

PARTITIONS = 2
IDS = ("a", "b")
OPEN, COMMITTED, ABORTED, MARKER = "open", "committed", "aborted", "marker"
Entry = tuple[int, str, str]
"""Value, writer, fate."""

partitions = st.integers(0, PARTITIONS - 1)
ids = st.sampled_from(IDS)


class MemoryAgainstModel(RuleBasedStateMachine):
    """Writes, ends, fences, trims and reads at random.

    The model keeps every entry with its fate; a reader may have seen exactly the committed ones
    before the first open one, from its position on.
    """

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.kafka = MemoryKafka("m")
        self.kafka.admin().create([TopicSpec(name="t", partitions=PARTITIONS)])
        self.logs: list[list[Entry]] = [[] for _ in range(PARTITIONS)]
        self.starts = [0] * PARTITIONS
        self.writers: dict[str, MemoryWriter] = {}
        self.is_open = dict.fromkeys(IDS, False)
        self.plain = self.kafka.writer("plain")
        self.positions: dict[int, list[int | None]] = {}
        self.known: list[MemoryReader] = []
        self.next_value = 0

    # -- writing ------------------------------------------------------------------------------

    @rule(partition=partitions)
    def write_plainly(self, partition: int) -> None:
        self._write(self.plain, partition, "", COMMITTED)

    @rule(name=ids, partition=partitions)
    def write_in_transaction(self, name: str, partition: int) -> None:
        if not self.is_open[name]:
            self._writer(name).begin()
            self.is_open[name] = True
        self._write(self.writers[name], partition, name, OPEN)

    @rule(name=ids, is_kept=st.booleans())
    def end_transaction(self, name: str, is_kept: bool) -> None:
        if self.is_open[name]:
            writer = self.writers[name]
            (writer.commit if is_kept else writer.abort)()
            self._end(name, COMMITTED if is_kept else ABORTED)

    @rule(name=ids)
    def succeed(self, name: str) -> None:
        self.writers[name] = self.kafka.writer(name, name)
        self._end(name, ABORTED)

    def _writer(self, name: str) -> MemoryWriter:
        if name not in self.writers:
            self.writers[name] = self.kafka.writer(name, name)
        return self.writers[name]

    def _write(self, writer: MemoryWriter, partition: int, name: str, fate: str) -> None:
        writer.produce("t", b"%d" % self.next_value, partition=partition)
        self.logs[partition].append((self.next_value, name, fate))
        self.next_value += 1

    def _end(self, name: str, fate: str) -> None:
        self.is_open[name] = False
        for log in self.logs:
            mine = [index for index, entry in enumerate(log) if entry[1:] == (name, OPEN)]
            for index in mine:
                log[index] = (log[index][0], name, fate)
            if mine:
                log.append((-1, name, MARKER))

    # -- reading ------------------------------------------------------------------------------

    @rule(target=readers)
    def open_reader(self) -> int:
        reader = self.kafka.reader("r")
        self.known.append(reader)
        self.positions[len(self.known) - 1] = [None] * PARTITIONS
        return len(self.known) - 1

    @rule(reader=readers, partition=partitions, back=st.integers(0, 5))
    def assign(self, reader: int, partition: int, back: int) -> None:
        start = max(self.starts[partition], len(self.logs[partition]) - back)
        self.known[reader].assign({TopicPartition("t", partition): start})
        self.positions[reader][partition] = start

    @rule(reader=readers, partition=partitions)
    def assign_beginning(self, reader: int, partition: int) -> None:
        self.known[reader].assign({TopicPartition("t", partition): BEGINNING})
        # Where the beginning is, is decided by the first read.
        self.positions[reader][partition] = BEGINNING

    @rule(reader=readers, partition=partitions)
    def unassign(self, reader: int, partition: int) -> None:
        self.known[reader].unassign([TopicPartition("t", partition)])
        self.positions[reader][partition] = None

    @rule(reader=readers, limit=st.integers(1, 4))
    def read(self, reader: int, limit: int) -> None:
        records = self.known[reader].read(0, limit)
        assert len(records) <= limit
        due_in_all = 0
        for partition, position in enumerate(self.positions[reader]):
            due = self._visible(partition, position)
            due_in_all += len(due)
            found = [
                (record.offset(), int(record.value() or b"-1"))
                for record in records
                if record.partition() == partition
            ]
            assert found == due[: len(found)]
            if position is not None:
                # Whatever the position has passed was returned, or is not to be seen.
                reached = self.known[reader].position(TopicPartition("t", partition))
                assert found == [entry for entry in due if entry[0] < reached]
                self.positions[reader][partition] = reached
        if len(records) < limit:
            assert len(records) == due_in_all

    def _visible(self, partition: int, position: int | None) -> list[tuple[int, int]]:
        """Return (offset, value) of what a reader at this position is due."""
        if position is None or (position != BEGINNING and position < self.starts[partition]):
            return []
        position = max(position, self.starts[partition])
        due = []
        for offset, (value, _, fate) in enumerate(self.logs[partition]):
            if fate == OPEN:
                break
            if offset >= position and fate == COMMITTED:
                due.append((offset, value))
        return due

    @rule(partition=partitions, count=st.integers(0, 3))
    def trim(self, partition: int, count: int) -> None:
        offset = min(self.starts[partition] + count, len(self.logs[partition]))
        self.kafka.admin().delete_before({TopicPartition("t", partition): offset})
        self.starts[partition] = offset

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def report_lost(self, data: st.DataObject) -> None:
        """A lost partition was behind the log's start, and is not read until assigned again."""
        reader = data.draw(st.integers(0, len(self.known) - 1))
        for place in self.known[reader].lost():
            position = self.positions[reader][place.partition]
            assert position is not None
            assert position < self.starts[place.partition]
            self.positions[reader][place.partition] = None

    # -- always -------------------------------------------------------------------------------

    @invariant()
    def ends_and_starts_agree(self) -> None:
        places = [TopicPartition("t", index) for index in range(PARTITIONS)]
        admin = self.kafka.admin()
        assert list(admin.ends(places).values()) == [len(log) for log in self.logs]
        assert list(admin.starts(places).values()) == self.starts


class GroupAgainstRules(RuleBasedStateMachine):
    """Members come, go, crash and poll at random; no lane has two owners that may work."""

    def __init__(self) -> None:
        super().__init__()
        self.kafka = MemoryKafka("m")
        self.kafka.admin().create([TopicSpec(name="t", partitions=5)])
        self.members: list[MemoryMembership] = []

    @rule()
    def join(self) -> None:
        if len(self.members) < 7:
            self.members.append(self.kafka.membership("m", "g", "t"))

    def _one(self, data: st.DataObject) -> MemoryMembership | None:
        return data.draw(st.sampled_from(self.members)) if self.members else None

    @rule(data=st.data(), action=st.sampled_from(["poll", "poll", "poll", "close", "crash"]))
    def act(self, data: st.DataObject, action: str) -> None:
        member = self._one(data)
        if member is None:
            return
        if action == "poll":
            member.poll()
            return
        self.members.remove(member)
        leave: Callable[[], None] = member.close if action == "close" else member.crash
        leave()

    @invariant()
    def no_lane_has_two_owners(self) -> None:
        lanes = [lane for member in self.members for lane in member.lanes()]
        assert len(lanes) == len(set(lanes))

    @rule()
    def settle(self) -> None:
        """Two rounds of polls share everything out, evenly, and a third changes nothing."""
        for _ in range(2):
            for member in self.members:
                member.poll()
        sizes = [len(member.lanes()) for member in self.members]
        if sizes:
            assert sum(sizes) == 5
            assert max(sizes) - min(sizes) <= 1
        before = [member.lanes() for member in self.members]
        for member in self.members:
            member.poll()
        assert [member.lanes() for member in self.members] == before


TestMemoryAgainstModel = MemoryAgainstModel.TestCase
TestGroupAgainstRules = GroupAgainstRules.TestCase
