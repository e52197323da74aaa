"""What blocks and claims tell of each other, for as long as it holds. Spec: K29, K31.

Who asks for something changes what one endpoint claims, and a batch adds to some blocks: all other
endpoints of all other blocks are owed what they were, and have what they had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.block import Block
from streaming.audits.claims import Claim, is_simple, unowed
from streaming.audits.generations import Generation
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.offers import Offer
from streaming.audits.verdicts import DigestVerdict

Claims = Sequence[Claim]
"""What an endpoint claims of an ingress partition; it is the same object as long as it is equal."""


@dataclass(slots=True)
class PartitionClaims:
    """What endpoints claim of one ingress partition.

    Attributes:
        version: Of the world by which they do.
        claims: By endpoint, where that was asked for.
        unowed: The same of what may come to those to whom nothing is promised.
        simple: Those of `claims` of which one digest tells all.
        before: What `claims` were by another version, and `unowed` were.
    """

    version: int
    claims: dict[EndpointKey, Claims] = field(default_factory=dict)
    unowed: dict[EndpointKey, Claims] = field(default_factory=dict)
    simple: dict[EndpointKey, None] = field(default_factory=dict)
    before: tuple[Mapping[EndpointKey, Claims], Mapping[EndpointKey, Claims]] = ({}, {})

    def by(self, version: int) -> PartitionClaims:
        """Return what they claim by a version."""
        if version == self.version:
            return self
        return PartitionClaims(version, before=(self.claims, self.unowed))

    def take(self, endpoint: EndpointKey, found: Claims) -> Claims:
        """Take what an endpoint claims, and return it."""
        known = self.claims[endpoint] = _kept(self.before[0].get(endpoint), found)
        if is_simple(known):
            self.simple[endpoint] = None
        return known

    def may(self, endpoint: EndpointKey) -> Claims:
        """Return the claims of an endpoint with nothing owed: all may be delivered, none must."""
        if (known := self.unowed.get(endpoint)) is None:
            found = [*map(unowed, self.claims[endpoint])]
            known = self.unowed[endpoint] = _kept(self.before[1].get(endpoint), found)
        return known


NOTHING_CLAIMED = PartitionClaims(-1)


def _kept(before: Claims | None, found: Claims) -> Claims:
    return found if before is None or before != found else before


@dataclass(slots=True)
class Promises:
    """Those to whom something is promised.

    Attributes:
        version: Of interest by which they were looked for last.
        endpoints: In order, each with its members: itself, or all of a queue of which one gets a
            message.
        members: All of these.
        alone: Those that are certified for themselves, and in no queue's name as well.
    """

    version: int
    endpoints: Mapping[EndpointKey, Sequence[EndpointKey]]
    members: Collection[EndpointKey]
    alone: Collection[EndpointKey]

    @classmethod
    def by(cls, interest: SubscriptionHistory, before: Promises | None) -> Promises:
        """Return those of just now; as long as they are the same, it is the same object."""
        if before is not None and before.version == interest.version:
            return before
        certified, shared = [*interest.certified()], dict(interest.shared())
        found = dict(sorted(({one: (one,) for one in certified} | shared).items()))
        if before is not None and before.endpoints == found:
            before.version = interest.version
            return before
        together = {member: None for members in shared.values() for member in members}
        alone = {one: None for one in certified if one not in together}
        return cls(interest.version, found, alone | together, alone)


@dataclass(frozen=True, slots=True)
class Basis:
    """What verdicts on a block rest on, claims apart.

    Attributes:
        stamp: Of the block.
        generations: Those that were told of its source.
        is_closed: Whether nothing more can be published to it.
    """

    stamp: int
    generations: Sequence[Generation]
    is_closed: bool


class UncertifiedRange(NamedTuple):
    """A range that is not certified yet; for people and the lab.

    Attributes:
        source: Ingress partition, as certificates spell it.
        block: Number of the block.
        endpoint: Who waits; `*` for all.
        last: Highest offset published so far.
        reason: What it waits for.
    """

    source: str
    block: int
    endpoint: str
    last: int
    reason: str

    @property
    def key(self) -> str:
        """Return what it is that waits."""
        return f"{self.source} {self.block} {self.endpoint} {self.last}"


@dataclass(slots=True)
class Rest:
    """A block that has been looked at, and is late: until something changes it is so as it was.

    Attributes:
        version: Of the world by which it was looked at.
        waiting: What waits, and for what.
        reasons: For what each of its tickets waits.
        undecided: Endpoints of which it is not known yet where a subscription ended.
    """

    version: int
    waiting: Sequence[UncertifiedRange]
    reasons: Sequence[str]
    undecided: Collection[EndpointKey]


@dataclass(slots=True)
class Comparison:
    """What digests have told of a block.

    Attributes:
        basis: What it rests on.
        offer: What the block holds.
        verdicts: By endpoint, each with the claims that it is about.
        through: Endpoints that have what they claim and nothing else, each with these claims, and
            whether that is certified; at a glance it is not.
        promises: Those to whom something was promised when `others` were found.
        others: Endpoints that got something though nothing is promised to them.
        alone: Those that are certified for themselves alone.
        everybody: All that are looked at, in order.
        rest: What is so until something changes.
    """

    basis: Basis
    offer: Offer
    verdicts: dict[EndpointKey, tuple[Claims, DigestVerdict]] = field(default_factory=dict)
    through: dict[EndpointKey, tuple[Claims, bool]] = field(default_factory=dict)
    promises: Promises | None = None
    others: Mapping[EndpointKey, Sequence[EndpointKey]] = field(default_factory=dict)
    alone: Collection[EndpointKey] = ()
    everybody: Mapping[EndpointKey, Sequence[EndpointKey]] = field(default_factory=dict)
    rest: Rest | None = None

    def look_at(self, block: Block, promises: Promises) -> None:
        """Know who is looked at: those to whom something is promised, and all that got something.

        What others got must be what they asked for.
        """
        if self.promises is promises:
            return
        self.promises, members = promises, promises.members
        self.alone = promises.alone
        self.others = {one: (one,) for one in block.receipts if one not in members}
        everybody = promises.endpoints
        if self.others:
            everybody = dict(sorted({**everybody, **self.others}.items()))
        self.everybody = everybody

    def is_through(self, endpoint: EndpointKey, claims: Claims, *, is_glance: bool) -> bool:
        """Return whether nothing is left to be done about an endpoint."""
        known = self.through.get(endpoint)
        return known is not None and known[0] is claims and (is_glance or known[1])
