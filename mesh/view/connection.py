"""Clients of the Kafka clusters of a mesh, made from its topology."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from mesh.config.references import resolve_options
from mesh.errors import ConfigError, Problem
from mesh.model.topology import Topology
from mesh.transport.kafka import RealKafka


def open_kafka(
    topology: Topology, names: Iterable[str] | None = None, *, client_prefix: str = "mesh-client"
) -> Mapping[str, RealKafka]:
    """Return clients of Kafka clusters; making them does no input or output.

    Args:
        topology: The mesh.
        names: Which ones; all of them if left out.
        client_prefix: Begins the client ids that brokers show.

    Raises:
        ConfigError: One has no address, or a secret cannot be had; lists all problems.
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
        found[name] = RealKafka(name, options, client_prefix=client_prefix)
    if problems:
        raise ConfigError(problems)
    return found
