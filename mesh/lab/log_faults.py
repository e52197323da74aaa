"""Faults of logs: what a broker lost, deleted or recreated. Spec: reliability.md 5, rows 23-30."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import InvariantError, TransportDeniedError
from mesh.lab.backend import Backend
from mesh.lab.step_rules import owner_of
from mesh.lab.steps import DeleteRecords, RecreateTopic, Truncate
from mesh.lab.tally import Tally
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.node_topics import endpoint_topic, node_topics
from mesh.transport.port import TopicPartition, TopicSpec

EndpointClasses = Mapping[str, MessageClass]
"""Class of each endpoint, `node/name`."""


def run_log_fault(
    step: Truncate | DeleteRecords | RecreateTopic,
    topology: Topology,
    backend: Backend,
    tally: Tally,
    classes: EndpointClasses,
) -> Mapping[str, object]:
    """Run one such step; the tally goes on with what the log holds afterwards.

    Args:
        step: Which log loses what.
        topology: The mesh now.
        backend: Where it runs.
        tally: What was published and came so far.
        classes: The class of each endpoint.

    Returns:
        What the result of the step tells.

    Raises:
        TransportError: Kafka refused.
        StartError: The broker's files or the broker itself did not do.
    """
    node = owner_of(step.topic, topology)
    if node is None:
        raise InvariantError(f"{step.topic} is not a data topic")
    kafka = topology.nodes[node].kafka
    tally.refresh()
    match step:
        case Truncate():
            place = TopicPartition(step.topic, step.partition)
            end = backend.truncate(place, kafka, step.records)
            tally.read_again({place: end})
            return {"end": end}
        case DeleteRecords():
            _refuse_absent(step.topic, backend, kafka)
            place = TopicPartition(step.topic, step.partition)
            backend.kafka[kafka].admin().delete_before({place: step.before})
            return {}
        case RecreateTopic():
            _refuse_absent(step.topic, backend, kafka)
            spec = _spec_of(step.topic, topology, node, classes)
            backend.delete_topic(step.topic, kafka)
            backend.kafka[kafka].admin().create([spec])
            places = TopicPartition.all_of(step.topic, spec.partitions)
            tally.read_again(dict.fromkeys(places, 0))
            return {}


def _refuse_absent(topic: str, backend: Backend, kafka: str) -> None:
    """Refuse a topic that is not there yet: an endpoint's is made for its first subscription."""
    if topic not in backend.kafka[kafka].admin().describe([topic]):
        raise TransportDeniedError(f"Kafka cluster {kafka}: there is no topic {topic} yet")


def _spec_of(topic: str, topology: Topology, node: str, classes: EndpointClasses) -> TopicSpec:
    for spec in node_topics(topology, node):
        if spec.name == topic:
            return spec
    endpoint = topology.names.endpoint_of(node, topic)
    message_class = classes.get(f"{node}/{endpoint}", MessageClass.GUARANTEED)
    return endpoint_topic(topology, node, endpoint, message_class)
