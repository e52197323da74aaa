"""Who leads the node: the owner of lane 0, who writes its control topics. Spec: K4, K16.

The other workers learn who the node is from what the leader wrote, and route by the same knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import structlog

from mesh.errors import TransportError, TransportHeldError
from mesh.model.control import Identity
from mesh.model.effects import EndLearned, Relinked, Write
from mesh.model.inputs import Input, LeadershipLost, LeadershipTaken
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition, Writer
from mesh.transport.reading import read_tail
from mesh.worker.control.control_writer import (
    ControlWriter,
    ReadPositions,
    Written,
    identity_of,
    parts_of_learned,
    read_written,
    was_written_by_spare,
)
from mesh.worker.control.frozen_neighbours import FrozenNeighbours
from mesh.worker.control.leader_records import LeaderRecords
from mesh.worker.control.lost_writes import LostWrites
from mesh.worker.control.unwritable import UnwritableTopics
from mesh.worker.process.commits import Commits, PendingCommit
from mesh.worker.process.errands import Errand, Errands, Steps
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall
from mesh.worker.topics.own_topics import control_topics, dispensable, restored
from mesh.worker.topics.writable import look

RETRY_MS = 500
"""How often to retry what could not be read, or was not there yet."""

LOGGED = 1_000
"""How many of the newest log records are read to learn who the node was, if its control topic does
not say: the leader beats there once a second."""

T = TypeVar("T")

_HAS_LEFT = "node {} is no part of the mesh any more, and {} is deleted: stop it"

log = structlog.get_logger()


class Incarnation(NamedTuple):
    """The epoch under which a worker leads.

    Attributes:
        uuid: The node's identity.
        epoch: Of this leadership.
        since: The first of the consecutive epochs, up to this one, that nobody else has taken: this
            worker has led under them, or took them in vain.
    """

    uuid: str
    epoch: int
    since: int


@dataclass(frozen=True, slots=True)
class Led:
    """The control topics, taken.

    Attributes:
        writer: Writes them.
        written: What they said before.
        uuid: The node's identity.
        epoch: Of this leadership.
        topic_ids: Of the node's control topics, by name.
        unwritable: Control topics that cannot be written now.
        learned: What the node has kept of its neighbours; nobody else adds to it any more.
        ends: Where its own records are in these topics.
        records: What its leader writes there besides its offers.
        by_spare: Whether it is written under the node's spare transactional id.
    """

    writer: Writer
    written: Written
    uuid: str
    epoch: int
    topic_ids: Mapping[str, bytes]
    unwritable: frozenset[str]
    learned: Sequence[Record]
    ends: LostWrites
    records: LeaderRecords
    by_spare: bool = False

    def close(self) -> None:
        """Release them: they are not needed after all."""
        self.writer.close()


def take_control(
    topology: Topology,
    node: str,
    home: KafkaCluster,
    cluster_id: str,
    recall: Recall,
    new_uuid: Callable[[], str],
    known: tuple[str | None, int] = (None, 0),
    taken: Callable[[int, int], None] = lambda *_: None,
) -> Steps[Led]:
    """Take the control topics: the writer first, so that what is read stays true. Spec: K16.

    Epochs rise even where the control topic was recreated, or has lost its end.

    Args:
        topology: The mesh.
        node: Whose control topics they are.
        home: The Kafka cluster that holds them.
        cluster_id: Of that, as its brokers report it.
        recall: Reads what they say.
        new_uuid: Makes an identity.
        known: The node's uuid and the newest epoch, as far as this worker knows.
        taken: Called with the previous epoch and the new one, as soon as that is written.

    Raises:
        TransportError: They cannot be taken now.
    """
    names = TopicNames(topology.prefix)
    own, learned_at = TopicPartition(names.control(node), 0), TopicPartition(names.learned(node), 0)
    writer, is_spare = _open_writer(home, names, node)
    try:
        yield
        is_member = topology.nodes[node].is_member
        found = restored(home.admin(), control_topics(topology, node), may_make=is_member)
        if not is_member and own.topic not in found:
            raise TransportError(_HAS_LEFT.format(node, own.topic))  # noqa: TRY301
        topic_ids = {name: info.topic_id for name, info in found.items()}
        spare = dispensable(topology, node)
        unwritable = look(home.admin(), dict.fromkeys(sorted(spare), 1), {}).unwritable(spare)
        said = recall.records(own)
        if not is_spare and was_written_by_spare(said):
            # A leader under that id must not go on either, now that the usual one is free.
            home.writer("control", names.spare_transactions(node)).close()
            said = recall.records(own)
        written = read_written(said)
        yield
        logged = TopicPartition(names.control_log(node), 0)
        is_whole = written.identity is not None
        former = Written() if is_whole else read_written(read_tail(home, logged, LOGGED))
        identity = written.identity or former.identity
        uuid = identity.uuid if identity is not None else known[0] or new_uuid()
        before = max(written.epoch, former.epoch, known[1])
        epoch = before + 1
        yield
        control = ControlWriter(
            topology,
            node,
            writer,
            lambda _: (),
            topic_ids,
            unwritable=unwritable,
            by_spare=is_spare,
        )
        control.records.begin(written.said)
        for record in said[-1:]:
            control.ends.note(record.topic(), record.offset())
        identity = identity_of(topology, node, home, cluster_id, uuid, epoch)
        control.introduce(identity)
        taken(before, epoch)
        yield
        learned = recall.records(learned_at)
    except BaseException:
        writer.close()
        raise
    return Led(
        writer,
        written,
        uuid,
        epoch,
        topic_ids,
        unwritable,
        learned,
        control.ends,
        control.records,
        by_spare=is_spare,
    )


def _open_writer(home: KafkaCluster, names: TopicNames, node: str) -> tuple[Writer, bool]:
    """Open what writes the control topics; say whether it has the spare id. Spec: K16.

    The last transaction under the usual id may wait for a partition that has no leader: until that
    is back nobody writes under that id, not even a former owner.
    """
    try:
        return home.writer("control", names.control_transactions(node), tells=True), False
    except TransportHeldError as error:
        log.warning("control.held", fault=str(error), text="the node is led under its spare id")
    return home.writer("control", names.spare_transactions(node), tells=True), True


@dataclass(slots=True)
class Leadership:
    """One worker's part in leading its node.

    Attributes:
        topology, node: The mesh, and the node it leads.
        home: The node's own Kafka cluster.
        cluster_id: Of that, as its brokers report it.
        recall: Reads what its control topic says.
        errands: Takes the control topics beside the loop.
        questions: Asks beside the loop.
        new_uuid: Makes the node's identity at its very first start.
        read_positions: Where this worker stands on each neighbour's outboxes.
        commits: Commits beside the loop.
        frozen: Receives what the node has kept of its neighbours as this worker takes the
            leadership.
        uuid: The node's identity, once it is known.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    cluster_id: str
    recall: Recall
    errands: Errands
    questions: Questions
    new_uuid: Callable[[], str]
    read_positions: ReadPositions
    frozen: FrozenNeighbours
    commits: Commits
    uuid: str | None = None
    _control: ControlWriter | None = None
    _taking: Errand[Led] | None = None
    _writes: list[Write] = field(default_factory=list)
    _pending: PendingCommit = field(default_factory=PendingCommit)
    _asked_ms: int = -RETRY_MS
    _failed_ms: int = -RETRY_MS
    _is_other: bool = False
    _failures: int = 0
    _unwritable: UnwritableTopics = field(default_factory=UnwritableTopics)
    _led_ms: int = 0
    _epoch: int = 0
    _taken: tuple[int, int] = (0, 0)

    @property
    def is_ours(self) -> bool:
        """Whether this worker leads."""
        return self._control is not None

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """Ids of the control topics as this worker took them, by name; none if it does not lead."""
        return {} if self._control is None else self._control.topic_ids

    @property
    def records(self) -> LeaderRecords:
        """What this worker writes as the leader besides its offers; empty if it does not lead."""
        return LeaderRecords() if self._control is None else self._control.records

    @property
    def incarnation(self) -> Incarnation | None:
        """The epoch under which this worker leads, None if it does not."""
        if self._control is None or self.uuid is None:
            return None
        return Incarnation(self.uuid, self._epoch, self._taken[0])

    def _take(self, before: int, epoch: int) -> None:
        """Record an epoch that this worker has written, and which one was before it."""
        first, last = self._taken
        self._taken = (first if before == last else epoch, epoch)

    @property
    def is_under_way(self) -> bool:
        """Whether the control topics are being taken, or a write waits for the end of another."""
        has_more = bool(self._writes) or self._is_other
        return self._taking is not None or (self._pending.is_any and has_more)

    def follow(self, *, is_due: bool, now_ms: int) -> Iterator[Input]:
        """Take, keep or leave the control topics; yield what changes.

        Args:
            is_due: Whether this worker is to lead.
            now_ms: The present moment.
        """
        taking = self._taking
        is_rested = now_ms - self._failed_ms >= RETRY_MS
        if is_due and taking is None and self._control is None and is_rested:
            self.questions.forget("who")
            steps = take_control(
                self.topology,
                self.node,
                self.home,
                self.cluster_id,
                self.recall,
                self.new_uuid,
                (self.uuid, self._epoch),
                self._take,
            )
            taking = self._taking = self.errands.begin(steps)
        if taking is not None:
            if not is_due and not taking.is_off:
                taking.call_off()
            if taking.has_ended():
                self._taking = None
                if not taking.is_off:
                    yield from self._end_taking(taking, now_ms)
        if not is_due:
            yield from self.stop()
            if self.uuid is None:
                self._stand_by(now_ms)

    def _end_taking(self, taking: Errand[Led], now_ms: int) -> Iterator[LeadershipTaken]:
        """Lead, or try again later: a broker may accept then what it refuses now."""
        try:
            led = taking.result()
        except TransportError as error:
            self._failed_ms = now_ms
            log.warning("node.not_led", fault=str(error))
            return
        yield self._lead(led, now_ms)

    def _lead(self, led: Led, now_ms: int) -> LeadershipTaken:
        self._unwritable.look(led.unwritable)
        self._led_ms = now_ms
        self._control = ControlWriter(
            *(self.topology, self.node, led.writer, self.read_positions, led.topic_ids),
            ends=led.ends,
            records=led.records,
            by_spare=led.by_spare,
            learned=parts_of_learned(led.learned),
        )
        self._control.unwritable = self._unwritable.now(now_ms)
        self.uuid, self._epoch, self.frozen.at_hand = led.uuid, led.epoch, led.learned
        log.info("node.leads", epoch=led.epoch)
        links = tuple(led.written.links.values())
        return LeadershipTaken(led.epoch, led.written.offers, tuple(led.written.stops), links)

    def _stand_by(self, now_ms: int) -> None:
        """Learn who the node is from what its leader wrote.

        A leader killed in the middle of a write hides only the last of it. The next leader,
        possibly this worker, ends that transaction, so nobody may wait for its end.
        """
        place = TopicPartition(TopicNames(self.topology.prefix).control(self.node), 0)
        records = self._asked(("who",), partial(self.recall.decided, place), now_ms)
        written = read_written(records or ())
        if written.identity is not None:
            self.uuid = written.identity.uuid

    def _asked(self, key: tuple[str], ask: Callable[[], T], now_ms: int) -> T | None:
        """Return the answer to a question asked beside the loop; ask at intervals until then."""
        if not self.questions.is_open(*key):
            if now_ms - self._asked_ms < RETRY_MS:
                return None
            self._asked_ms = now_ms
        try:
            return self.questions.answer(key, ask)
        except TransportError as error:
            log.warning("leader.not_told", about=key[0], fault=str(error))
            return None

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Introduce the node to the outboxes of new links; forget neighbours that have no link.

        What a node wanted does not bind another node that takes its name. Nor does it bind the node
        itself: over a link that it gets again, only what is heard there counts.
        """
        self.topology = relinked.topology
        for neighbour in [one for one in relinked.gone if one not in relinked.added]:
            self.ask(EndLearned(neighbour))
        self.questions.forget("identity")
        self._is_other, self._asked_ms = True, -RETRY_MS

    def leave_out(self, unwritable: frozenset[str], looked_ms: int) -> None:
        """Stop writing to control topics that a look found unwritable. Spec: K20.

        Args:
            unwritable: Those topics.
            looked_ms: When that look began: it says nothing about what this worker has made since.
        """
        is_news = unwritable != self._unwritable.found
        if is_news and self._control is not None and looked_ms >= self._led_ms:
            self._unwritable.look(unwritable)

    def ask(self, write: Write) -> None:
        """Request a write at the end of this turn, unless another worker leads by now."""
        if self._control is not None:
            self._writes.append(write)

    def write(self, now_ms: int) -> Iterator[Input]:
        """Write what was requested so far, one transaction after another. Spec: K23."""
        if self._pending.is_any:
            if not self._pending.is_through:
                return
            yield from self._end_write(now_ms)
        if self._control is None:
            return
        records = self._control.records
        again = records.overwritten(now_ms) if records.differing else ()
        if not (self._writes or self._is_other or again):
            return
        unwritable = self._unwritable.now(now_ms)
        if self._control.unwritable - unwritable:
            yield from self.stop()  # the next leader writes everything for that neighbour again
            return
        self._control.unwritable = unwritable
        told = self._told_of_others(now_ms) if self._is_other else None
        writes, self._writes = self._writes, []
        if told is None and not (writes or again):
            return
        if again:
            keys = ", ".join(key.decode() for key, _ in again)
            log.warning("control.foreign", what=keys, text="written again")
        try:
            self._control.write(told, writes, again)
        except TransportError as error:
            yield from self._lose(error, now_ms)
            return
        self._pending.begin(self.commits, self._control.writer.commit)
        if self._pending.is_through:
            yield from self._end_write(now_ms)

    def _end_write(self, now_ms: int) -> Iterator[Input]:
        """Take the outcome of the transaction that was begun last."""
        try:
            self._pending.end()
        except TransportError as error:
            yield from self._lose(error, now_ms)
            return
        self._failures = 0
        if self._control is not None:
            self._unwritable.took(self._control.written_to)
            if cut_off := self._control.ends.cut_off:
                log.warning("control.cut_off", topics=cut_off)
                yield from self.stop()  # the next leader writes again what is lost

    def _lose(self, error: TransportError, now_ms: int) -> Iterator[Input]:
        """Stop leading: the next leader compares what is written with what should be."""
        log.warning("control.lost", fault=str(error))
        self._fail(error, now_ms)
        yield from self.stop()

    def _fail(self, error: TransportError, now_ms: int) -> None:
        """Have the next leadership leave out what refuses, or rest after repeated failures."""
        if refusing := dispensable(self.topology, self.node).intersection(error.topics):
            self._unwritable.refuse(refusing, str(error), now_ms)
        elif self._failures > 1:
            self._failed_ms = now_ms
        self._failures += 1

    def _told_of_others(self, now_ms: int) -> Identity | None:
        """Return who this node is by its new links, once, when their topics have been looked up."""
        if self.uuid is None:
            return None
        ask = partial(
            identity_of,
            self.topology,
            self.node,
            self.home,
            self.cluster_id,
            self.uuid,
            self._epoch,
        )
        told = self._asked(("identity",), ask, now_ms)
        self._is_other = told is None
        return told

    def stop(self) -> Iterator[Input]:
        """Stop leading."""
        if self._control is not None:
            self.close()
            yield LeadershipLost()

    def close(self) -> None:
        """Release the control topics."""
        self.questions.forget("identity")
        if self._control is not None:
            self._pending.close(self._control.writer)
            self._control = None
            self._writes.clear()
