"""One block of source offsets: what was published, what was delivered, and what that proves.

Spec: K29.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.cases import Proven
from streaming.audits.interest import EndpointKey
from streaming.audits.queues import EVERYWHERE
from streaming.audits.tickets import Ticket
from streaming.tables.digest import NOTHING, Digest
from streaming.tables.filters import ALL
from streaming.tables.rows import DeliveryRow, IngressRow


@dataclass(slots=True)
class SubjectTally:
    """Messages of one subject in a block, or of a bundle of subjects.

    Attributes:
        digest: Of them.
        first: Lowest offset.
        last: Highest one.
        known: Of a bundle, how many filters tell its subjects apart from others.
    """

    digest: Digest
    first: int
    last: int
    known: int = ALL


BUNDLE = "\n"
"""Begins the keys of bundles: no subject has it."""


@dataclass(slots=True)
class Receipt:
    """What one endpoint got of a block.

    Attributes:
        digest: Of the messages.
        records: Partition of the endpoint topic -> lowest and highest offset there.
        generations: Of the source, that the deliveries say.
        unmoved: How many did not come from another member of a queue.
        is_cut: Whether some of it was in a topic that was recreated since.
    """

    digest: Digest = NOTHING
    records: dict[int, tuple[int, int]] = field(default_factory=dict)
    generations: dict[int, None] = field(default_factory=dict)
    unmoved: int = 0
    is_cut: bool = False

    def take(self, row: DeliveryRow) -> None:
        """Add the deliveries of a batch."""
        span, known = (row.record_first, row.record_last), self.records.get(row.place.partition)
        if known is not None:
            span = min(known[0], span[0]), max(known[1], span[1])
        self.records[row.place.partition] = span
        self.digest += row.digest
        self.generations[row.generation] = None
        self.unmoved += 0 if row.is_moved else row.digest.count


NO_RECEIPT = Receipt()
"""Of who got nothing; nobody adds to it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Faults of one endpoint that were told, and what was there by then.

    As long as what comes after that is equal, nothing needs to be read again to know that they
    stand, and that there are no others.

    Attributes:
        owed: What had to come.
        delivered: What came.
        expected: How many had to come, or came and were allowed to.
    """

    owed: Digest
    delivered: Digest
    expected: int

    def news(self, owed: Digest, delivered: Digest) -> Digest | None:
        """Return the digest of what was owed since then if exactly that has come, else None."""
        since = owed - self.owed
        return since if delivered - self.delivered == since else None


class Moments(NamedTuple):
    """When the first and last of some offsets were routed, in ms since 1970; None: unknown."""

    first_ms: int | None
    last_ms: int | None


class Certificate(NamedTuple):
    """That an endpoint got exactly what it had to, or that it did not. Spec: K29, lab.md 2.

    Attributes:
        source: Ingress partition, `mesh.tk3.in.g/0`.
        block: Number of the block.
        first: First source offset that it speaks for.
        last: Last one.
        endpoint: `pa2/s1`.
        expected: Messages that had to come, and those that came and were allowed to.
        delivered: Records that came.
        equal: Whether these are the same messages, each once and with its content.
        partial: Whether the block is still open.
        sure: Whether nothing can be missing: false where not all came that was asked for, and
            nobody can tell whether the rest was owed, or came and was deleted.
        digest: Of what came.
        first_ms, last_ms: When the first and the last offset were routed, as `Times` tell it.
    """

    source: str
    block: int
    first: int
    last: int
    endpoint: str
    expected: int
    delivered: int
    equal: bool
    partial: bool
    sure: bool = True
    digest: Digest = NOTHING
    first_ms: int | None = None
    last_ms: int | None = None

    @property
    def key(self) -> str:
        """Return what a later certificate for the same replaces it by."""
        return f"{self.source} {self.block} {self.endpoint}"


@dataclass(slots=True)
class Block:
    """One block of an ingress partition.

    Attributes:
        subjects: What was published, by subject; of a bundle by its filters, after `BUNDLE`.
        receipts: What was delivered, by endpoint.
        last: Highest offset published, refused messages included; -1 for none.
        is_routed: Whether the lane of the ingress has gone past it: before, nobody knows who will
            get it.
        stamp: Rises with every change.
        changed_s: Time of the last change; like the next one it is of this process alone.
        judged_s: Time of the last judgement; of the first sight before that.
        judged: Stamp and version of interest that all is settled for.
        tickets: The ways of what is late, while they are followed; of each node where something
            is, those that endpoints wait for, the oldest first.
        unequal: Endpoint -> highest offset that was published when it was seen to lack something,
            if at every look since then it did.
        issued: Newest certificate per endpoint.
        proven: Per endpoint, the beginning that was read and found equal.
        looked: Per endpoint, the stamp and version that were read message by message.
        cleared: Of these, the ones that turned out to be equal.
        settled: Of these, the ones that were read when every hop had passed all of the block.
        standing: Endpoint -> faults that were told of it.
    """

    subjects: dict[str, SubjectTally] = field(default_factory=dict)
    receipts: dict[EndpointKey, Receipt] = field(default_factory=dict)
    last: int = -1
    is_routed: bool = False
    stamp: int = 0
    changed_s: float = field(default=0.0, compare=False)
    judged_s: float = field(default=0.0, compare=False)
    judged: tuple[int, int] = (-1, -1)
    tickets: list[Ticket] = field(default_factory=list)
    unequal: dict[EndpointKey, int] = field(default_factory=dict)
    issued: dict[EndpointKey, Certificate] = field(default_factory=dict)
    proven: dict[EndpointKey, Proven] = field(default_factory=dict)
    looked: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    cleared: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    settled: dict[EndpointKey, tuple[int, int]] = field(default_factory=dict)
    standing: dict[EndpointKey, Standing] = field(default_factory=dict)

    def publish(self, row: IngressRow) -> None:
        """Take messages of one subject."""
        self.last = max(self.last, row.last)
        self.is_routed = False
        self.doubt(row.first)
        key = row.subject if row.selected is None else f"{BUNDLE}{row.selected}"
        if key is None:
            return
        tally = self.subjects.get(key)
        if tally is None:
            self.subjects[key] = SubjectTally(row.digest, row.first, row.last, row.known)
            return
        tally.digest += row.digest
        tally.known = min(tally.known, row.known)
        tally.first = min(tally.first, row.first)
        tally.last = max(tally.last, row.last)

    def doubt(self, first: int, endpoint: EndpointKey | None = None) -> None:
        """Take back what was proven and may change by records from an offset on.

        Args:
            first: Lowest offset of the news.
            endpoint: Who got them; None: they were published.
        """
        if not self.proven:
            return
        for key in [one for one, known in self.proven.items() if known.last >= first]:
            together = EndpointKey(EVERYWHERE, "" if endpoint is None else endpoint.name.casefold())
            if endpoint is None or key in (endpoint, together):
                del self.proven[key]

    def ticket_of(self, endpoint: EndpointKey) -> Ticket | None:
        """Return the first ticket that covers all that an endpoint was seen to lack."""
        since, name = self.unequal.get(endpoint, self.last), endpoint.name.casefold()
        for one in self.tickets:  # by no generator: each that is late asks, with every judgement
            if one.bound < since or one.node != endpoint.node:
                continue
            if one.alone in ("", name) and name not in one.left_out:
                return one
        return None

    def touch(self, now_s: float) -> None:
        """Note that something has changed."""
        self.stamp += 1
        self.changed_s = now_s

    def delivered(self, members: Sequence[EndpointKey]) -> Digest:
        """Return what some endpoints got together."""
        if len(members) == 1:
            receipt = self.receipts.get(members[0])
            return NOTHING if receipt is None else receipt.digest
        receipts = [self.receipts[one] for one in members if one in self.receipts]
        return sum((receipt.digest for receipt in receipts), NOTHING)

    def generations(self, members: Sequence[EndpointKey]) -> Mapping[int, None]:
        """Return the generations of what some endpoints got."""
        if len(members) == 1:
            receipt = self.receipts.get(members[0])
            return {} if receipt is None else receipt.generations
        receipts = [self.receipts[one] for one in members if one in self.receipts]
        return {number: None for receipt in receipts for number in receipt.generations}

    @property
    def is_faultless(self) -> bool:
        """Whether all certificates issued for the block are equal."""
        return all(certificate.equal for certificate in self.issued.values())
