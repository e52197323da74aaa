"""The topology in force: a numbered record on `mesh.config` of every Kafka cluster.

Written when a mesh is started or changed; the highest number wins. Spec: kafka.md 1, K24, K27.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from mesh.config.published import document_hash, published_document, published_topology
from mesh.core.lineage import first_lineage, lineage_after
from mesh.errors import TransportDeniedError, TransportError, TransportUnavailableError
from mesh.model.control import Change, Lineage
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.view.mesh_view import MeshView
from mesh.wire.control import Config, decode_change, decode_config
from mesh.wire.keys import change_key, config_key

SHORT_HASH = 12
"""Digits of a hash that are shown to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyInForce:
    """A topology as it is known to be in force.

    Attributes:
        number: Version of the record, from 1; 0 if there is none and a file stands in.
        topology: Its content; Kafka clusters have no secrets, and no addresses that no file named.
        lineage: What it has from its predecessors; None if there is no record.
    """

    number: int
    topology: Topology
    lineage: Lineage | None = None

    @property
    def document(self) -> Mapping[str, object]:
        """The topology as a file."""
        return published_document(self.topology)

    def lineage_of(self, after: Topology, number: int) -> Lineage:
        """Return the lineage of a topology that follows this one under a number. Spec: K10."""
        lineage = self.lineage or first_lineage(self.topology)
        return lineage_after(lineage, self.topology, self.number, after, number)

    @property
    def hash(self) -> str:
        """Name of that document."""
        return document_hash(self.document)

    @property
    def label(self) -> str:
        """Which topology it is, for people."""
        if not self.number:
            return f"{self.topology.name} as its file says it"
        return f"{self.topology.name}, version {self.number} ({self.hash[:SHORT_HASH]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What `mesh.config` says on each Kafka cluster.

    Attributes:
        found: The record by Kafka cluster; those without one are left out.
        silent: Kafka clusters that do not answer, with the reason.
        denied: Those of them that deny us reading it.
    """

    found: Mapping[str, Config]
    silent: Mapping[str, str]
    denied: Sequence[str] = ()

    @property
    def highest(self) -> Config | None:
        """The record in force; of equal numbers, which only two concurrent writers create, one."""
        return max(self.found.values(), default=None)


def read_records(
    kafka: Mapping[str, KafkaCluster], prefix: str, executor: Executor | None = None
) -> Records:
    """Read the topology record of every Kafka cluster that answers.

    Args:
        kafka: The Kafka clusters.
        prefix: Prefix of topics.
        executor: Reads them in parallel, so that several dead ones cost only one wait.

    Raises:
        ProtocolError: One was written by a newer version.
    """

    def look(cluster: KafkaCluster) -> Config | TransportError | None:
        try:
            return record_of(cluster, prefix)
        except TransportError as error:
            return error

    clusters = kafka.values()
    looked = map(look, clusters) if executor is None else executor.map(look, clusters)
    seen = dict(zip(kafka, looked, strict=True))
    failed = {name: one for name, one in seen.items() if isinstance(one, TransportError)}
    return Records(
        found={name: one for name, one in seen.items() if isinstance(one, Config)},
        silent={name: str(error) for name, error in failed.items()},
        denied=[name for name, one in failed.items() if isinstance(one, TransportDeniedError)],
    )


def records_seen(view: MeshView) -> Records:
    """Return the topology records that a view has read.

    Raises:
        ProtocolError: One was written by a newer version.
    """
    found = {name: max(map(decode_config, values)) for name, values in view.in_force.items()}
    return Records(found=found, silent=view.unreachable)


def read_in_force(
    kafka: Mapping[str, KafkaCluster], prefix: str
) -> tuple[TopologyInForce | None, Records]:
    """Return the topology in force, or None where no record was ever written, and all records.

    Raises:
        TransportUnavailableError: Not one Kafka cluster answers.
        ProtocolError: A record was written by a newer version.
        ConfigError: What is in force is not known to this version.
    """
    records = read_records(kafka, prefix)
    if records.silent and len(records.silent) == len(kafka):
        raise TransportUnavailableError(next(iter(records.silent.values())))
    return highest_of(records), records


def highest_of(records: Records) -> TopologyInForce | None:
    """Return the topology in force by these records, or None without any.

    Raises:
        ConfigError: It is not known to this version.
    """
    if records.highest is None:
        return None
    number, text, lineage = records.highest
    return TopologyInForce(number=number, topology=published_topology(text), lineage=lineage)


def record_of(cluster: KafkaCluster, prefix: str) -> Config | None:
    """Return the record of the topology in force on one Kafka cluster, or None without any.

    Raises:
        TransportError: It does not answer.
        ProtocolError: A newer version wrote a record.
    """
    found = (decode_config(value) for value in config_values(cluster, prefix, config_key()))
    return max(found, default=None)


def newest_change(cluster: KafkaCluster, prefix: str) -> Change | None:
    """Return the newest record of a change on one Kafka cluster, or None without any.

    Raises:
        TransportError: It does not answer.
        ProtocolError: A newer version wrote a record.
    """
    return Change.newest(map(decode_change, config_values(cluster, prefix, change_key())))


def config_values(cluster: KafkaCluster, prefix: str, key: bytes) -> Iterator[bytes]:
    """Yield what `mesh.config` of a Kafka cluster holds under a key, oldest first.

    Raises:
        TransportError: It does not answer.
    """
    place = TopicPartition(TopicNames(prefix).config(), 0)
    for record in read_logs(cluster, [place], name="config"):
        value = record.value()
        if record.key() == key and value is not None:
            yield value
