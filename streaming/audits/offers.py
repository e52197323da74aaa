"""What a block holds, looked up by claims. Spec: K29, K31."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from streaming.audits.block import BUNDLE, Block, SubjectTally
from streaming.audits.claims import Claim, Level
from streaming.audits.matching import is_subject
from streaming.tables.bundles import BETWEEN
from streaming.tables.digest import NOTHING, Digest
from streaming.tables.filters import LITERAL, Shape

Bundled = tuple[Mapping[str, None], SubjectTally]
"""The filters that select a bundle, and what it holds."""


@dataclass(slots=True)
class Offer:
    """What was published to a block, or to some of one partition.

    Attributes:
        alone: Subject -> its messages, a part from each block.
        bundles: Filter -> the bundles that it selects.
        vague: Bundles by how many filters were known when they were made, the fewest first.
    """

    alone: dict[str, list[SubjectTally]] = field(default_factory=dict)
    bundles: dict[str, list[Bundled]] = field(default_factory=dict)
    vague: list[SubjectTally] = field(default_factory=list)

    @classmethod
    def of(cls, *blocks: Block) -> Self:
        """Return what some blocks hold."""
        made = cls()
        for block in blocks:
            for key, tally in block.subjects.items():
                made._take(key, tally)
        made.vague.sort(key=lambda one: one.known)
        return made

    def _take(self, key: str, tally: SubjectTally) -> None:
        if key.startswith(BUNDLE):
            selected = dict.fromkeys(key.removeprefix(BUNDLE).split(BETWEEN))
            self.vague.append(tally)
            for one in selected:
                self.bundles.setdefault(one, []).append((selected, tally))
        elif is_subject(key):
            self.alone.setdefault(key, []).append(tally)

    def claimed(self, claim: Claim) -> Iterator[SubjectTally]:
        """Yield what a claim is about, as far as that is known."""
        if self.alone:
            is_literal = Shape.of(claim.filter) == LITERAL
            for subject in [claim.filter] if is_literal else self.alone:
                if subject in self.alone and claim.concerns(subject):
                    yield from self.alone[subject]
        for selected, tally in self.bundles.get(claim.filter, ()):
            between = claim.between
            if all(one in selected for one in between.joins) and not any(
                one in selected for one in between.kept
            ):
                yield tally

    def whole(self, claims: Sequence[Claim]) -> Digest | None:
        """Return all that one plain claim is about; None where it takes a closer look.

        Most endpoints ask for one filter, of which one bundle holds all that a block has: of many
        endpoints to look at each as if it were another was most of what a judgement took.
        """
        if len(claims) != 1 or self.alone:
            return None
        claim = claims[0]
        is_plain = claim.until is None and not (claim.between.joins or claim.between.kept)
        if not is_plain or (self.vague and claim.newest >= self.vague[0].known):
            return None
        found = self.bundles.get(claim.filter, ())
        if len(found) > 1:
            return None
        return found[0][1].digest if found else NOTHING

    def is_claimed(self, claim: Claim) -> bool:
        """Return whether a claim is about something, or may be."""
        found = (*self.vague_for(claim), next(self.claimed(claim), None))
        return any(one is not None for one in found)

    def levels(self, claims: Sequence[Claim]) -> Iterator[tuple[Level, SubjectTally]]:
        """Yield each tally that claims select, with how much of it is owed."""
        found: dict[int, tuple[Level, SubjectTally]] = {}
        for claim in claims:
            for tally in self.claimed(claim):
                if claim.until is not None and tally.first > claim.until:
                    continue  # the subscription had ended by then
                level = level_of(claim, tally)
                if id(tally) not in found or found[id(tally)][0] < level:
                    found[id(tally)] = (level, tally)
        yield from found.values()

    def vague_for(self, claim: Claim) -> Iterator[SubjectTally]:
        """Yield the bundles that a claim may select in part, as its filters are newer."""
        for tally in self.vague:
            if claim.newest < tally.known:
                return
            yield tally

    def is_vague(self, claims: Sequence[Claim]) -> bool:
        """Return whether of some bundles it is not known what claims are about."""
        return any(next(self.vague_for(claim), None) is not None for claim in claims)

    def is_undecided(self, claims: Sequence[Claim]) -> bool:
        """Return whether it is unknown yet if some is owed: where a subscription ended decides."""
        for claim in claims:
            if (undecided := claim.undecided) is None:
                continue
            for tally in (*self.claimed(claim), *self.vague_for(claim)):
                if undecided.level(tally.first, tally.last) is not Level.MAY:
                    return True
        return False

    def is_cut_off(self, claims: Sequence[Claim]) -> bool:
        """Return whether a subscription ended within a tally, so that only a part is allowed."""
        for claim in claims:
            if (until := claim.until) is not None:
                for tally in self.claimed(claim):
                    if tally.first <= until < tally.last:
                        return True
        return False

    def may_owe(self, claims: Sequence[Claim]) -> bool:
        """Return whether any tally may be owed without that being known yet."""
        return any(
            level_of(claim, tally) is not Level.MAY
            for claim in claims
            for tally in self.vague_for(claim)
        )


def level_of(claim: Claim, tally: SubjectTally) -> Level:
    """Return how much of the messages that a claim selects is owed."""
    return Level.MAY if claim.span is None else claim.span.level(tally.first, tally.last)
