"""What the auditor says while a run goes on: which messages it has certified, and which not yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mesh.model.topology import Topology
from mesh.operate.audit.entries import Entry
from mesh.operate.audit.proof import proven_until_ms
from mesh.operate.audit.trail import AuditTrail
from mesh.transport.port import KafkaCluster

TABLES = ("findings", "certificates", "status")
SHOWN_MAX = 5
"""Blocks that one line names."""


class AuditFollower:
    """What the auditor has found and certified so far, and what it still owes."""

    def __init__(
        self, topology: Topology, kafka: Mapping[str, KafkaCluster], now_ms: Callable[[], int]
    ) -> None:
        """Look at nothing yet."""
        home = kafka[topology.audit_kafka]
        self._trail = AuditTrail(topology, home, now_ms, tables=TABLES, keeps_all=True)

    @property
    def is_live(self) -> bool:
        """Whether the auditor has said anything yet."""
        return bool(self.status)

    @property
    def status(self) -> Entry:
        """The newest, or empty before the auditor runs."""
        return self._trail.status

    @property
    def fault(self) -> str:
        """Why the last look failed, or empty."""
        return self._trail.fault

    @property
    def findings(self) -> Sequence[Entry]:
        """Those that stand, oldest first."""
        return self._trail.audited().findings

    @property
    def certificates(self) -> Sequence[Entry]:
        """The newest of each range, oldest first."""
        return self._trail.audited().certificates

    def proven_until_ms(self) -> int | None:
        """Return up to when all that was published is certified, ms since 1970; None if unknown."""
        return proven_until_ms(self._trail)

    def refresh(self) -> None:
        """Read what is new; a Kafka cluster that does not answer is named in `fault`."""
        self._trail.look(asks_brokers=True)

    def found(self) -> Mapping[str, int]:
        """Return how many findings there are of each kind."""
        return Counter(str(one.get("kind")) for one in self.findings)

    def certified(self) -> Mapping[str, int]:
        """Return messages per endpoint that a certificate covers: expected equal to delivered."""
        counts: Counter[str] = Counter()
        for certificate in self.certificates:
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

    def close(self) -> None:
        """Release the reader."""
        self._trail.close()
