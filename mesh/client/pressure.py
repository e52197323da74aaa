"""Whether a node takes guaranteed messages just now: its limits may say no. Spec: R14."""

from __future__ import annotations

import functools
from collections.abc import Callable

from mesh.client.recent import RecentRecords
from mesh.errors import BackpressureError, ProtocolError
from mesh.model.topology import ANY, Topology, WhenFull
from mesh.model.words import EndpointWord, LinkWord
from mesh.transport.port import KafkaCluster
from mesh.wire.control import decode_heartbeat
from mesh.wire.keys import NODE_KEYS, HeartbeatKey, parse_key


class Pressure:
    """Follows what a node reports about its outboxes and endpoints, if one has a rejecting limit.

    Args:
        topology, node: The mesh, and the node.
        kafka: The node's own Kafka cluster.
        now_ms: Monotonic clock.
    """

    def __init__(
        self, topology: Topology, node: str, kafka: KafkaCluster, now_ms: Callable[[], int]
    ) -> None:
        self._node = node
        self._records = RecentRecords(kafka, topology.names.control(node), "pressure", now_ms)
        self._rejecting = {
            neighbour
            for neighbour in topology.neighbours(node)
            if (limit := topology.limits.get(frozenset((node, neighbour)))) is not None
            and limit.is_of_outbox
            and limit.when_full is WhenFull.REJECT
        }
        self._limit_of = functools.partial(topology.endpoint_limit, node)
        self._has_endpoints = any(
            limit.when_full is WhenFull.REJECT and limit.node in (node, ANY)
            for limit in topology.endpoint_limits
        )
        self._full: list[str] = []

    def check(self) -> None:
        """Raise unless the node takes messages.

        Raises:
            BackpressureError: It does not, for the reason it reports.
            TransportUnavailableError: The node's reports could not be read.
        """
        if not (self._rejecting or self._has_endpoints):
            return
        self._look()
        if self._full:
            raise BackpressureError(
                f"{self._node} takes nothing for now, because of its {self._full[0]}; "
                "publish again later"
            )

    def _look(self) -> None:
        for record in self._records.look():
            value = record.value()
            try:
                if value is None or parse_key(record.key() or b"", NODE_KEYS) != HeartbeatKey():
                    continue
                beat = decode_heartbeat(value)
            except ProtocolError:
                continue  # the node itself counts and logs what is unreadable
            self._full = [
                f"link to {link.neighbour}: {link.reason}"
                for link in beat.links
                if link.state == LinkWord.FULL and link.neighbour in self._rejecting
            ]
            self._full += [
                f"endpoint {one.endpoint}: {one.reason}"
                for one in beat.endpoints
                if one.state == EndpointWord.FULL and self._rejects(one.endpoint)
            ]

    def _rejects(self, endpoint: str) -> bool:
        limit = self._limit_of(endpoint)
        return limit is not None and limit.when_full is WhenFull.REJECT

    def close(self) -> None:
        """Release the reader."""
        self._records.close()
