"""What `mesh.config` tells a node's clients: the topology in force, and paused subjects.

Spec: R14, K27, kafka.md 1 (`mesh.config`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from mesh.client.recent import RecentRecords
from mesh.errors import PausedError, ProtocolError, TransportError
from mesh.model.subject import matches
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record
from mesh.wire.control import decode_config
from mesh.wire.keys import (
    OPERATOR_KEYS,
    AcceptKey,
    ChangeKey,
    DisableKey,
    PauseKey,
    SubjectPauseKey,
    config_key,
    parse_key,
)
from mesh.wire.operator_records import RecordsOfOperators

RETRY_MS = 10_000
"""How long not to ask again after brokers did not answer: a publisher waits for the answer."""


class OrdersForClients:
    """Follows what operators have put in force, and what they do not want a node to take.

    Attributes:
        in_force: The newest topology record, as its text; empty before one was seen.
        number: Number of that topology.

    Args:
        topology, node: The mesh, and the node.
        kafka: The node's own Kafka cluster.
        now_ms: Monotonic clock.
    """

    def __init__(
        self, topology: Topology, node: str, kafka: KafkaCluster, now_ms: Callable[[], int]
    ) -> None:
        self._node = node
        config = topology.names.config()
        self._records = RecentRecords(kafka, config, "pauses", now_ms, self._begin_again)
        self._wanted = RecordsOfOperators()
        self.number = 0
        self.in_force = ""

    def check(self, subject: str) -> None:
        """Raise if the node is known to take no messages of a subject.

        An unreadable record refuses nothing: the node itself makes the message wait.

        Raises:
            PausedError: The subject is paused; the text names the pause.
        """
        self.look()
        for filter_, pause in self._wanted.subject_pauses.items():
            if matches(filter_, subject):
                why = f" ({pause.why})" if pause.why else ""
                raise PausedError(
                    f"{self._node} takes nothing under {filter_!r} for now: an operator has paused "
                    f"it{why}; publish again later"
                )

    def look(self) -> None:
        """Take what is new, twice a second at most; what cannot be read is tried again later."""
        try:
            for record in self._records.look():
                with suppress(ProtocolError):  # the node counts and logs what is unreadable
                    self._take(record)
        except TransportError:
            self._records.rest(RETRY_MS)

    def _begin_again(self) -> None:
        """Want nothing: `mesh.config` is read from its beginning. What is in force stays so."""
        self._wanted = RecordsOfOperators()

    def _take(self, record: Record) -> None:
        key, value = record.key() or b"", record.value()
        if key == config_key():
            if value is not None and (found := decode_config(value)).number > self.number:
                self.number, self.in_force = found.number, found.topology
            return
        match parse_key(key, OPERATOR_KEYS):
            case SubjectPauseKey(node) as paused if node == self._node:
                self._wanted.take_operator_record(paused, value)
            case SubjectPauseKey():
                pass  # at another node
            case AcceptKey() | PauseKey() | DisableKey() | ChangeKey():
                pass  # of links and of the mesh: clients publish as before

    def close(self) -> None:
        """Release the reader."""
        self._records.close()
