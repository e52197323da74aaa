"""The `server.properties` of embedded brokers: one machine, few partitions, small memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.local.ports import LOOPBACK

_SMALL: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # A group of one machine is complete at once; 3 s is for rolling starts of many.
    "group.initial.rebalance.delay.ms": "0",
    # Above the 1 MB that the mesh's own topics allow (K6).
    "message.max.bytes": "1200000",
    "replica.fetch.max.bytes": "1200000",
    # Every partition maps two index files of this size; hundreds of partitions share one machine.
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.io.buffer.size": "131072",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "group.coordinator.threads": "1",
    "share.coordinator.threads": "1",
    "broker.heartbeat.interval.ms": "500",
    # A controller at rest says that it is there, stock twice a second: a quarter of the CPU of a
    # broker that does nothing (measured: 0.9 s a minute, and 0.65 so).
    "metadata.max.idle.interval.ms": "5000",
    "log.retention.hours": "-1",
}
"""Differences from stock Kafka; timing that clients see (session time-outs) stays stock."""

SESSION_MS = 4_000
"""How long a broker may be silent until the controller leaves it out, and how long after kill -9 it
refuses the broker's successor: stock 9 s."""

PATIENT_SESSION_MS = 60_000
"""The same for a broker that nobody could replace: a machine that has no time for it leaves it out
for nothing, and each of its partitions has no leader until its next heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where one broker of a Kafka cluster listens."""

    node_id: int
    port: int
    controller_port: int

    @property
    def bootstrap(self) -> str:
        """Return ``host:port`` for clients."""
        return f"{LOOPBACK}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """How clients on other machines reach a broker.

    Attributes:
        port: Where it listens besides, on all addresses.
        advertised: `HOST:PORT`, what such clients are told to connect to.
    """

    port: int
    advertised: str


def server_properties(
    address: BrokerAddress,
    peers: Sequence[BrokerAddress],
    data: str,
    overrides: Mapping[str, str] | None = None,
    outside: Outside | None = None,
    session_ms: int = SESSION_MS,
) -> str:
    """Return the settings file of one broker that is its own controller (KRaft combined mode).

    Args:
        address: The broker itself.
        peers: All brokers of the Kafka cluster, itself included.
        data: Folder for its logs.
        overrides: Broker settings that win over ours.
        outside: A way in from other machines; None for this one alone.
        session_ms: How long a broker may be silent until it is left out, in milliseconds.

    Spec: DESIGN.md 10
    """
    copies = str(min(len(peers), 3))
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(address.node_id),
        # Voters by address, not `--standalone`: the controller may have a new port on each start.
        "controller.quorum.voters": ",".join(
            f"{peer.node_id}@{LOOPBACK}:{peer.controller_port}" for peer in peers
        ),
        "listeners": f"PLAINTEXT://{address.bootstrap},"
        f"CONTROLLER://{LOOPBACK}:{address.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{address.bootstrap}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "2" if len(peers) > 2 else "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "broker.session.timeout.ms": str(session_ms),
        **_SMALL,
        **({} if outside is None else _way_in(address, outside)),
        **(overrides or {}),
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _way_in(address: BrokerAddress, outside: Outside) -> Mapping[str, str]:
    own = f"PLAINTEXT://{address.bootstrap}"
    controller = f"CONTROLLER://{LOOPBACK}:{address.controller_port}"
    return {
        "listeners": f"{own},{controller},OUTSIDE://0.0.0.0:{outside.port}",
        "advertised.listeners": f"{own},OUTSIDE://{outside.advertised}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", "OUTSIDE")
        ),
    }


def _escaped(value: str) -> str:
    """Escape what Java's properties format would read as something else."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
