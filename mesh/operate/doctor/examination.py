"""What the checks look at: requested once each, however many checks need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from mesh.core.endpoints import forms_in_force
from mesh.errors import TransportError, TransportUnavailableError
from mesh.model.frames import MessageClass
from mesh.operate.links.flows import LinkFlow, link_flows
from mesh.operate.questions import side_by_side
from mesh.transport.node_topics import endpoint_topic, node_topics
from mesh.transport.port import Copies, KafkaCluster, Rights, TopicInfo, TopicPartition, TopicSpec
from mesh.view.lane_reports import LaneReports
from mesh.view.mesh_view import RunningMesh

LOOK_S = 2.0
"""Time between the two looks that distinguish standing still from moving."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Where everything stood at one moment; Kafka clusters that did not answer are left out.

    Attributes:
        positions: Next offset of each source, by node and partition.
        starts, ends, stable: First offsets, high watermarks and last stable offsets.
        flows: Both directions of every link.
    """

    positions: Mapping[str, Mapping[TopicPartition, int]]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    flows: Sequence[LinkFlow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination(RunningMesh):
    """What the checks look at; its beats are those during the examination.

    Attributes:
        wall_ms: This machine's clock, ms since 1970; None: clocks are not compared.
        patience_s: Time between the two looks that distinguish standing still from moving.
        is_before_start: Whether no node needs to run yet, and rights are those of the nodes.
    """

    wall_ms: Callable[[], int] | None = None
    patience_s: float = LOOK_S
    is_before_start: bool = False
    _known: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False)

    def nodes_on(self, kafka: str) -> Sequence[str]:
        """Return the nodes of a Kafka cluster."""
        return [name for name, node in self.topology.nodes.items() if node.kafka == kafka]

    def topics_of(self, node: str) -> Sequence[TopicSpec]:
        """Return the topics of a node, including its endpoints'."""
        return [*self.node_topics(node), *self.endpoint_topics(node)]

    def node_topics(self, node: str) -> Sequence[TopicSpec]:
        """Return the topics that a node should have, whoever subscribes."""
        return self._made("node topics", node, lambda: node_topics(self.topology, node))

    def endpoint_topics(self, node: str) -> Sequence[TopicSpec]:
        """Return the topics of a node's endpoints, which come with their subscriptions."""

        def made() -> Sequence[TopicSpec]:
            forms = forms_in_force(self.view.nodes[node].subscriptions)
            return [
                endpoint_topic(self.topology, node, endpoint, form.message_class)
                for endpoint, form in forms.items()
            ]

        return self._made("endpoint topics", node, made)

    def _made(
        self, what: str, node: str, make: Callable[[], Sequence[TopicSpec]]
    ) -> Sequence[TopicSpec]:
        if (what, node) not in self._known:
            self._known[what, node] = make()
        found: Sequence[TopicSpec] = self._known[what, node]
        return found

    def servers(self, kafka: str) -> str:
        """Return the bootstrap servers of a Kafka cluster, in the form that commands take."""
        return self.topology.kafka[kafka].options.get("bootstrap.servers", "HOST:PORT")

    def answering(self, kafka: str) -> KafkaCluster:
        """Return a Kafka cluster that answers: a silent one costs its timeout only once.

        Raises:
            TransportUnavailableError: No broker answers.
        """
        if ("silent", kafka) not in self._known:
            silent = self.view.unreachable.get(kafka, "")
            if not silent:
                try:
                    self.kafka[kafka].admin().cluster_id()
                except TransportUnavailableError as fault:
                    silent = str(fault)
            self._known["silent", kafka] = silent
        if self._known["silent", kafka]:
            raise TransportUnavailableError(self._known["silent", kafka])
        return self.kafka[kafka]

    def _all_answering(self) -> Mapping[str, KafkaCluster]:
        found: dict[str, KafkaCluster] = {}
        for name in self.kafka:
            try:
                found[name] = self.answering(name)
            except TransportUnavailableError:
                continue  # reported by the checks of kafka
        return found

    def infos(self, kafka: str) -> Mapping[str, TopicInfo]:
        """Return the existing mesh topics of a Kafka cluster. May raise TransportError."""
        return self._once("infos", kafka, lambda admin, names: admin.describe(names))

    def settings(self, kafka: str) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of its mesh topics. May raise TransportError."""
        return self._once("settings", kafka, lambda admin, names: admin.settings(names))

    def copies(self, kafka: str) -> Mapping[TopicPartition, Copies]:
        """Return the copies of its mesh topics. May raise TransportError."""
        return self._once("copies", kafka, lambda admin, names: admin.copies(names))

    def rights(self, kafka: str) -> Mapping[str, Rights]:
        """Return what we may do with its mesh topics. May raise TransportError."""
        return self._once("rights", kafka, lambda admin, names: admin.rights(names))

    def group_rights(self, kafka: str) -> Mapping[str, Rights]:
        """Return what we may do with the groups of its nodes. May raise TransportError."""
        groups = [self.topology.names.lanes_group(n) for n in self.nodes_on(kafka)]
        return self._once("group rights", kafka, lambda admin, _: admin.group_rights(groups))

    def brokers(self, kafka: str) -> Sequence[int]:
        """Return the numbers of its running brokers. May raise TransportError."""
        return self._once("brokers", kafka, lambda admin, _: admin.brokers())

    def _once(self, what: str, kafka: str, ask: Callable[[Any, list[str]], _T]) -> _T:
        """Ask once; raise the same error again without asking."""
        key = (what, kafka)
        if key not in self._known:
            names = [spec.name for node in self.nodes_on(kafka) for spec in self.topics_of(node)]
            try:
                self._known[key] = ask(self.answering(kafka).admin(), names)
            except TransportError as fault:
                self._known[key] = fault
        found: _T | TransportError = self._known[key]
        if isinstance(found, TransportError):
            raise found
        return found

    def forget(self) -> None:
        """Request everything again from now on: something was changed."""
        self._known.clear()

    def reports(self) -> LaneReports:
        """Return what the nodes' progress topics say, read to their ends at least once."""
        if ("progress", "") not in self._known:
            self._known["progress", ""] = LaneReports(self.topology, self._all_answering())
            self._known["progress", ""].read()
        found: LaneReports = self._known["progress", ""]
        return found

    def moments(self) -> tuple[Moment, Moment]:
        """Return two looks, `patience_s` apart; the same twice if nothing waits or is hidden."""
        if ("moments", "") not in self._known:
            before = after = self._moment()
            if self._is_busy(before):
                self.time.pause(self.patience_s)
                self.view.refresh()
                self.reports().read()
                after = self._moment()
            self._known["moments", ""] = (before, after)
        found: tuple[Moment, Moment] = self._known["moments", ""]
        return found

    def _moment(self) -> Moment:
        # Positions first: a later end is never below an honest position.
        positions = {node: dict(self.reports().positions(node)) for node in self.topology.nodes}
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        stable: dict[TopicPartition, int] = {}
        answering = self._all_answering()
        asked = [(kafka, list(self._places(name))) for name, kafka in answering.items()]
        for found in side_by_side(_offsets, asked):
            starts |= found[0]
            ends |= found[1]
            stable |= found[2]
        flows = link_flows(self.asking(answering))
        return Moment(positions=positions, starts=starts, ends=ends, stable=stable, flows=flows)

    def _is_busy(self, moment: Moment) -> bool:
        """Return whether a second look could show anything."""
        return (
            any(offset < moment.ends.get(at, 0) for at, offset in moment.stable.items())
            or any(flow.backlog_frames for flow in moment.flows)
            or any(sum(self.waiting(node, moment).values()) for node in self.topology.nodes)
        )

    def waiting(self, node: str, moment: Moment) -> Mapping[TopicPartition, int]:
        """Return the offsets of each ingress partition that a node has not passed.

        The rest may be the marker of a client's transaction, which no position passes.
        """
        positions = moment.positions[node]
        count = self.topology.nodes[node].partitions
        return {
            at: max(0, moment.stable[at] - max(positions.get(at, 0), moment.starts.get(at, 0)))
            for message_class in MessageClass
            for at in TopicPartition.all_of(self.topology.names.ingress(node, message_class), count)
            if at in moment.stable
        }

    def lane_places(self, topics: Mapping[str, str]) -> Sequence[TopicPartition]:
        """Return the partitions of topics in which these nodes' lanes report about themselves."""
        nodes = self.topology.nodes
        found = (TopicPartition.all_of(t, nodes[n].lane_partitions) for t, n in topics.items())
        return list(chain.from_iterable(found))

    def _places(self, kafka: str) -> Iterator[TopicPartition]:
        for node in self.nodes_on(kafka):
            for spec in self.topics_of(node):
                yield from TopicPartition.all_of(spec.name, spec.partitions)


def _offsets(
    asked: tuple[KafkaCluster, Sequence[TopicPartition]],
) -> Sequence[Mapping[TopicPartition, int]]:
    """Return where partitions begin, end, and end for readers; nothing if nobody answers."""
    admin, places = asked[0].admin(), asked[1]
    try:
        # Stable offsets last: what was committed meanwhile does not count as hidden.
        return [ask(places) for ask in (admin.starts, admin.ends, admin.stable_ends)]
    except TransportError:
        return [{}, {}, {}]  # reported by the checks of kafka
