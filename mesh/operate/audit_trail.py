"""What the auditor says, followed live, with the broker's time of each word. Spec: K29, DESIGN 7.

Topics of the auditor are compacted: of what it took back, or certified again, only the newest is
sure to be there. `AuditTrail.heard` therefore tells which minutes are on record at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.audit_entries import Entry, entry_of
from mesh.operate.auditing import Audited
from mesh.operate.link_record import LinkRecord
from mesh.operate.minutes import MINUTE_MS, MINUTES_KEPT
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

TABLES = ("findings", "certificates", "hours", "links", "status", "minutes", "link-hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing that the auditor wrote.

    Attributes:
        key: Of the record: the same key replaces it.
        entry: What it says.
        first_ms, last_ms: When it was said for the first time that is on record, and the last.
        ended_ms: When it was taken back, or None.
    """

    key: str
    entry: Entry
    first_ms: int
    last_ms: int
    ended_ms: int | None = None

    def holds_at(self, at_ms: int | None) -> bool:
        """Say whether it was said by a moment, and not taken back; None is now."""
        if at_ms is None:
            return self.ended_ms is None
        return self.first_ms <= at_ms and (self.ended_ms is None or self.ended_ms > at_ms)


class AuditTrail:
    """Follows findings, certificates, status, and what crossed links.

    Attributes:
        findings, certificates: By key, oldest first; those taken back too.
        hours: What certificates of closed blocks come to, by key.
        links: What was counted on each direction of a link (`tk1->ny1`), the newest.
        crossed: What crossed links in the past.
        status: The newest, or empty.
        heard: Minutes from 1970 on in which the auditor spoke.
        has_topics: Whether it ever wrote here.
        fault: Why the last look failed, or empty.
        version: Rises with every change of findings and certificates.
    """

    def __init__(
        self, topology: Topology, kafka: KafkaCluster | None, now_ms: Callable[[], int]
    ) -> None:
        """Look at nothing yet.

        Args:
            topology: The mesh.
            kafka: Where its auditor writes; None if nowhere.
            now_ms: Monotonic clock.
        """
        self.findings: dict[str, Said] = {}
        self.certificates: dict[str, Said] = {}
        self.hours: dict[str, Said] = {}
        self.links: dict[str, Entry] = {}
        self.crossed = LinkRecord()
        self.status: Mapping[str, Any] = {}
        self.heard: dict[int, None] = {}
        self.has_topics = False
        self.fault = ""
        self.version = 0
        names = TopicNames(topology.prefix)
        self._tables = {names.audit(table): table for table in TABLES}
        self._follower: Follower | None = None
        if kafka is not None:
            self._follower = Follower(kafka, "audit", now_ms)
            self._follower.add([TopicPartition(topic, 0) for topic in self._tables])

    def look(self, *, asks_brokers: bool) -> None:
        """Take what has come.

        Args:
            asks_brokers: Whether to read to the present end, and find out whether anybody answers.
        """
        if self._follower is None:
            return
        try:
            self._take_all(self._follower.poll() if asks_brokers else self._follower.glance())
        except TransportError as error:
            self.fault = str(error)
        else:
            self.fault = "" if asks_brokers else self.fault

    def audited(self, at_ms: int | None = None) -> Audited:
        """Return what the auditor has found: by now, or by a moment gone by."""
        return Audited(
            findings=_held(self.findings, at_ms),
            certificates=_held(self.certificates, at_ms),
            has_topics=self.has_topics,
            status=self.status,
            hours=_held(self.hours, at_ms),
        )

    def _take_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.has_topics = True
            self._take(record)

    def _take(self, record: Record) -> None:
        key, value = (record.key() or b"").decode(errors="replace"), record.value()
        at_ms = record.timestamp()[1]
        table = self._tables[record.topic()]
        self._hear(at_ms)
        kept = {"findings": self.findings, "hours": self.hours}
        rows = kept.get(table, self.certificates)
        if value is None:
            if key in rows and table in ("findings", "certificates", "hours"):
                rows[key] = replace(rows[key], ended_ms=at_ms)
                self.version += 1
            return
        entry = entry_of(table, value)
        if entry is None:
            return
        if table == "status":
            self.status = {"at_ms": at_ms, **entry}
            return
        if table == "links":
            self.links[key] = entry
            return
        if table in ("minutes", "link-hours"):
            self.crossed.take(table, entry, at_ms)
            return
        before = rows.pop(key, None)
        first_ms = at_ms if before is None or before.ended_ms is not None else before.first_ms
        rows[key] = Said(key=key, entry=entry, first_ms=first_ms, last_ms=at_ms)
        self.version += 1

    def _hear(self, at_ms: int) -> None:
        minute = at_ms // MINUTE_MS
        if minute in self.heard:
            return
        self.heard[minute] = None
        while len(self.heard) > MINUTES_KEPT:
            del self.heard[min(self.heard)]

    def close(self) -> None:
        """Release the reader."""
        if self._follower is not None:
            self._follower.close()


def _held(rows: Mapping[str, Said], at_ms: int | None) -> list[Entry]:
    """Return what was said at a moment; others may look while more is read."""
    return [one.entry for one in list(rows.values()) if one.holds_at(at_ms)]
