"""Deliveries that no open block takes: some wait, and some say what cannot be. Spec: K29."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.frames import MessageClass
from streaming.audits.finding_register import Finding
from streaming.audits.interest import EndpointKey
from streaming.audits.late_deliveries import LateDeliveries, LateKey
from streaming.audits.names import Names
from streaming.audits.pending import Pending
from streaming.audits.strangers import (
    UNNAMED_S,
    StrangerKey,
    forged_finding,
    late_finding,
    mislabelled_finding,
    never_published_finding,
)
from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition
from streaming.tables.topics import INGRESS, place_of

PARKED_MAX = 10_000
"""Rows of deliveries that are kept at most until their source is named. What an endpoint got
besides these is not proven of sources that are named later: it counts as if it had been deleted
unread."""

RETAIN_S = 10.0
"""How long a certified block is kept for late cuts and late deliveries, and these for who may ask
for them, in seconds."""

LATE_MAX = 10_000
"""Blocks and endpoints of which late deliveries wait at most: nothing is judged while a Kafka
cluster is not read. Others are reported as not examined."""

CLASSES = {one.letter: one.value for one in MessageClass}
"""Letter of an ingress topic -> the class of what is published there."""


@dataclass(slots=True)
class UnplacedDeliveries:
    """What was delivered, and no open block takes.

    Attributes:
        parked: Those whose source nobody has named yet.
        late: Those of blocks that were certified for good.
        findings: On deliveries of another class than their ingress, of a topic that is no ingress,
            or that were late when too many were; taken with the batch.
        unkept: Deliveries of unnamed sources for which there was no room; taken with the batch.
    """

    parked: Pending[StrangerKey, list[DeliveryRow]] = field(default_factory=Pending)
    late: dict[LateKey, LateDeliveries] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unkept: list[DeliveryRow] = field(init=False, compare=False, default_factory=list)

    def published(
        self, prefix: str, rows: Sequence[DeliveryRow], names: Names, now_s: float
    ) -> Iterator[tuple[TopicPartition, DeliveryRow]]:
        """Yield what clients have published, with its ingress partition; also what was parked.

        Args:
            prefix: Start of every topic name.
            rows: What was delivered in a batch.
            names: Of topics.
            now_s: The auditor's clock, in seconds.
        """
        named = [key for key in self.parked if names.place(key.source) is not None]
        known = [row for key in named for row in self.parked.pop(key)[1]]
        places: dict[SourceKey, TopicPartition | None] = {}
        room = PARKED_MAX - sum(len(parked) for _, parked in self.parked.values())
        for row in (*known, *rows):
            if (place := places.get(row.source)) is None:
                place = places[row.source] = names.place(row.source)
            if place is None:
                room -= self._park(row, now_s, has_room=room > 0)
                continue
            source = place_of(prefix, place.topic)
            if source.kind != INGRESS:
                self.findings.append(never_published_finding(prefix, place, row))
                continue
            if row.message_class != CLASSES.get(source.letter):
                self.findings.append(mislabelled_finding(prefix, place, row))
            yield place, row

    def _park(self, row: DeliveryRow, now_s: float, *, has_room: bool) -> int:
        """Keep deliveries until their source is named, and return how many rows more are kept.

        One row of each block is: a Kafka cluster that cannot be read names none of its topics, and
        others may get all of it.
        """
        key = StrangerKey(row.place.topic, row.source)
        rows = self.parked[key][1] if key in self.parked else []
        for at in reversed(range(len(rows))):
            if rows[at].is_like(row):
                rows[at] = rows[at].joined(row)
                return 0
        if not has_room:
            self.unkept.append(row)
            return 0
        rows.append(row)
        self.parked.hold(key, rows, now_s)
        return 1

    def take_unkept(self) -> Sequence[DeliveryRow]:
        """Return the deliveries of unnamed sources for which there was no room, once."""
        taken = list(self.unkept)
        self.unkept.clear()
        return taken

    def take_late(
        self,
        prefix: str,
        place: TopicPartition,
        endpoint: EndpointKey,
        row: DeliveryRow,
        now_s: float,
    ) -> None:
        """Take deliveries of a block that was certified for good.

        Args:
            prefix: Start of every topic name.
            place: The ingress partition.
            endpoint: Where they were delivered.
            row: The deliveries.
            now_s: The auditor's clock, in seconds.
        """
        key = LateKey(place, row.block, endpoint)
        if key not in self.late and len(self.late) >= LATE_MAX:
            self.findings.append(late_finding(prefix, place, row))
            return
        late = self.late.setdefault(key, LateDeliveries(now_s, row.first, row.last))
        late.first, late.last = min(late.first, row.first), max(late.last, row.last)
        late.receipt.take(row)

    def take_findings(self) -> Sequence[Finding]:
        """Return once what is to be reported of deliveries."""
        taken = list(self.findings)
        self.findings.clear()
        return taken

    def forged(self, prefix: str, now_s: float) -> Iterator[Finding]:
        """Yield what was delivered of sources that no Kafka cluster has, and drop it.

        Args:
            prefix: Start of every topic name.
            now_s: All that was written before this moment has been read.
        """
        for key, rows in self.parked.take_due(UNNAMED_S, now_s):
            yield forged_finding(prefix, key, rows)

    def ripe(self, now_s: float) -> Mapping[LateKey, LateDeliveries]:
        """Return what came too late for its block, once who asks for it must have been read.

        Args:
            now_s: All that was written before this moment has been read.
        """
        return {key: one for key, one in self.late.items() if now_s - one.since_s >= RETAIN_S}

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.parked.go_ahead(ahead_s)
        for late in self.late.values():
            late.since_s += ahead_s

    def forget_recreated(self, place: TopicPartition) -> None:
        """Forget late deliveries of a recreated ingress."""
        self.late = {key: one for key, one in self.late.items() if key.place != place}
