"""What `mesh.config` says to a node's clients: the topology in force, and paused subjects.

Spec: R14, K27, kafka.md 1 (`mesh.config`).
"""

from __future__ import annotations

from collections.abc import Callable

from mesh.codec.control import decode_config, decode_pause
from mesh.codec.keys import SubjectPauseKey, config_key, parse_control_key
from mesh.errors import PausedError, ProtocolError, TransportError
from mesh.model.control import Pause
from mesh.model.subject import matches
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

LOOK_MS = 500

RETRY_MS = 10_000
"""How long it is not asked again after brokers did not answer: a publisher waits for the answer."""


class OperatorsWord:
    """Follows what operators have put in force, and want a node not to take.

    Attributes:
        in_force: The newest topology record, as its text; empty before one was seen.

    Args:
        topology, node: Whose.
        kafka: The node's own Kafka cluster.
        now_ms: Monotonic clock.
    """

    def __init__(
        self, topology: Topology, node: str, kafka: KafkaCluster, now_ms: Callable[[], int]
    ) -> None:
        self._node = node
        self._kafka = kafka
        self._now_ms = now_ms
        self._place = TopicPartition(TopicNames(topology.prefix).config(), 0)
        self._follower: Follower | None = None
        self._looked_ms = -LOOK_MS
        self._paused: dict[str, Pause] = {}
        self._number = 0
        self.in_force = ""

    def check(self, subject: str) -> None:
        """Return if the node takes messages of a subject, as far as that can be known here.

        What cannot be read refuses nothing: the node itself has the message wait.

        Raises:
            PausedError: It does not; the text names the pause.
        """
        self.look()
        for filter_, pause in self._paused.items():
            if matches(filter_, subject):
                why = f" ({pause.why})" if pause.why else ""
                raise PausedError(
                    f"{self._node} takes nothing under {filter_!r} for now: an operator has paused "
                    f"it{why}; publish again later"
                )

    def look(self) -> None:
        """Take what is new, twice a second at most; what cannot be read is tried again later."""
        if self._now_ms() - self._looked_ms >= LOOK_MS:
            self._looked_ms = self._now_ms()
            try:
                self._look()
            except TransportError:
                self._looked_ms = self._now_ms() + RETRY_MS - LOOK_MS

    def _look(self) -> None:
        if self._follower is None:
            self._follower = Follower(self._kafka, "pauses", self._now_ms)
            self._follower.add([self._place])
        for record in self._follower.poll():
            try:
                self._take(record)
            except ProtocolError:
                continue  # the node itself counts and logs what nobody can read

    def _take(self, record: Record) -> None:
        key, value = record.key() or b"", record.value()
        if key == config_key():
            if value is not None and (found := decode_config(value)).number > self._number:
                self._number, self.in_force = found.number, found.topology
            return
        match parse_control_key(key):
            case SubjectPauseKey(node, filter_) if node == self._node:
                self._paused.pop(filter_, None)
                if value is not None:
                    self._paused[filter_] = decode_pause(value)
            case _:
                pass

    def close(self) -> None:
        """Release the reader."""
        if self._follower is not None:
            self._follower.close()
