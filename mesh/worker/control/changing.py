"""How a worker follows a change of the topology, in place. Spec: K27, K28.

An operator's word stands on `mesh.config`. What a change needs is made beside the loop first:
topics of new links, clients of Kafka clusters that were not read before. Then the node's core
takes it, and the moment that its routing changes every part of the worker takes the new links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from mesh.config.published import (
    differ_in_addresses_at_most,
    published_text,
    published_topology,
)
from mesh.core.links import first_lineage
from mesh.errors import MeshError, ProtocolError, StartError, TransportUnreadableError
from mesh.lane.kept import is_newer
from mesh.model.control import UNKNOWN_LINEAGE, Change, Lineage, Stage
from mesh.model.effects import Relinked
from mesh.model.inputs import ChangeRead
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.node.relinking import link_changes, with_node
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Admin, KafkaCluster, Reader, Record
from mesh.wire.control import decode_change, decode_config
from mesh.wire.keys import change_key, config_key
from mesh.worker.process.errands import Errand, Errands, Steps
from mesh.worker.process.intake import Intake
from mesh.worker.topics.provision import MAKE_MS

RETRY_MS = 1_000
"""How often what a change needs is tried to be made again."""

FOLLOWED = (Stage.SWITCH, Stage.RUN)
"""Stages in which the target is in force at the nodes."""

Connect = Callable[[Topology, str], tuple[KafkaCluster, Reader]]
"""Opens a Kafka cluster of a topology by its name: for everything, and for what is read of it."""

log = structlog.get_logger()


class Part(Protocol):
    """A part of the worker that knows the topology."""

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Have the links of another topology from now on."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a node starts with.

    Attributes:
        topology: What it works by.
        number: Of that; -1 if there was no record and its file stands for it.
        change: The newest word on a change, or None.
        awaited: Neighbours whom that change has wait for one another, if it is under way just then.
        lineage: Of the topology.
    """

    topology: Topology
    number: int = -1
    change: Change | None = None
    awaited: Sequence[str] = ()
    lineage: Lineage = UNKNOWN_LINEAGE


def read_start(file: Topology, node: str, records: Iterable[Record]) -> Start:
    """Return what a node works by: what is in force if somebody wrote that, else its file.

    Args:
        file: What its file says.
        node: Who starts.
        records: All of `mesh.config` on the node's own Kafka cluster.

    Raises:
        ConfigError: What is in force is not known to this version.
        TransportUnreadableError: A record hides what is in force: nobody may guess that.
    """
    change: Change | None = None
    before: tuple[int, str] | None = None
    texts: dict[int, tuple[str, Lineage]] = {}
    hiding: dict[bytes, tuple[Record, ProtocolError]] = {}
    for record in records:
        key, value = record.key() or b"", record.value()
        if value is None or key not in (config_key(), change_key()):
            continue
        try:
            if key == config_key():
                config = decode_config(value)
                written = (config.topology, config.lineage)
                texts[config.number] = max(written, texts.get(config.number, written))
            else:
                change = newest(change, decode_change(value))
        except ProtocolError as error:
            is_known = bool(texts) if key == config_key() else change is not None
            if not is_known or is_newer(value, error):
                hiding[key] = record, error
            log.warning("config.unreadable", offset=record.offset(), fault=str(error))
        else:
            hiding.pop(key, None)
    for record, fault in hiding.values():
        raise TransportUnreadableError(
            f"{record.topic()} offset {record.offset()}: {fault}; nobody knows which topology is "
            "in force: look who writes there besides `mesh`; after a record with this key and no "
            "value nodes go by their files",
            offset=record.offset(),
        )
    if texts:
        highest = max(texts)
        before = highest, texts[highest][0]
    if change is not None and change.stage in FOLLOWED:
        texts.setdefault(change.number, (change.topology, change.lineage))
    if not texts:
        return Start(file, change=change, lineage=first_lineage(file))
    number = max(texts)
    topology, (text, lineage) = file, texts[number]
    if text != published_text(file):
        in_force = published_topology(text)
        topology = with_node(in_force, node, _as_made(file, node, in_force))
        if not differ_in_addresses_at_most(in_force, file):
            log.warning(
                "topology.differs", in_force=number, text="the node's file says something else"
            )
    return Start(topology, number, change, _awaited(before, change, topology, node), lineage)


def _as_made(file: Topology, node: str, in_force: Topology) -> Topology:
    """Return a node's file with what it was made with, which no file can change. Spec: K2, K14."""
    declared = in_force.nodes.get(node, file.nodes[node])
    made = replace(file.nodes[node], lanes=declared.lanes, partitions=declared.partitions)
    return replace(file, nodes={**file.nodes, node: made})


def _awaited(
    before: tuple[int, str] | None, change: Change | None, topology: Topology, node: str
) -> Sequence[str]:
    """Return the neighbours whom a change that nodes just follow has wait for one another.

    Once the target is published as what is in force, every node that had to be there has been
    linked: nobody is waited for again.
    """
    if change is None or change.stage is not Stage.SWITCH:
        return ()
    if before is None:
        return topology.neighbours(node)  # nobody knows what was in force
    if before[0] >= change.number:
        return ()
    return link_changes(
        with_node(published_topology(before[1]), node, topology), topology, node
    ).awaited


def newest(known: Change | None, read: Change) -> Change:
    """Return the later of two words."""
    if known is None:
        return read
    return max(known, read, key=lambda one: one.version)


@dataclass(slots=True)
class Prepared:
    """What a change needed.

    Attributes:
        topology: The target.
        opened: Kafka clusters that this worker did not know before.
    """

    topology: Topology
    opened: dict[str, tuple[KafkaCluster, Reader]] = field(default_factory=dict)

    def close(self) -> None:
        """Release what was opened for nothing."""
        for _, reader in self.opened.values():
            reader.close()


@dataclass(slots=True)
class Changing:
    """Follows changes of the topology for one worker.

    Attributes:
        node: Whom it serves.
        start: What it started with.
        kafka, admins, readers, intake: What is known of each Kafka cluster, and grows.
        errands: Makes beside the loop what a change needs.
        connect: Opens others; None if there are no others.
        parts: What takes other links with the routing.
        topology: What this worker works by.
        told: The newest word that its node was told.
    """

    node: str
    start: Start
    kafka: dict[str, KafkaCluster]
    admins: dict[str, Admin]
    readers: dict[str, Reader]
    intake: Intake
    errands: Errands
    connect: Connect | None
    parts: list[Part] = field(default_factory=list)
    topology: Topology = field(init=False)
    told: Change | None = field(init=False)
    _number: int = field(init=False)
    _lineage: Lineage = field(init=False)
    _preparing: Errand[Prepared] | None = None
    _prepared_for: Change | None = None
    _ready: Prepared | None = None
    _tried_ms: int = -RETRY_MS

    def __post_init__(self) -> None:
        """Begin with what was in force at the start."""
        self.topology = self.start.topology
        self.told, self._number = self.start.change, self.start.number
        self._lineage = self.start.lineage
        for name in self._missing(self.topology):
            self._add(name, *self._open(self.topology, name))

    def new_machine(self, uuid: str, cluster_id: str) -> NodeMachine:
        """Return a machine that knows of the change that is under way."""
        told = self.told
        change = None if told is None else (told.number, told.stage)
        awaited = self.start.awaited if told == self.start.change else ()
        return NodeMachine(
            self.topology,
            self.node,
            uuid,
            cluster_id=cluster_id,
            patience_ms=MAKE_MS,
            number=self._number,
            lineage=self._lineage,
            change=change,
            awaited=awaited,
        )

    def is_held(self, change: Change | None) -> bool:
        """Return whether the node takes nothing of its own clients. Spec: K28."""
        known = self.told if change is None else change
        return (
            known is not None
            and known.stage in (Stage.HOLD, Stage.SWITCH)
            and self.node in known.holding
        )

    def follow(self, word: Callable[[int], Change | None], now_ms: int) -> Iterator[ChangeRead]:
        """Hand the node the next stage, once what it needs is made.

        Args:
            word: Asked with the number of the topology that the node was told to follow.
            now_ms: Clock.
        """
        if self._preparing is not None:
            yield from self._end_preparing(self._preparing, now_ms)
        change = word(self._number)
        if change is None or self._preparing is not None:
            return
        if self.told is not None and change.version <= self.told.version:
            return
        if change.stage not in FOLLOWED or change.number <= self._number:
            yield self._tell(change, None)
            self._get_ready(change, now_ms)
        elif (ready := self._ready_for(change)) is not None:
            yield from self._take(change, ready)
        elif change != self._prepared_for or now_ms - self._tried_ms >= RETRY_MS:
            self._tried_ms = now_ms
            self._prepared_for = change
            self._preparing = self.errands.begin(self._prepare(change))

    def _tell(self, change: Change, target: Topology | None) -> ChangeRead:
        self.told = change
        log.info("change.read", number=change.number, stage=str(change.stage))
        return ChangeRead(change.number, change.stage, target, change.lineage)

    def _end_preparing(self, errand: Errand[Prepared], now_ms: int) -> Iterator[ChangeRead]:
        if not errand.has_ended():
            return
        self._preparing = None
        change = self._prepared_for
        try:
            prepared = errand.result()
        except MeshError as error:
            self._tried_ms = now_ms
            log.error("change.not_prepared", fault=str(error))  # noqa: TRY400 - one line for people
            return
        if change is not None and change.stage is Stage.HOLD:
            self._ready = prepared
        elif change is not None:
            yield from self._take(change, prepared)

    def _get_ready(self, change: Change, now_ms: int) -> None:
        """Make while others drain what the next stage needs; give it back if there is none."""
        if self._ready is not None:
            self._ready.close()
            self._ready = None
        if change.stage is Stage.HOLD and change.number > self._number:
            self._tried_ms, self._prepared_for = now_ms, change
            self._preparing = self.errands.begin(self._prepare(change))

    def _ready_for(self, change: Change) -> Prepared | None:
        """Return what was made for a change, once; what was made for another is given back."""
        ready, self._ready = self._ready, None
        made_for = self._prepared_for
        if ready is None or made_for is None:
            return None
        if (made_for.number, made_for.topology) == (change.number, change.topology):
            return ready
        ready.close()
        return None

    def _take(self, change: Change, prepared: Prepared) -> Iterator[ChangeRead]:
        for name, opened in prepared.opened.items():
            self._add(name, *opened)
        self._number, self._lineage = change.number, change.lineage
        yield self._tell(change, prepared.topology)

    def _prepare(self, change: Change) -> Steps[Prepared]:
        """Make the topics of new links, and open what they are read from.

        Raises:
            MeshError: It cannot be done now.
        """
        target = with_node(published_topology(change.topology), self.node, self.topology)
        prepared = Prepared(target)
        try:
            for name in self._missing(target):
                prepared.opened[name] = self._open(target, name)
                yield
            known = {topic.name for topic in node_topics(self.topology, self.node)}
            wanted = node_topics(target, self.node)
            home = self.kafka[self.topology.nodes[self.node].kafka]
            home.admin().create([topic for topic in wanted if topic.name not in known])
            yield
        except BaseException:
            prepared.close()
            raise
        return prepared

    def _missing(self, topology: Topology) -> Sequence[str]:
        names = {topology.nodes[name].kafka: None for name in topology.neighbours(self.node)}
        return [name for name in names if name not in self.kafka]

    def _open(self, topology: Topology, name: str) -> tuple[KafkaCluster, Reader]:
        if self.connect is None:
            raise StartError(f"Kafka cluster {name} is not known here")
        return self.connect(topology, name)

    def _add(self, name: str, kafka: KafkaCluster, reader: Reader) -> None:
        self.kafka[name], self.admins[name] = kafka, kafka.admin()
        self.intake.add(name, reader)
        self.readers[name] = reader

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Have every part of the worker take other links, between two records."""
        self.topology = relinked.topology
        log.warning("topology.changed", gone=relinked.gone, added=relinked.added)
        for part in self.parts:
            part.relink(relinked, now_ms)
