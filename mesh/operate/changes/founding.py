"""Puts the topology of a starting mesh in force: none was written before, or the same one.

Another one is never overwritten: running nodes would go on by the old one, and restarted nodes by
the new one, bypassing all stages of a change. Several people may start a mesh at the same moment
from different files; they claim the right to write as drivers of changes do (ADR 32), but on every
Kafka cluster, in the order of their ids, because two files may name them differently. The present
records are read after the claims. Spec: K28, kafka.md 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from mesh.config.published import differ_in_addresses_at_most, published_text, published_topology
from mesh.core.differences import Described, differences_between
from mesh.core.lineage import first_lineage
from mesh.errors import ConfigError, Problem, TransportError, TransportFencedError
from mesh.model.counted import listed
from mesh.model.topology import Topology
from mesh.operate.changes.arbiter import TRIES
from mesh.operate.changes.in_force import Records, TopologyInForce, newest_change, record_of
from mesh.transport.port import KafkaCluster, Writer
from mesh.view.lane_reports import LaneReports
from mesh.wire.control import Config, encode_config
from mesh.wire.keys import config_key

OTHER_IN_FORCE = "OTHER_IN_FORCE"
"""Code of the problem that a mesh has another topology than the file says."""

NAMED_MAX = 5


class OtherInForceError(ConfigError):
    """A mesh already has another topology; nothing was written.

    Attributes:
        standing: What is in force.
    """

    def __init__(self, standing: TopologyInForce, message: str) -> None:
        self.standing = standing
        super().__init__([Problem(code=OTHER_IN_FORCE, where="mesh.config", message=message)])


def publish(topology: Topology, kafka: Mapping[str, KafkaCluster]) -> int:
    """Put a topology in force where none is, and return its number.

    One that is in force keeps its number and is written only where it is missing. So restarting a
    mesh changes nothing, and the next start completes one that died between two Kafka clusters.

    Args:
        topology: Without addresses that only this run knows.
        kafka: Every Kafka cluster of it; `mesh.config` exists.

    Raises:
        OtherInForceError: Another one is in force.
        ConfigError: What is in force is not known to this version.
        ProtocolError: A record was written by a newer version.
        TransportError: A Kafka cluster did not answer or did not accept it.
    """
    for _ in range(TRIES):
        with ExitStack() as claims:
            try:
                return _publish(topology, kafka, claims)
            except TransportFencedError:
                continue  # another starter has claimed it since, and may have written
    raise TransportError(f"others start the mesh at the same time, {TRIES} times in a row")


def _publish(topology: Topology, kafka: Mapping[str, KafkaCluster], claims: ExitStack) -> int:
    names = topology.names
    writers: dict[str, Writer] = {}
    found: dict[str, Config] = {}
    for name in sorted(kafka, key=lambda one: kafka[one].admin().cluster_id()):
        writer = writers[name] = kafka[name].writer("operator", names.change_transactions())
        claims.callback(writer.close)
        if (record := record_of(kafka[name], topology.prefix)) is not None:
            found[name] = record
    config = Records(found=found, silent={}).highest or _first_record(topology, kafka)
    _refuse_others(found, config, topology)
    for name, writer in writers.items():
        if found.get(name) != config:
            writer.begin()
            writer.produce(names.config(), encode_config(*config), config_key(), 0)
            writer.commit()
    return config.number


def _first_record(topology: Topology, kafka: Mapping[str, KafkaCluster]) -> Config:
    """Return the first record of a mesh without one: it is new, or `mesh.config` was lost.

    Nodes follow no change with a lower number than one they have followed: numbering continues
    above that, and above a change under way, if a record of one is still there.
    """
    lanes = LaneReports(topology, kafka)
    lanes.read_all()
    changes = (newest_change(cluster, topology.prefix) for cluster in kafka.values())
    begun = max((one.number for one in changes if one is not None), default=0)
    number = 1 + max(lanes.topology_number, begun)
    return Config(number, published_text(topology), first_lineage(topology))


def _refuse_others(found: Mapping[str, Config], config: Config, topology: Topology) -> None:
    """Refuse differences beyond addresses: those depend on who reads the file."""
    number, text, lineage = config
    standing = TopologyInForce(number=number, topology=published_topology(text), lineage=lineage)
    rivals = [name for name, one in found.items() if one.number == number and one != config]
    if rivals:
        others = ", ".join(name for name, one in found.items() if one == config)
        raise OtherInForceError(
            standing,
            f"version {number} says one thing on {others} and another on {', '.join(rivals)}: "
            "say which is to be in force by `mesh apply FILE`",
        )
    if differ_in_addresses_at_most(standing.topology, topology):
        return
    wanted = TopologyInForce(number=number, topology=topology)
    differences = differences_between(
        Described(topology=standing.topology, document=standing.document),
        Described(topology=topology, document=wanted.document),
    )
    named = [f"{one.what} {one.name}" for one in differences]
    raise OtherInForceError(
        standing,
        f"version {number} is in force, and the file differs in "
        f"{listed(named, NAMED_MAX)}: start the mesh by what is in force, then change it by "
        "`mesh apply FILE`",
    )
