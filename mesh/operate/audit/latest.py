"""What the auditor wrote: findings and certificates, the newest under each key. Spec: K29."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from mesh.model.findings import NEWS, FindingKind
from mesh.operate.audit.entries import Entry, number

FRESH_S = 15.0
"""An auditor silent for this long, in seconds, does not count: it reports every 5.

Nor does one whose last report is this far in the future: it may have ended long ago, by a clock
that has been set back since.
"""

POSITION = b"position"
"""Key of the auditor's status; other records of its topic come from strangers."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What the auditor has found so far.

    Attributes:
        findings: As in lab.md 2, oldest first.
        certificates: As in lab.md 2, the newest of each range.
        has_topics: Whether an auditor ever wrote here.
        status: How far the auditor is, in its own words; empty if it has reported nothing.
        hours: Totals of certificates of closed blocks, by source, endpoint and hour.
        canaries: How long small messages of the auditor take, by way.
        removed: Findings that the auditor counts, but that are no longer in its topic.
        certified: Endpoints that were certified at another time than these certificates were.
    """

    findings: Sequence[Entry]
    certificates: Sequence[Entry]
    has_topics: bool
    status: Entry = field(default_factory=dict)
    hours: Sequence[Entry] = ()
    canaries: Sequence[Entry] = ()
    removed: int = 0
    certified: Mapping[str, None] = field(default_factory=dict)

    def doubts(self, wall_ms: int) -> Sequence[str]:
        """Return why the mesh is not proven sound, one line each; empty if it is.

        Args:
            wall_ms: Now, in milliseconds since 1970.
        """
        age_s = self.age_s(wall_ms)
        if age_s is None:
            return ["no auditor has said anything here"]
        doubts: list[str] = []
        if age_s > FRESH_S:
            doubts.append(
                f"the auditor was last heard {age_s:.0f} s ago: it does not run, or hangs"
            )
        if age_s < -FRESH_S:
            doubts.append(
                f"the auditor was last heard {-age_s:.0f} s from now: a clock is wrong, its own or"
                " this one, and whether it runs is not known"
            )
        if self.removed:
            doubts.append(
                f"findings that somebody removed from the auditor's topic: {self.removed}"
            )
        doubts += [
            f"{kafka} is not read: {source.get('unread')}"
            for kafka, source in self.sources().items()
            if source.get("unread")
        ]
        kinds = Counter(str(one.get("kind")) for one in self.findings)
        doubts += [f"findings: {kinds[kind]} {kind}" for kind in sorted(kinds) if kind not in NEWS]
        if (split := self.split()) is not None:
            doubts.append(str(split.get("text")))
        unequal = sum(not one.get("equal") for one in self.certificates)
        if unequal:
            doubts.append(f"certificates that differ: {unequal}")
        differing = sum(int(number(one.get("differing"))) for one in self.hours)
        if differing > unequal:
            doubts.append(f"certificates of the last 30 days that differ: {differing}")
        unsure = max(
            sum(is_unsure(one) for one in self.certificates),
            sum(int(number(one.get("unsure"))) for one in self.hours),
        )
        if unsure:
            doubts.append(f"certificates that are no proof: {unsure}")
        certified = {**self.certified, **_endpoints_of(self)}
        endpoints = self.status.get("endpoints", [])
        uncovered = [one for one in endpoints if one not in certified]
        if uncovered or not certified:
            doubts.append(f"nothing is certified of {', '.join(uncovered) or 'any endpoint'}")
        return doubts

    def split(self, at_ms: float = inf) -> Entry | None:
        """Return the finding of a split that existed at a moment, in ms since 1970, or None.

        A finding that parts have joined may leave others apart.
        """
        parts = [
            one
            for one in self.findings
            if one.get("kind") in (FindingKind.SPLIT, FindingKind.HEAL)
            and number(one.get("first_seen_ms")) <= at_ms
        ]
        if not parts:
            return None
        newest = parts[-1]
        is_apart = bool(newest.get("link")) and len(newest.get("ids", ())) > 1
        return newest if newest.get("kind") == FindingKind.SPLIT or is_apart else None

    def age_s(self, wall_ms: int) -> float | None:
        """Return how long ago the auditor reported, in seconds; None: never."""
        if not self.status:
            return None
        return (wall_ms - number(self.status.get("at_ms"))) / 1000

    def is_heard(self, wall_ms: int) -> bool:
        """Return whether the auditor runs."""
        age_s = self.age_s(wall_ms)
        return age_s is not None and abs(age_s) <= FRESH_S

    def sources(self) -> Mapping[str, Entry]:
        """Return the state of reading, by Kafka cluster."""
        sources = self.status.get("sources")
        found = sources if isinstance(sources, Mapping) else {}
        return {str(k): one for k, one in sorted(found.items()) if isinstance(one, Mapping)}

    def read_ms(self) -> int | None:
        """Return the moment before which everything written has been read, in ms since 1970.

        None if a Kafka cluster does not say.
        """
        told = [one.get("read_ms") for one in self.sources().values()]
        known = [int(one) for one in told if isinstance(one, (int, float))]
        return min(known) if known and len(known) == len(told) else None

    def finding(self, id_: str) -> Entry | None:
        """Return the finding with this id, or the only one whose id begins with it."""
        found = [one for one in self.findings if str(one.get("id", "")).startswith(id_)]
        exact = [one for one in found if one.get("id") == id_]
        return exact[0] if exact else found[0] if len(found) == 1 else None

    def certificates_of(self, finding: Entry) -> Sequence[Entry]:
        """Return the certificates of the blocks and endpoint that a finding is about."""
        return [
            one
            for one in self.certificates
            if one.get("source") == finding.get("source")
            and finding.get("endpoint") in (None, one.get("endpoint"))
            and number(one.get("from")) <= number(finding.get("last"))
            and number(finding.get("first")) <= number(one.get("to"))
        ]

    def within(self, from_ms: int | None, to_ms: int | None) -> Audited:
        """Return what was found and certified between two moments, in ms since 1970.

        A split that began earlier and had not ended by then counts as found, and an endpoint that
        was idle all the while counts as certified if it ever was.

        Args:
            from_ms: The first moment; None for as long as anything is known.
            to_ms: The last moment; None for now.
        """
        first, last = from_ms or 0, inf if to_ms is None else to_ms
        split = self.split(last)
        return replace(
            self,
            findings=[
                one
                for one in self.findings
                if one is split
                or (
                    number(one.get("last_seen_ms")) >= first
                    and number(one.get("first_seen_ms")) <= last
                )
            ],
            certificates=[
                one for one in self.certificates if first <= number(one.get("at_ms")) <= last
            ],
            hours=[
                one
                for one in self.hours
                if number(one.get("to_ms")) > first and number(one.get("from_ms")) <= last
            ],
            certified=_endpoints_of(self),
        )

    def coverage(self) -> Mapping[str, Coverage]:
        """Return how far each endpoint is certified, including those that are not at all."""
        found: dict[str, Coverage] = {
            str(one): Coverage() for one in self.status.get("endpoints", [])
        }
        for one in self.certificates:
            known = found.setdefault(str(one.get("endpoint")), Coverage())
            is_equal = bool(one.get("equal"))
            found[str(one.get("endpoint"))] = Coverage(
                known.certificates + 1,
                known.differing + (not is_equal),
                known.messages + int(number(one.get("delivered")) if is_equal else 0),
                max(known.at_ms, int(number(one.get("at_ms")))),
            )
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far one endpoint is certified.

    Attributes:
        certificates: How many there are.
        differing: How many of these report a difference.
        messages: Deliveries that equal certificates cover.
        at_ms: When the newest was issued, in ms since 1970.
    """

    certificates: int = 0
    differing: int = 0
    messages: int = 0
    at_ms: int = 0


def _endpoints_of(found: Audited) -> Mapping[str, None]:
    return {str(one.get("endpoint")): None for one in (*found.certificates, *found.hours)}


def is_unsure(certificate: Entry) -> bool:
    """Return whether an equal certificate proves nothing: what is missing may have been owed.

    A certificate without that field was written before it existed.
    """
    return bool(certificate.get("equal")) and certificate.get("sure") is False
