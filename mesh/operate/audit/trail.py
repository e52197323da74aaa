"""What the auditor reports, followed live, with the broker's time stamps. Spec: K29, DESIGN 7.

The auditor's topics are compacted: of what it withdrew, or certified again, only the newest record
is sure to remain. So `AuditTrail.heard` says which minutes are on record at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import Any

from mesh.errors import TransportError
from mesh.model.topology import Topology
from mesh.operate.audit.entries import Entry, entry_of, number
from mesh.operate.audit.latest import FRESH_S, POSITION, Audited, is_unsure
from mesh.operate.audit.link_record import HOUR_MS, HOURS_KEPT, LinkRecord
from mesh.operate.minutes import MINUTE_MS, MINUTES_KEPT, Minutes
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

SPARE_MAX = 5_000
"""How many withdrawn or uneventful entries are kept individually."""

KEY_BYTES_MAX = 1_000
"""No auditor writes a longer key, and lists of the API continue from keys."""

TABLES = (
    *("findings", "certificates", "hours", "links", "canaries"),
    *("status", "minutes", "link-hours"),
)

REPORTED = ("findings", "certificates", "hours", "canaries", "status")
"""The tables of a report; the others say what crossed links, which is much more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One statement of the auditor.

    Attributes:
        key: Key of the record: the same key replaces it.
        entry: Its content.
        first_ms, last_ms: The first time on record that it was made, and the last.
        ended_ms: When it was withdrawn, or None.
    """

    key: str
    entry: Entry
    first_ms: int
    last_ms: int
    ended_ms: int | None = None

    @property
    def time(self) -> tuple[int, int]:
        """The first and last moment that it covers: as it says, else when it was made.

        It is about the past: records may carry any time stamp.
        """
        first, last = self.entry.get("first_ms"), self.entry.get("last_ms")
        if isinstance(first, (int, float)) and isinstance(last, (int, float)):
            return min(int(first), self.last_ms), min(int(last), self.last_ms)
        return self.last_ms, self.last_ms

    def is_spare(self, table: str, now_ms: int) -> bool:
        """Return whether dropping it changes nothing but numbers."""
        if table == "hours":
            return self.last_ms < now_ms - HOURS_KEPT * HOUR_MS
        if table == "findings":
            return self.ended_ms is not None
        is_well = bool(self.entry.get("equal")) and not is_unsure(self.entry)
        return self.ended_ms is not None or (is_well and not self.entry.get("partial"))

    def holds_at(self, at_ms: int | None) -> bool:
        """Return whether it was made by a moment, and not withdrawn; None is now."""
        if at_ms is None:
            return self.ended_ms is None
        return self.first_ms <= at_ms and (self.ended_ms is None or self.ended_ms > at_ms)


@dataclass(slots=True)
class Summed:
    """Equal certificates of closed blocks of one endpoint that are not kept individually.

    Attributes:
        certificates, expected, delivered: Their totals.
        last_ms: When the newest of them was issued.
        minutes: How many cover each minute of the last day.
    """

    certificates: int = 0
    expected: int = 0
    delivered: int = 0
    last_ms: int = 0
    minutes: Minutes = field(default_factory=Minutes)

    def take(self, said: Said) -> None:
        """Count one more."""
        self.certificates += 1
        self.expected += int(said.entry.get("expected") or 0)
        self.delivered += int(said.entry.get("delivered") or 0)
        self.last_ms = max(self.last_ms, said.last_ms)
        first_ms, last_ms = said.time
        first = max(first_ms // MINUTE_MS, last_ms // MINUTE_MS - MINUTES_KEPT)
        for minute in range(first, last_ms // MINUTE_MS + 1):
            self.minutes.add(minute * MINUTE_MS, 1)


class AuditTrail:
    """Follows findings, certificates, status, and what crossed links, or reads them once.

    A mesh may have a certificate a second and more. Those that only say that all was well are
    summed up, except the newest: following for weeks keeps no more than one day does.

    Attributes:
        findings, certificates: By key, oldest first; including the newest that were withdrawn.
        summed: By endpoint, equal certificates that are no longer among these.
        hours: Totals of certificates of closed blocks, by key; for thirty days.
        links: The newest counts for each direction of a link (`tk1->ny1`).
        canaries: The newest canary results for each way (`tk1->ny1`).
        crossed: What crossed links in the past.
        status: The newest, or empty.
        heard: Minutes since 1970 in which the auditor reported.
        has_topics: Whether it ever wrote here.
        removed: Findings that the auditor counts, but that are no longer in its topic.
        fault: Why the last look failed, or empty.
        version: Rises with every change of findings and certificates.
        findings_version: Rises with every change of findings.
    """

    def __init__(
        self,
        topology: Topology,
        kafka: KafkaCluster | None,
        now_ms: Callable[[], int],
        *,
        gathers: bool = False,
        tables: Sequence[str] = TABLES,
        keeps_all: bool = False,
    ) -> None:
        """Look at nothing yet.

        Args:
            topology: The mesh.
            kafka: Where its auditor writes; None if nowhere.
            now_ms: Monotonic clock.
            gathers: As for a follower, for those who watch for long.
            tables: What is read.
            keeps_all: Whether every certificate is kept individually, for those who need each of
                them and do not watch for long.
        """
        self.findings: dict[str, Said] = {}
        self.certificates: dict[str, Said] = {}
        self.summed: dict[str, Summed] = {}
        self.hours: dict[str, Said] = {}
        room = inf if keeps_all else SPARE_MAX
        self._room: dict[str, float] = dict.fromkeys(("findings", "certificates", "hours"), room)
        self.links: dict[str, Entry] = {}
        self.canaries: dict[str, Entry] = {}
        self.crossed = LinkRecord()
        self.status: Mapping[str, Any] = {}
        self._endpoints: dict[str, Sequence[str]] = {}
        self.heard: dict[int, None] = {}
        self.has_topics = False
        self.removed = 0
        self.fault = ""
        self.version = self.findings_version = 0
        self._tables = {topology.names.audit(table): table for table in tables}
        self._follower: Follower | None = None
        if kafka is not None:
            self._follower = Follower(kafka, "audit", now_ms, gathers=gathers)
            self._follower.add([TopicPartition(topic, 0) for topic in self._tables])

    @classmethod
    def read_once(
        cls, topology: Topology, kafka: KafkaCluster, now_ms: Callable[[], int]
    ) -> AuditTrail:
        """Return everything that a report consists of, as it is now.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        trail = cls(topology, kafka, now_ms, tables=REPORTED, keeps_all=True)
        try:
            trail._read_to_end()
        finally:
            trail.close()
        return trail

    def look(self, *, asks_brokers: bool) -> None:
        """Take what has arrived.

        Args:
            asks_brokers: Whether to read to the present end, and find out whether anybody answers.
        """
        if self._follower is None:
            return
        try:
            if asks_brokers:
                self._read_to_end()
            else:
                self._take_all(self._follower.glance())
        except TransportError as error:
            self.fault = str(error)

    def _read_to_end(self) -> None:
        if self._follower is None:
            return
        self._take_all(self._follower.poll())
        counted, there = self._counted, self._there
        if counted - there > self.removed:
            # They are reported together but read one by one: missing at two looks means gone.
            self._take_all(self._follower.poll())
        self.removed = max(0, min(counted, self._counted) - max(there, self._there))
        self.fault = ""

    @property
    def _counted(self) -> int:
        """How many findings are in force, as the auditor counts them."""
        return int(self.status.get("findings", 0))

    @property
    def _there(self) -> int:
        return sum(one.ended_ms is None for one in self.findings.values())

    def audited(self, at_ms: int | None = None) -> Audited:
        """Return what the auditor has found: by now, or by a past moment.

        How far it was then, and what waited, is not on record.
        """
        status = self.status
        if at_ms is not None and status:
            status = {"at_ms": at_ms, "endpoints": status.get("endpoints", [])}
        return Audited(
            findings=_held(self.findings, at_ms),
            certificates=_held(self.certificates, at_ms),
            has_topics=self.has_topics,
            status=status,
            hours=_held(self.hours, at_ms),
            canaries=list(self.canaries.values()) if at_ms is None else (),
            removed=self.removed if at_ms is None else 0,
        )

    def _take_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.has_topics = True
            if len(record.key() or b"") <= KEY_BYTES_MAX:
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
                self._count(table)
            self.canaries.pop(key if table == "canaries" else "", None)
            return
        entry = entry_of(table, value)
        if entry is None:
            return
        if table == "status":
            self._take_status(key, {"at_ms": at_ms, **entry})
            return
        if table in ("links", "canaries"):
            (self.links if table == "links" else self.canaries)[key] = entry
            return
        if table in ("minutes", "link-hours"):
            self.crossed.take(table, entry, at_ms)
            return
        before = rows.pop(key, None)
        first_ms = at_ms if before is None or before.ended_ms is not None else before.first_ms
        rows[key] = Said(key=key, entry=entry, first_ms=first_ms, last_ms=at_ms)
        self._count(table)
        if len(rows) > self._room[table]:
            self._forget(table, rows, at_ms)

    def _take_status(self, key: str, entry: Entry) -> None:
        """Take the auditor's progress; with many endpoints, earlier parts have arrived before."""
        if key.startswith("endpoints "):
            self._endpoints[key] = entry.get("endpoints", ())
        if key != POSITION.decode():
            return
        count = min(int(number(entry.get("more_endpoints"))), len(self._endpoints))
        others = (self._endpoints.get(f"endpoints {at}", ()) for at in range(1, count + 1))
        self.status = {**entry, "endpoints": [*entry.get("endpoints", ()), *chain(*others)]}

    def _forget(self, table: str, rows: dict[str, Said], now_ms: int) -> None:
        """Keep the newest of the dispensable entries."""
        spare = [said for said in rows.values() if said.is_spare(table, now_ms)]
        for said in spare[: max(0, len(spare) - SPARE_MAX)]:
            del rows[said.key]
            if table == "certificates" and said.ended_ms is None:
                self.summed.setdefault(str(said.entry.get("endpoint")), Summed()).take(said)
        self._room[table] = len(rows) + SPARE_MAX // 10

    def _count(self, table: str) -> None:
        self.version += 1
        self.findings_version += table == "findings"

    def was_heard(self, at_ms: int) -> bool:
        """Return whether the auditor reported at a past moment, or shortly before."""
        minutes = (at_ms // MINUTE_MS, (at_ms - int(FRESH_S * 1000)) // MINUTE_MS)
        return any(one in self.heard for one in minutes) or self.crossed.is_any_read(at_ms)

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
    """Return what held at a moment; other threads may look while more is read."""
    return [one.entry for one in list(rows.values()) if one.holds_at(at_ms)]
