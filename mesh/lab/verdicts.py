"""What the auditor says, followed live on its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.audit.entries import entry_of
from mesh.operate.audit.latest import POSITION
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

TABLES = ("findings", "certificates", "status")
SHOWN_MAX = 5
"""Blocks that one line names."""
WAITS = ("stalled", "silent-link", "unproven")
"""Of these, the ones that say that something stands still, or could not be judged: no run fails."""


@dataclass(slots=True)
class Verdicts:
    """Findings and certificates so far.

    Attributes:
        findings: By id, as the auditor wrote them.
        certificates: By key.
        status: The newest, or empty before the auditor runs.
        fault: Why the last look failed, or empty.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    now_ms: Callable[[], int]
    findings: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    certificates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    _follower: Follower = field(init=False)
    _tables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name the topics; nothing is read yet."""
        names = TopicNames(self.topology.prefix)
        self._tables = {names.audit(table): table for table in TABLES}
        kafka = self.kafka[self.topology.audit_kafka]
        self._follower = Follower(kafka, "verdicts", self.now_ms)
        self._follower.add([TopicPartition(topic, 0) for topic in self._tables])

    @property
    def is_live(self) -> bool:
        """Whether the auditor has said anything yet."""
        return bool(self.status)

    def refresh(self) -> None:
        """Read what is new; a Kafka cluster that does not answer is named in `fault`."""
        self.fault = ""
        try:
            for record in self._follower.poll():
                self._take(record)
        except TransportError as error:
            self.fault = str(error)

    def found(self) -> Mapping[str, int]:
        """Return how many findings there are of each kind."""
        return Counter(str(one.get("kind")) for one in self.findings.values())

    def certified(self) -> Mapping[str, int]:
        """Return messages per endpoint that a certificate covers: expected equal to delivered."""
        counts: Counter[str] = Counter()
        for certificate in self.certificates.values():
            if certificate["equal"]:
                counts[certificate["endpoint"]] += certificate.get("delivered", 0)
        return counts

    def covers(self, wanted: Mapping[str, int]) -> bool:
        """Return whether so many messages per endpoint, or more, are certified."""
        certified = self.certified()
        return all(certified.get(endpoint, 0) >= count for endpoint, count in wanted.items())

    def lacks(self, wanted: Mapping[str, int], limit_s: int) -> str:
        """Return in one line what of this is not certified within a time; empty if all is."""
        if self.is_live and self.covers(wanted):
            return ""
        why = f"; {self.fault}" if self.fault else ""
        if not self.is_live:
            return f"the auditor has said nothing within {limit_s} s{why}"
        certified = self.certified()
        short = [
            f"{endpoint} {certified.get(endpoint, 0)} of {count}"
            for endpoint, count in sorted(wanted.items())
            if certified.get(endpoint, 0) < count
        ]
        counts = ", ".join(short)
        return f"messages not certified within {limit_s} s: {counts}{why}; {self.stands()}"

    def stands(self) -> str:
        """Return in one line how far the auditor is, and which blocks it does not certify yet."""
        if not self.is_live:
            return "the auditor has said nothing yet"
        waiting = self.status.get("waiting", ())
        waiting_for = [
            f"{one['endpoint']} of {one['source']} block {one.get('block', '?')} "
            f"up to {one.get('to', '?')} ({one.get('reason', '?')})"
            for one in waiting[:SHOWN_MAX]
        ]
        more = int(self.status.get("uncertified", 0)) - len(waiting_for)
        waiting_for += [f"{more} more"] if waiting_for and more > 0 else []
        blocks = f"waits for {', '.join(waiting_for) or 'no block that it knows'}"
        return f"the auditor is at batch {self.status.get('batch', 0)} and {blocks}"

    def _take(self, record: Record) -> None:
        table = self._tables[record.topic()]
        key = (record.key() or b"").decode(errors="replace")
        value = record.value()
        content = None if value is None else entry_of(table, value)
        if table == "status":
            if record.key() == POSITION:
                self.status = content or self.status
            return
        rows = self.findings if table == "findings" else self.certificates
        if value is None:
            rows.pop(key, None)
        elif content is not None:  # a stranger's is none of the auditor's
            rows[key] = content

    def close(self) -> None:
        """Release the reader."""
        self._follower.close()
