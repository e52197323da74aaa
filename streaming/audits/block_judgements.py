"""One judgement: what it looks at, and what of a block is to be read message by message.

Spec: K29, K31.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from mesh.model.topics import TopicNames
from streaming.audits.block import Block, Certificate, Moments, Receipt
from streaming.audits.blocks import Blocks
from streaming.audits.cases import Case, RecordRanges
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.claims import Claim, unowed
from streaming.audits.comparisons import Comparison
from streaming.audits.consumed_records import ConsumedRecords
from streaming.audits.eras import Eras
from streaming.audits.finding_register import Register, records
from streaming.audits.hop_progress import HopProgress
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.names import Names
from streaming.audits.offers import Offer
from streaming.audits.spans import Carriers, claims_on
from streaming.audits.tickets import Ends, Sight, Ticket
from streaming.audits.verdicts import is_proof, musts_of, wants_of
from streaming.tables.digest import BLOCK_OFFSETS, Digest
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of

BLOCK_QUIET_S = 2.0
"""An open block without news for so long is certified for its range so far. Spec: K29."""


@dataclass(slots=True)
class World:
    """What a judgement looks at besides the blocks; all of it belongs to other audits.

    Attributes:
        names: Of nodes and topics.
        interest: What endpoints ask for, and from where on sources knew it.
        progress: How far nodes are with what they read.
        heads: How far every chain goes.
        carriers: Over which outbox partitions a node got messages of a source.
        eras: Which topology counts for which message.
        read: Next offset that the auditor reads of every topic partition.
        register: Where findings go.
        ends: Where brokers say that what nodes write ends.
        read_s: All that was written before this moment has been read, in every Kafka cluster.
        ways: How many ways of sources into nodes have been seen.
        consumed: What may have been deleted from endpoints before it was read.
        forgotten: Outbox partition -> offset up to which it may hold frames of any source.
    """

    names: Names
    interest: SubscriptionHistory
    progress: HopProgress
    heads: Mapping[ChainKey, ChainHead]
    carriers: Carriers
    eras: Eras
    read: Mapping[TopicPartition, int]
    register: Register
    ends: Ends
    read_s: float = inf
    ways: int = 0
    consumed: ConsumedRecords = field(default_factory=lambda: ConsumedRecords(""))
    forgotten: Mapping[TopicPartition, int] = field(default_factory=dict)
    _sight: Sight | None = field(default=None, init=False, repr=False)

    @property
    def version(self) -> int:
        """A number that rises whenever what any endpoint is owed may have changed."""
        return self.interest.version + self.names.version + self.ways

    def sight(self) -> Sight:
        """Return what tickets are followed by in one judgement."""
        if self._sight is None:
            eras = self.eras
            told = self.heads, self.names, self.read, self.ends
            self._sight = Sight(*told, eras.leads, eras.is_left, self.forgotten)
        return self._sight


class Claimant(NamedTuple):
    """Who claims what of a block, and got what.

    Attributes:
        endpoint: Who.
        members: Itself, or all of a queue of which one gets a message.
        claims: What these claim together.
        delivered: What they got together.
    """

    endpoint: EndpointKey
    members: Sequence[EndpointKey]
    claims: Sequence[Claim]
    delivered: Digest


class MessageCounts(NamedTuple):
    """Messages expected (owed, or delivered and allowed), and records delivered."""

    expected: int
    delivered: int


@dataclass(slots=True)
class BlockJudgement:
    """One block under judgement, until its cases are settled.

    Attributes:
        place: The ingress partition.
        number: Of the block.
        block: Its state.
        comparison: What digests have told of it as it is.
        late: Endpoints that are not certified.
        passed: Endpoints of which every hop has passed what is not there.
        owners: Members of queues of which each message is looked at: it may not be theirs.
        undecided: Endpoints of which it is not known yet where a subscription ended.
        is_closed: Whether nothing more can be published to the block.
        is_put_off: Whether a case of it could not be read just now.
        is_glance: Whether it only looks for what is late or has another content: it is not time
            to certify the block.
        may_read: Whether the block was not read message by message just now.
        owed: What had to come to the endpoints that are read, where all of it had to.
        source: The ingress partition, as certificates spell it.
        moments: Between which times offsets were routed, of those that certificates speak for.
        plain: Generations that deliveries say, and whether digests can stand for them.
        told: Of those with faults, how many messages had to come, and did, as far as was read.
    """

    place: TopicPartition
    number: int
    block: Block
    comparison: Comparison
    late: dict[EndpointKey, None] = field(default_factory=dict)
    passed: dict[EndpointKey, Ticket] = field(default_factory=dict)
    owners: dict[EndpointKey, None] = field(default_factory=dict)
    undecided: dict[EndpointKey, None] = field(default_factory=dict)
    is_closed: bool = False
    is_put_off: bool = False
    is_glance: bool = False
    may_read: bool = True
    owed: dict[EndpointKey, Digest | None] = field(default_factory=dict)
    told: dict[EndpointKey, MessageCounts] = field(default_factory=dict)
    source: str = field(init=False)
    moments: dict[tuple[int, int], Moments] = field(default_factory=dict)
    plain: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Spell the partition once."""
        self.source = str(self.place)

    @property
    def offer(self) -> Offer:
        """Return what the block holds."""
        return self.comparison.offer

    @property
    def others(self) -> Collection[EndpointKey]:
        """Return those to whom nothing is promised.

        There are no certificates of them, unless one tells of a fault.
        """
        return self.comparison.others


@dataclass(slots=True)
class Certification:
    """One pass over all blocks, until its cases are settled.

    Attributes:
        blocks: All of them.
        world: The other audits.
        now_s: The auditor's clock, in seconds.
        cases: What is to be read message by message.
        judgements: Of the blocks that are looked at.
        issued: Certificates that say something new, by key.
    """

    blocks: Blocks
    world: World
    now_s: float
    cases: list[Case] = field(default_factory=list)
    judgements: list[BlockJudgement] = field(default_factory=list)
    issued: dict[str, Certificate] = field(default_factory=dict)

    def judgement_of(self, case: Case) -> BlockJudgement:
        """Return the judgement that a case belongs to."""
        return next(
            one for one in self.judgements if one.place == case.place and one.number == case.block
        )


def is_plain(judgement: BlockJudgement, told: Collection[int], world: World) -> bool:
    """Return whether digests suffice: all deliveries are of the generation they stand for."""
    generations = tuple(told)
    if (found := judgement.plain.get(generations)) is None:
        last = (judgement.number + 1) * BLOCK_OFFSETS - 1
        source = world.names.key(judgement.place)
        found = world.progress.generations.is_plain(source, generations, last)
        judgement.plain[generations] = found
    return found


def doubted_of(judgement: BlockJudgement, claimant: Claimant, world: World) -> Sequence[Claimant]:
    """Return the members of a queue that got what may be another's, each with its own claims.

    What was moved to a member may be anything of its queue's; digests of all members together do
    not tell who got the rest. Where each claims all that any of them does, it is its own.
    """
    members, claims = claimant.members, claimant.claims
    if len(members) == 1:
        return ()
    found: list[Claimant] = []
    offer, receipts = judgement.offer, judgement.block.receipts
    wanted = sum(1 for _ in offer.levels(claims))
    for member in members:
        if member in receipts and receipts[member].unmoved:
            own = claims_of(judgement.place, member, world)
            if offer.is_vague(claims) or sum(1 for _ in offer.levels(own)) < wanted:
                found.append(Claimant(member, (member,), own, receipts[member].digest))
    return found


def claims_of(place: TopicPartition, endpoint: EndpointKey, world: World) -> Sequence[Claim]:
    """Return what an endpoint claims of an ingress partition."""
    origin = place_of(world.progress.prefix, place.topic).node
    way, eras = (place, origin, endpoint.node), world.eras
    asked = world.interest.subscriptions.get(endpoint, ())
    has_home = any(one.policy == "home" for one in asked)
    return claims_on(
        world.interest,
        endpoint,
        world.names.uuids.get(endpoint.node),
        place,
        world.names.key(place),
        is_local=origin == endpoint.node,
        carriers=world.carriers,
        stretches=eras.stretches(*way),
        of_neighbours=eras.stretches(*way, of_neighbours=True) if has_home else (),
        origin=origin,
        is_read=eras.is_read,
        below=_below(place, endpoint, world),
    )


def moved_to(
    place: TopicPartition, endpoint: EndpointKey, receipt: Receipt, world: World
) -> Sequence[Claim]:
    """Return what an endpoint may have got beyond its own, where some of it was moved there.

    That may be anything of its queue's: nobody is owed it.
    """
    if receipt.unmoved == receipt.digest.count:
        return ()
    others = world.interest.others_of(endpoint)
    claims = [claim for one in others for claim in claims_of(place, one, world)]
    return [replace(unowed(claim), until=None) for claim in claims]


def _below(place: TopicPartition, endpoint: EndpointKey, world: World) -> float:
    """Return below which offset something may have been deleted unread, at any queue member."""
    if not world.consumed.bounds:
        return 0
    members = [endpoint, *world.interest.sharing(endpoint)]
    return max(world.consumed.below(one, place) for one in members)


def case_of(
    certification: Certification,
    judgement: BlockJudgement,
    claimant: Claimant,
    *,
    is_unequal: bool = False,
) -> Case:
    """Return what is to be read of an endpoint: up to where every hop has passed, if it has.

    Args:
        certification: All that is known of blocks, and of the mesh.
        judgement: Of the block.
        claimant: The endpoint, and what came there.
        is_unequal: Whether counts or digests are known to disagree.
    """
    block, number, world = judgement.block, judgement.number, certification.world
    endpoint, members, claims, delivered = claimant
    end = (number + 1) * BLOCK_OFFSETS - 1
    ticket = judgement.passed.get(endpoint)
    is_whole = ticket is None or ticket.bound >= block.last
    last = block.last if ticket is None else min(block.last, ticket.bound)
    is_own = endpoint in judgement.owners
    source = world.names.key(judgement.place)
    generations = tuple(world.progress.generations.of(source))
    before = None if is_own else block.proven.get(endpoint)
    if before is not None and before.musts != musts_of(claims, before.last, generations):
        before = None
    first = number * BLOCK_OFFSETS if before is None else before.last + 1
    wants = wants_of(claims, first, end)
    ranges = {one: dict(block.receipts[one].records) for one in members if one in block.receipts}
    is_quiet = not 0 <= certification.now_s - block.changed_s < BLOCK_QUIET_S
    return Case(
        place=judgement.place,
        source=source,
        block=number,
        endpoint=endpoint,
        first=first,
        last=last,
        delivered_last=end if is_quiet and is_whole else last,
        wants=tuple(want for want in wants if not (is_own and want.is_must)),
        records=ranges,
        is_passed=ticket is not None,
        generation=world.progress.generation_of.get(judgement.place, 0),
        is_own=is_own,
        is_sure=is_proof(judgement.offer, delivered, claims),
        may_move=any(map(world.interest.may_move, members)),
        generations=generations,
        evidence=evidence_of(world.progress.prefix, ranges),
        before=before,
        musts=musts_of(claims, last, generations),
        is_unequal=is_unequal,
        is_cut=any(block.receipts[one].is_cut for one in ranges),
    )


def evidence_of(prefix: str, ranges: RecordRanges) -> Sequence[str]:
    """Return where deliveries are, as findings spell it."""
    names = TopicNames(prefix)
    return tuple(
        records(TopicPartition(names.endpoint(one.node, one.name), partition), *range_)
        for one, of_partitions in ranges.items()
        for partition, range_ in sorted(of_partitions.items())
    )
