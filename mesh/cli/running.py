"""The topology that a running mesh works by. A file or context only says how to reach it.

Spec: kafka.md 1 (`mesh.config`), K27.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mesh.cli.target import check_addresses, quiet_client_library, say, target_of

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.in_force import InForce, Records
    from mesh.transport.port import KafkaCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A mesh that a command speaks to.

    Attributes:
        found: What is in force; None where nobody has written that.
        plain: The topology as the file says it, without addresses.
        topology: What is in force, else what the file says, with every address that is known.
        silent: Kafka clusters that do not answer, with the reason.
    """

    found: InForce | None
    plain: Topology
    topology: Topology
    silent: Mapping[str, str]


def running_mesh(
    file: Path | None,
    bootstrap: list[str] | None,
    context: str | None,
    *,
    near: str | None = None,
    needs_kafka: bool = True,
) -> Running:
    """Return the mesh that a command speaks to, as `mesh.config` describes it.

    Args:
        file: Option of the command.
        bootstrap: Option of the command.
        context: Option of the command.
        near: A node whose Kafka cluster alone is asked: whoever publishes there needs no other.
        needs_kafka: Whether there is nothing to tell without a single Kafka cluster; if not, the
            file stands for what cannot be read.

    Raises:
        ConfigError: There is no mesh, an option is wrong, or a newer version wrote the record.
        TransportUnavailableError: Not one Kafka cluster answers.
    """
    from mesh.errors import ConfigError, ProtocolError, TransportUnavailableError
    from mesh.model.topology import with_addresses
    from mesh.operate.in_force import highest_of
    from mesh.view.connection import open_kafka

    plain, addresses = target_of(file, bootstrap, context, knows_all=False)
    known = with_addresses(plain, addresses)
    home = known.nodes.get(near or "")
    names = list(known.kafka) if home is None else [home.kafka]
    quiet_client_library()
    kafka = open_kafka(known, names, client_prefix="mesh-cli")
    found: InForce | None = None
    silent: Mapping[str, str] = {}
    try:
        records = _read_side_by_side(kafka, known.prefix)
        silent = records.silent
        found = highest_of(records)
    except (ConfigError, ProtocolError, TransportUnavailableError) as error:
        if needs_kafka:
            raise
        say(f"warning: the topology file stands for what is in force: {error}")
    finally:
        for cluster in kafka.values():
            cluster.close()
    topology = known if found is None else reachable(found.topology, known, addresses)
    check_addresses(bootstrap, topology)
    return Running(found=found, plain=plain, topology=topology, silent=silent)


def running_topology(
    file: Path | None, bootstrap: list[str] | None, context: str | None, *, near: str
) -> Topology:
    """Return the topology in force for a client of one node, with addresses.

    Raises:
        ConfigError: As for `running_mesh`.
        TransportUnavailableError: The node's Kafka cluster does not answer.
    """
    return running_mesh(file, bootstrap, context, near=near).topology


def _read_side_by_side(kafka: Mapping[str, KafkaCluster], prefix: str) -> Records:
    """Return the records of all Kafka clusters; several dead ones are waited for but once.

    Whoever may publish but not read `mesh.config` finds no record and goes by the file.

    Raises:
        TransportUnavailableError: Not one answers.
        ProtocolError: A record was written by a newer version.
    """
    from mesh.errors import TransportUnavailableError
    from mesh.operate.in_force import Records, read_records

    with ThreadPoolExecutor(max_workers=max(1, len(kafka))) as pool:
        asked = [pool.submit(read_records, {name: one}, prefix) for name, one in kafka.items()]
        parts = [one.result() for one in asked]
    silent = {name: fault for part in parts for name, fault in part.silent.items()}
    denied = [name for part in parts for name in part.denied]
    if silent and len(silent) == len(kafka) and len(denied) < len(silent):
        raise TransportUnavailableError(next(iter(silent.values())))
    return Records(
        found={name: record for part in parts for name, record in part.found.items()},
        silent=silent,
        denied=denied,
    )


def reachable(found: Topology, known: Topology, addresses: Mapping[str, str]) -> Topology:
    """Return what is in force with the ways to its Kafka clusters that the file knows."""
    from mesh.model.topology import with_addresses

    kafka = {name: known.kafka.get(name, one) for name, one in found.kafka.items()}
    return with_addresses(replace(found, kafka=kafka), addresses)
