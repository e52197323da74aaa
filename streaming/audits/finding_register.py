"""What the auditor has found, each finding once: the same fault always gets the same id.

Spec: lab.md 2, DESIGN 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from mesh.model.findings import FindingKind

IDS_MAX = 100
"""Identities that one finding spells out; `count` tells how many there are."""


EVIDENCE_MAX = 20
"""Places of records that one finding spells out."""

TOLD_MAX = 1_000
"""Findings of one kind at one endpoint, link or node that are told one by one. Of more, one says
that there are others: what strangers write makes neither state nor topic grow without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, or one change of the parts of the mesh.

    Attributes:
        kind: What it is.
        text: One line for a person.
        ids: Identities `ingress topic/partition/generation/offset`, or ranges of them; for
            `split` and `heal` the parts.
        link: `tk1->ny1`, or empty.
        endpoint: `pa2/s1`, or empty.
        path: Nodes visited, or none.
        source: Source partition concerned, or empty.
        first: Lowest source offset concerned, or None.
        last: Highest one, or None.
        count: Messages concerned, also those that `ids` leaves out.
        anchor: What tells apart two faults alike in all of the above.
        node: Who did it or got it, as far as is known.
        evidence: Records that show it, `mesh.a.to.b.g/0@5-9`: partition and offsets.
        is_moved: Whether its messages were moved between queues, so that their ways begin there.
    """

    kind: FindingKind
    text: str
    ids: tuple[str, ...] = ()
    link: str = ""
    endpoint: str = ""
    path: tuple[str, ...] = ()
    source: str = ""
    first: int | None = None
    last: int | None = None
    count: int = 0
    anchor: str = ""
    node: str = ""
    evidence: tuple[str, ...] = ()
    is_moved: bool = False

    @property
    def id(self) -> str:
        """Return 16 hexadecimal digits that stand for this fault, in every run."""
        parts = (
            self.kind,
            self.link,
            self.endpoint,
            ">".join(self.path),
            self.source,
            self.anchor,
        )
        return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def message_id(source: str, generation: int, offset: int) -> str:
    """Return the identity of a message as findings spell it. Spec: K9."""
    return f"{source}/{generation}/{offset}"


def message_range(source: str, generation: int, first: int, last: int) -> str:
    """Return the identities from `first` to `last` in one word."""
    end = "" if first == last else f"-{last}"
    return f"{source}/{generation}/{first}{end}"


def records(place: object, first: int, last: int) -> str:
    """Return where records are, as evidence spells it."""
    return f"{place}@{first}" if first == last else f"{place}@{first}-{last}"


@dataclass(frozen=True, slots=True)
class FindingTimes:
    """When a finding was made: by the auditor's wall clock, in milliseconds since 1970.

    Attributes:
        first_ms: When it was found.
        last_ms: When it grew the last time.
        run: Which run of the auditor found it.
    """

    first_ms: int
    last_ms: int
    run: str


CHANGES = (FindingKind.SPLIT, FindingKind.HEAL)
"""What the newest finding of tells how the mesh is now: of too many the oldest are forgotten."""


STANDING = (
    FindingKind.STALLED,
    FindingKind.SILENT_LINK,
    FindingKind.STALE_INTEREST,
    FindingKind.SPLIT,
)
"""What a finding says of that holds until it ends, and is found again as long as it lasts."""

FOUND_AGAIN_S = 150.0
"""Whatever stands is found within so many seconds after all has been read."""


class Group(NamedTuple):
    """Findings of one kind and place."""

    kind: FindingKind
    link: str
    endpoint: str
    node: str


@dataclass(slots=True)
class Register:
    """All findings so far, and which of them are not yet published.

    Attributes:
        findings: By id.
        unpublished: Ids of those to be written, or taken back.
        seen: By id, when each was made.
        former: What a run has told that left no state, and this one has not found: kinds by id.
        former_s: Since when what of that stands would have been found again; None: not yet.
        groups: How many there are of one kind and place.
        ways: Unplanned paths by id, and when each was found, on the auditor's clock that only
            rises: those that a topology may excuse which had been written by then and is not read.
        now_ms: The auditor's wall clock; for people alone.
        now_s: Its clock that only rises.
        run: The run of the auditor.
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    unpublished: dict[str, None] = field(default_factory=dict)
    seen: dict[str, FindingTimes] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)
    former_s: float | None = None
    groups: dict[Group, int] = field(default_factory=dict)
    ways: dict[str, float] = field(default_factory=dict)
    now_ms: int = 0
    now_s: float = 0.0
    run: str = ""

    def add(self, finding: Finding) -> None:
        """Take a finding; one that is known already grows instead."""
        known = self.findings.get(finding.id)
        merged = finding if known is None else _merged(known, finding)
        if merged != known:
            self._put(merged)

    def replace(self, finding: Finding) -> None:
        """Add a finding that is complete: it replaces an earlier one with the same id."""
        known = self.findings.get(finding.id)
        # More records beside the same fault are no news.
        if known is None or replace(finding, evidence=known.evidence) != known:
            self._put(finding)

    def _put(self, finding: Finding) -> None:
        if finding.id not in self.findings:
            group = _group(finding)
            if self.groups.get(group, 0) >= TOLD_MAX and finding.kind in CHANGES:
                kinds = ((id_, one.kind) for id_, one in self.findings.items())
                self.withdraw(next(id_ for id_, kind in kinds if kind is finding.kind))
            elif self.groups.get(group, 0) >= TOLD_MAX:
                finding = _more(finding)
                if finding.id in self.findings:
                    return
            self.groups[group] = self.groups.get(group, 0) + 1
            if finding.kind is FindingKind.UNPLANNED_PATH:
                self.ways[finding.id] = self.now_s
        self.former.pop(finding.id, None)
        known = self.seen.get(finding.id, FindingTimes(self.now_ms, self.now_ms, self.run))
        self.seen[finding.id] = replace(known, last_ms=self.now_ms)
        self.findings[finding.id] = finding
        self.unpublished[finding.id] = None

    def has(self, kind: FindingKind, endpoint: str, node: str) -> bool:
        """Return whether anything of a kind was found at an endpoint of a node."""
        return Group(kind, "", endpoint, node) in self.groups

    def withdraw(self, id_: str) -> None:
        """Withdraw a finding, for example because a missing message has arrived."""
        if self.former.pop(id_, None) is not None:
            self.unpublished[id_] = None
        finding = self.findings.pop(id_, None)
        if finding is not None:
            group = _group(finding)
            self.groups[group] -= 1
            if not self.groups[group]:
                del self.groups[group]
            self.seen.pop(id_, None)
            self.ways.pop(id_, None)
            self.unpublished[id_] = None

    def take_back(self, ids: Iterable[str]) -> None:
        """Take back what was written and is not known here: it may not be found again."""
        for id_ in [id_ for id_ in ids if id_ not in self.findings]:
            self.former.pop(id_, None)
            self.unpublished[id_] = None

    @property
    def count(self) -> int:
        """The number of published findings, including those of a former run."""
        return len(self.findings) + len(self.former)

    def let_go(self, now_s: float) -> None:
        """Take back what a former run told that stood then, and that nobody has found again.

        Args:
            now_s: The auditor's clock, in seconds; all that was written has been read.
        """
        if self.former_s is None or now_s < self.former_s:
            self.former_s = now_s
        if now_s - self.former_s >= FOUND_AGAIN_S:
            for id_ in [id_ for id_, kind in self.former.items() if kind in STANDING]:
                self.withdraw(id_)

    def found_after(self, read_s: float) -> Sequence[Finding]:
        """Return the unplanned paths that were found after a moment.

        Args:
            read_s: All that was written to a Kafka cluster before this moment has been read.
        """
        return [self.findings[id_] for id_, at_s in self.ways.items() if at_s > read_s]

    def keep(self, read_s: float) -> None:
        """Take that no topology excuses any more what was found by a moment.

        Args:
            read_s: All that was written before this moment has been read, in every Kafka cluster.
        """
        self.ways = {id_: at_s for id_, at_s in self.ways.items() if at_s > read_s}

    def rest(self, now_s: float) -> None:
        """Go on by the clock of another process: what is excused may have been written till now."""
        self.ways = dict.fromkeys(self.ways, now_s)
        self.former_s = None

    def take_unpublished(self) -> Sequence[tuple[str, Finding | None]]:
        """Return what to publish, None for a finding taken back, and forget that it waits."""
        taken = [(id_, self.findings.get(id_)) for id_ in self.unpublished]
        self.unpublished.clear()
        return taken


def _group(finding: Finding) -> Group:
    if finding.kind in CHANGES:
        return Group(finding.kind, "", "", "")
    return Group(finding.kind, finding.link, finding.endpoint, finding.node)


def _more(finding: Finding) -> Finding:
    """Return the finding that stands for all beyond `TOLD_MAX`; it is never withdrawn."""
    where = finding.endpoint or finding.link or finding.node or "the mesh"
    return Finding(
        kind=finding.kind,
        text=f"{where} has more than {TOLD_MAX} findings of this kind: no others of it are told",
        link=finding.link,
        endpoint=finding.endpoint,
        anchor="more",
        node=finding.node,
    )


def _merged(known: Finding, more: Finding) -> Finding:
    ids = tuple(dict.fromkeys((*known.ids, *more.ids)))
    is_spelled_out = len(ids) <= IDS_MAX and known.count <= len(known.ids)
    count = len(ids) if is_spelled_out and more.count <= len(more.ids) else 0
    return replace(
        known,
        ids=ids[:IDS_MAX],
        first=_lower(known.first, more.first),
        last=_higher(known.last, more.last),
        count=count or known.count + more.count,
        evidence=tuple(dict.fromkeys((*known.evidence, *more.evidence)))[:EVIDENCE_MAX],
        is_moved=known.is_moved and more.is_moved,
    )


def _lower(one: int | None, other: int | None) -> int | None:
    return min(known) if (known := [n for n in (one, other) if n is not None]) else None


def _higher(one: int | None, other: int | None) -> int | None:
    return max(known) if (known := [n for n in (one, other) if n is not None]) else None
