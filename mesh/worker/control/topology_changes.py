"""How a worker follows a change of the topology, in place. Spec: K27, K28.

An operator's word is on `mesh.config`. What a change needs is prepared beside the loop first:
topics of new links, clients of Kafka clusters that were not read before. Then the node's core
takes it, and the moment its routing changes every part of the worker switches to the new links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from mesh.config.published import published_topology
from mesh.errors import MeshError, StartError
from mesh.model.control import Change, Lineage, Stage
from mesh.model.effects import Relinked
from mesh.model.inputs import ChangeRead
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.node.relinking import with_node
from mesh.transport.node_topics import node_topics
from mesh.transport.port import Admin, KafkaCluster, Reader
from mesh.worker.control.topology_start import TopologyStart
from mesh.worker.process.errands import Errand, Errands, Steps
from mesh.worker.process.intake import Intake
from mesh.worker.topics.provision import MAKE_MS

RETRY_MS = 1_000
"""How often to retry the preparation of a change."""

Connect = Callable[[Topology, str], tuple[KafkaCluster, Reader]]
"""Opens a Kafka cluster of a topology by its name: for everything, and for what is read of it."""

log = structlog.get_logger()


class Relinkable(Protocol):
    """A part of the worker that knows the topology."""

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to the links of another topology."""


@dataclass(slots=True)
class Prepared:
    """What was prepared for a change.

    Attributes:
        topology: The target.
        opened: Kafka clusters that this worker did not know before.
    """

    topology: Topology
    opened: dict[str, tuple[KafkaCluster, Reader]] = field(default_factory=dict)

    def close(self) -> None:
        """Release what was opened: it is not needed after all."""
        for _, reader in self.opened.values():
            reader.close()


@dataclass(slots=True)
class TopologyChanges:
    """Follows changes of the topology for one worker.

    Attributes:
        node: The node it serves.
        start: What it started with.
        kafka, admins, readers, intake: What is known of each Kafka cluster; these grow.
        errands: Prepares changes beside the loop.
        connect: Opens further Kafka clusters; None if there are none.
        parts: The parts that switch links together with the routing.
        topology: What this worker works by.
        told: The newest stage that its node was notified of.
    """

    node: str
    start: TopologyStart
    kafka: dict[str, KafkaCluster]
    admins: dict[str, Admin]
    readers: dict[str, Reader]
    intake: Intake
    errands: Errands
    connect: Connect | None
    parts: list[Relinkable] = field(default_factory=list)
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
        """Return a machine that knows the change under way."""
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
        """Return whether the node takes nothing from its own clients. Spec: K28."""
        known = self.told if change is None else change
        return known is not None and known.stage.holds_sources and self.node in known.holding

    def follow(self, word: Callable[[int], Change | None], now_ms: int) -> Iterator[ChangeRead]:
        """Hand the node the next stage, once what it needs is prepared.

        Args:
            word: Returns the next word, given the number of the topology that the node follows.
            now_ms: Clock.
        """
        if self._preparing is not None:
            yield from self._end_preparing(self._preparing, now_ms)
        change = word(self._number)
        if change is None or self._preparing is not None:
            return
        is_brought = change.stage.has_switched and change.number > self._number
        is_told = self.told is not None and change.version <= self.told.version
        if is_told and not is_brought:
            return
        if not is_brought:
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
        """Prepare the next stage while others drain; release it if there is no next stage."""
        if self._ready is not None:
            self._ready.close()
            self._ready = None
        if change.stage is Stage.HOLD and change.number > self._number:
            self._tried_ms, self._prepared_for = now_ms, change
            self._preparing = self.errands.begin(self._prepare(change))

    def _ready_for(self, change: Change) -> Prepared | None:
        """Return what was prepared for a change, once; release what was prepared for another."""
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
            MeshError: That is not possible now.
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
        """Have every part of the worker switch to other links, between two records."""
        self.topology = relinked.topology
        log.warning("topology.changed", gone=relinked.gone, added=relinked.added)
        for part in self.parts:
            part.relink(relinked, now_ms)
