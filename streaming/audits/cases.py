"""Blocks and endpoints that are read again message by message, and what that gave. Spec: K29."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import EVIDENCE_MAX, IDS_MAX, Finding, message_id
from streaming.audits.generations import FIRST, Generation
from streaming.audits.interest import EndpointKey
from streaming.tables.rows import SourceKey, TopicPartition

RecordRanges = Mapping[EndpointKey, Mapping[int, tuple[int, int]]]
"""Endpoint -> of each partition of its topic the lowest and highest offset of what came."""


@dataclass(frozen=True, slots=True)
class Want:
    """Messages that an endpoint must get, or may.

    Attributes:
        pattern: Regular expression for Java of their subjects.
        first: First source offset.
        last: Last one.
        is_must: Whether they must come.
    """

    pattern: str
    first: int
    last: int
    is_must: bool


@dataclass(frozen=True, slots=True)
class Proven:
    """The beginning of a block that was read and found equal: it need not be there any more.

    Attributes:
        last: Last source offset of it.
        expected: Messages that had to come, and those that came and were allowed to.
        delivered: Records that came.
        musts: What was claimed of it; once that is more, it is read again.
    """

    last: int
    expected: int
    delivered: int
    musts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One block and endpoint to be read again message by message.

    Attributes:
        place: The ingress partition.
        source: The same by topic id; None: nothing can have been delivered from it.
        block: Number of the block.
        endpoint: Who.
        first: First source offset to look at.
        last: Last one that must be there.
        delivered_last: Last one whose delivery counts.
        wants: What must and may come.
        records: Member, and of each partition of its topic the lowest and highest offset to read
            there. Mostly that is the endpoint itself, but a queue may have several.
        is_passed: Whether every hop has passed all of it, so that what is not there is missing.
        generation: Of the offsets, as the reader of the source says. Spec: K9.
        is_own: Whether it only asks if what came to a member of a queue, and was not moved there,
            was that member's to get.
        is_rest: Whether it is about what comes after another case, and may be on its way: it only
            asks whether that is equal just now.
        is_sure: Whether no selector can have refused what did not come.
        may_move: Whether copies that say they were moved are believed: they take the others' place.
        generations: Those that were told of: deliveries of others are no copies of anything.
        evidence: Where the deliveries are.
        before: What was found equal before `first`.
        musts: What is claimed up to `last`.
        is_unequal: Whether digests alone tell that it differs.
        is_cut: Whether some of what came was in a topic that was recreated since.
    """

    place: TopicPartition
    source: SourceKey | None
    block: int
    endpoint: EndpointKey
    first: int
    last: int
    delivered_last: int
    wants: tuple[Want, ...]
    records: RecordRanges
    is_passed: bool
    generation: int = 0
    is_own: bool = False
    is_rest: bool = False
    is_sure: bool = True
    may_move: bool = False
    generations: tuple[Generation, ...] = (FIRST,)
    evidence: Sequence[str] = ()
    before: Proven | None = None
    musts: tuple[str, ...] = ()
    is_unequal: bool = False
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What reading a case message by message gave; offsets in order, at most `IDS_MAX` each.

    Attributes:
        expected: Messages that had to come, and those that came and were allowed to.
        delivered: Records that came.
        missing, missing_offsets: Messages that had to come and did not.
        duplicate, duplicate_offsets: Those that came more than once.
        unexpected, unexpected_offsets: Those that came and were not allowed to.
        corrupt, corrupt_offsets: Those that came with another content.
        begin: First source offset that the ingress still had.
        is_cut: Whether the endpoint did not have the first of its records any more.
    """

    expected: int
    delivered: int
    missing: int = 0
    missing_offsets: tuple[int, ...] = ()
    duplicate: int = 0
    duplicate_offsets: tuple[int, ...] = ()
    unexpected: int = 0
    unexpected_offsets: tuple[int, ...] = ()
    corrupt: int = 0
    corrupt_offsets: tuple[int, ...] = ()
    begin: int = 0
    is_cut: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether all owed messages arrived unchanged, each once, and no others did."""
        return not (self.missing or self.duplicate or self.unexpected or self.corrupt)


def case_findings(case: Case, outcome: CaseOutcome) -> Iterator[Finding]:
    """Yield a finding for each kind of fault that reading a case has shown."""
    faults: Sequence[tuple[BlockFault, int, tuple[int, ...]]] = (
        (FindingKind.MISSING, outcome.missing, outcome.missing_offsets),
        (FindingKind.DUPLICATE, outcome.duplicate, outcome.duplicate_offsets),
        (FindingKind.UNEXPECTED, outcome.unexpected, outcome.unexpected_offsets),
        (FindingKind.CORRUPT, outcome.corrupt, outcome.corrupt_offsets),
    )
    for kind, count, offsets in faults:
        if count:
            evidence = () if kind is FindingKind.MISSING else case.evidence
            told = (case.endpoint, count, offsets, case.generation, evidence)
            yield fault(kind, case.place, case.block, *told)


def endpoint_finding(
    kind: FindingKind,
    text: str,
    endpoint: EndpointKey,
    source: TopicPartition,
    first: int | None,
    last: int | None,
    count: int,
    *,
    anchor: str,
    ids: tuple[str, ...] = (),
    evidence: Sequence[str] = (),
) -> Finding:
    """Return what is wrong with messages of one source at one endpoint.

    Args:
        kind: What it is.
        text: One line for a person.
        endpoint: Who got them, or did not.
        source: The partition.
        first: Lowest offset concerned, or None.
        last: Highest one, or None.
        count: Messages concerned.
        anchor: What tells apart two faults alike in all else.
        ids: Identities of messages.
        evidence: Records that show it.
    """
    return Finding(
        kind=kind,
        text=text,
        ids=ids,
        endpoint=str(endpoint),
        source=str(source),
        first=first,
        last=last,
        count=count,
        anchor=anchor,
        node=endpoint.node,
        evidence=tuple(evidence),
    )


def trimmed(case: Case, begin: int) -> Finding:
    """Return that the ingress does not hold the beginning of a case any more: news."""
    text = (
        f"{case.place} was deleted up to {begin - 1} before it could be read again for"
        f" {case.endpoint}: nothing is certified about that"
    )
    span, anchor = (case.first, begin - 1, begin - case.first), f"trimmed {case.block}"
    kind = FindingKind.UNPROVEN
    return endpoint_finding(kind, text, case.endpoint, case.place, *span, anchor=anchor)


def consumed(case: Case) -> Finding:
    """Return that the endpoint does not hold all that it got of a case any more: news."""
    text = (
        f"{case.endpoint} was deleted in part before what it got of {case.place} could be read"
        " again: nothing is certified about that"
    )
    return endpoint_finding(
        FindingKind.UNPROVEN,
        text,
        case.endpoint,
        case.place,
        *(case.first, case.last, max(0, case.last - case.first + 1)),
        anchor=f"consumed {case.block}",
        evidence=case.evidence[:EVIDENCE_MAX],
    )


BlockFault = Literal[
    FindingKind.MISSING,
    FindingKind.DUPLICATE,
    FindingKind.UNEXPECTED,
    FindingKind.DISORDER,
    FindingKind.CORRUPT,
]
"""What can be wrong with single messages of a block at an endpoint."""

_TEXTS: Mapping[BlockFault, str] = {
    FindingKind.MISSING: "every hop has passed messages of {source} that {endpoint} did not get",
    FindingKind.DUPLICATE: "{endpoint} got messages of {source} more than once",
    FindingKind.UNEXPECTED: "{endpoint} got messages of {source} that were not published for it",
    FindingKind.DISORDER: "{endpoint} got messages of {source} after later ones",
    FindingKind.CORRUPT: "{endpoint} got messages of {source} with another content",
}


def fault(
    kind: BlockFault,
    place: TopicPartition,
    block: int,
    endpoint: EndpointKey,
    count: int = 0,
    offsets: Sequence[int] = (),
    generation: int = 0,
    evidence: Sequence[str] = (),
) -> Finding:
    """Return the finding about messages of one block at one endpoint.

    Whoever finds it, it has the same id.
    """
    return endpoint_finding(
        kind,
        _TEXTS[kind].format(source=place, endpoint=endpoint),
        endpoint,
        place,
        *(min(offsets, default=None), max(offsets, default=None), count),
        anchor=str(block),
        ids=tuple(message_id(str(place), generation, one) for one in offsets[:IDS_MAX]),
        evidence=evidence[:EVIDENCE_MAX],
    )
