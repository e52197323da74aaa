"""Clients of the Kafka clusters of a mesh, made from its topology."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NoReturn

from mesh.config.references import resolve_options
from mesh.errors import ConfigError, Problem, TransportDeniedError
from mesh.model.topology import Topology
from mesh.transport.kafka import RealKafka
from mesh.transport.kafka.asking import DEADLINE_S
from mesh.transport.port import KafkaCluster


def open_kafka(
    topology: Topology,
    names: Iterable[str] | None = None,
    *,
    client_prefix: str = "mesh-client",
    answer_within_s: float = DEADLINE_S,
) -> Mapping[str, RealKafka]:
    """Return clients of Kafka clusters; creating them does no input or output.

    Args:
        topology: The mesh.
        names: Which ones; by default all of them.
        client_prefix: Start of the client ids that brokers show.
        answer_within_s: How long brokers may take to answer before they count as away.

    Raises:
        ConfigError: One has no address, or a secret is missing; lists all problems.
    """
    problems: list[Problem] = []
    found: dict[str, RealKafka] = {}
    for name in dict.fromkeys(topology.kafka if names is None else names):
        kafka = topology.kafka[name]
        where = f"spec.kafka.{name}"
        if kafka.is_embedded:
            message = (
                f"nobody says where it is: add bootstrap.servers, give "
                f"--bootstrap {name}=HOST:PORT, or start the mesh by `mesh up`"
            )
            problems.append(Problem(code="NO_ADDRESS", message=message, where=where))
            continue
        try:
            options = resolve_options(kafka.options, environment=os.environ, where=where)
        except ConfigError as error:
            problems += error.problems
            continue
        found[name] = RealKafka(
            name, options, client_prefix=client_prefix, answer_within_s=answer_within_s
        )
    if problems:
        raise ConfigError(problems)
    return found


class ClosedKafka:
    """A Kafka cluster that this process cannot reach: any use of it raises the reason.

    Args:
        reason: One line.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TransportDeniedError(self._reason)

    reader = writer = membership = consumer = admin = _refuse

    def close(self) -> None:
        """Release nothing."""


def open_around(topology: Topology, node: str) -> Mapping[str, KafkaCluster]:
    """Return clients for a user of one node, who needs only the secrets of its Kafka cluster.

    The others are only asked how far they know a subscription. Those whose address or secret is
    not available count as unreachable.

    Raises:
        ConfigError: The node's own Kafka cluster has no address, or a secret is missing.
    """
    home = topology.nodes[node].kafka
    found: dict[str, KafkaCluster] = dict(open_kafka(topology, [home]))
    for name in topology.kafka:
        if name not in found:
            try:
                found |= open_kafka(topology, [name])
            except ConfigError as error:
                found[name] = ClosedKafka(str(error))
    return found
