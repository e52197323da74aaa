"""Certificates: what had to be delivered against what was, by digest or message by message.

Spec: K29, K30, K31.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from mesh.model.topics import TopicNames
from streaming.audits.blocks import Block, Blocks, Certificate
from streaming.audits.cases import (
    Case,
    Outcome,
    Proven,
    RecordRanges,
    case_findings,
    fault,
    trimmed,
)
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.eras import Eras
from streaming.audits.findings import FindingKind, Register, records
from streaming.audits.hours import Hours
from streaming.audits.interest import Carriers, Claim, EndpointKey, Interest
from streaming.audits.names import Names
from streaming.audits.offers import Offer
from streaming.audits.passing import Ends, Passing, Sight, Ticket
from streaming.audits.verdicts import Verdict, compare, is_proof, musts_of, wants_of
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of

QUIET_S = 2.0
"""An open block without news for so long is certified for its range so far. Spec: K29."""

RENEW_MS = 12 * 3_600_000
"""Certificates are kept for two days: those of blocks that stay open are written again so often."""

PATIENCE_S = 4.0
"""A busy block is certified for its range so far this often: a loss under a trickle shows as soon
as one in a quiet block. Spec: K29."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A range that is not certified yet, and what it waits for; for people and the lab."""

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
class World:
    """What a judgement looks at besides the blocks; all of it belongs to other audits.

    `read_s`: all that was written before this moment has been read, in every Kafka cluster.
    """

    names: Names
    interest: Interest
    passing: Passing
    heads: Mapping[ChainKey, ChainHead]
    carriers: Carriers
    eras: Eras
    read: Mapping[TopicPartition, int]
    register: Register
    ends: Ends
    read_s: float = inf

    def sight(self) -> Sight:
        """Return what tickets are followed by."""
        return Sight(self.heads, self.names, self.read, self.ends, self.eras.leads)


@dataclass(slots=True)
class Judgement:
    """One block under judgement, until its cases are settled.

    Attributes:
        place: The ingress partition.
        number: Of the block.
        block: Its state.
        late: Endpoints that are not certified.
        offer: What the block holds.
        passed: Endpoints of which every hop has passed what is not there.
        others: Endpoints to which nothing is promised: there are no certificates of them, unless
            one tells of a fault.
        owners: Members of queues of which each message is looked at: it may not be theirs.
        is_put_off: Whether a case of it could not be read just now.
    """

    place: TopicPartition
    number: int
    block: Block
    late: dict[EndpointKey, None]
    offer: Offer = field(default_factory=Offer)
    passed: dict[EndpointKey, Ticket] = field(default_factory=dict)
    others: Mapping[EndpointKey, Sequence[EndpointKey]] = field(default_factory=dict)
    owners: dict[EndpointKey, None] = field(default_factory=dict)
    is_put_off: bool = False


@dataclass(slots=True)
class Round:
    """One judgement of all blocks: the cases to read, and the blocks that wait for them."""

    cases: list[Case] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)

    def judgement_of(self, case: Case) -> Judgement:
        """Return the judgement that a case belongs to."""
        return next(
            one for one in self.judgements if one.place == case.place and one.number == case.block
        )


@dataclass(slots=True)
class Certifier:
    """Issues certificates.

    Attributes:
        blocks: What is not certified for good.
        unpublished: Certificates to be written, by key.
        waiting: What is not certified, as of the last judgement.
        hours: What closed blocks sum up to.
        renewed_ms: When certificates of open blocks were written again the last time.
    """

    blocks: Blocks
    unpublished: dict[str, Certificate] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    hours: Hours = field(default_factory=Hours)
    renewed_ms: int = 0

    def judge(self, world: World, now_s: float, *, is_last: bool = False) -> Round:
        """Certify what digests can certify; return what must be read message by message.

        Every case of the round is settled with `settle`, then `finish` ends it.

        Args:
            world: The other audits.
            now_s: The auditor's clock, in seconds.
            is_last: Certify open ranges at once: there will be no later judgement.
        """
        self.waiting = []
        for finding in self.blocks.take_mislabelled():
            world.register.add(finding)
        round_ = Round()
        claims: dict[tuple[TopicPartition, EndpointKey], Sequence[Claim]] = {}
        for place, number, block in self.blocks.walk():
            if block.judged == (block.stamp, world.interest.version):
                continue
            for ticket in block.tickets.values():
                world.passing.advance(ticket, world.sight())
            if is_last or _is_due(block, now_s):
                self._judge_block(round_, place, number, block, world, claims, now_s)
            else:
                self._wait(Judgement(place, number, block, {}), "*", "news to settle")
        return round_

    def _judge_block(
        self,
        round_: Round,
        place: TopicPartition,
        number: int,
        block: Block,
        world: World,
        claims: dict[tuple[TopicPartition, EndpointKey], Sequence[Claim]],
        now_s: float,
    ) -> None:
        block.judged_s = now_s
        judgement = Judgement(place, number, block, {}, Offer.of(block))
        offer = judgement.offer
        round_.judgements.append(judgement)
        promised = _endpoints(world)
        judgement.others = _others(block, promised)
        for endpoint, members in sorted({**promised, **judgement.others}.items()):
            claim = claims.get((place, endpoint))
            if claim is None:
                found = [one for member in members for one in claims_of(place, member, world)]
                claim = claims[place, endpoint] = found
            if not world.interest.is_settled(endpoint, claim, number * BLOCK_OFFSETS):
                continue
            doubted = _doubted(judgement, members, claim, world)
            for member, own in doubted.items():
                judgement.owners[member] = None
                told = (member, (member,), own, Verdict.UNSURE)
                self._look(round_, judgement, *told, world, now_s)
            if any(member in judgement.late for member in doubted):
                judgement.late[endpoint] = None  # until it is known who got what
                continue
            delivered = block.delivered(members)
            verdict, expected = compare(offer, delivered, claim)
            if verdict is Verdict.EQUAL and not _is_plain(judgement, members, world):
                verdict = Verdict.UNSURE
            if verdict is Verdict.EQUAL:
                sure = is_proof(offer, delivered, claim)
                counts = (block.last, expected, expected)
                self._issue(judgement, endpoint, *counts, world, members, is_sure=sure)
                _take_back(judgement, endpoint, world)
            elif verdict is not Verdict.NOTHING:
                self._look(round_, judgement, endpoint, members, claim, verdict, world, now_s)

    def _look(
        self,
        round_: Round,
        judgement: Judgement,
        endpoint: EndpointKey,
        members: Sequence[EndpointKey],
        claims: Sequence[Claim],
        verdict: Verdict,
        world: World,
        now_s: float,
    ) -> None:
        """Have what digests cannot tell read message by message, or wait until all has passed."""
        block, stamp = judgement.block, (judgement.block.stamp, world.interest.version)
        if stamp in (block.cleared.get(endpoint), block.settled.get(endpoint)):
            return
        judgement.late[endpoint] = None
        ticket = block.tickets.get(endpoint.node)
        is_passed = ticket is not None and ticket.is_done
        if ticket is not None and is_passed:
            judgement.passed[endpoint] = ticket
        is_telling = verdict in (Verdict.UNSURE, Verdict.CORRUPT)
        if is_passed or (is_telling and block.looked.get(endpoint) != stamp):
            block.looked[endpoint] = stamp
            round_.cases.append(_case(judgement, endpoint, members, claims, world, now_s))

    def settle(self, round_: Round, case: Case, outcome: Outcome, world: World) -> None:
        """Take what reading a case gave."""
        judgement = round_.judgement_of(case)
        if case.is_own:
            self._settle_own(judgement, case, outcome, world)
            return
        is_all_there = bool(outcome.corrupt) and not outcome.missing
        if not (outcome.is_equal or case.is_passed or is_all_there):
            return
        before = Proven(-1, 0, 0, ()) if case.before is None else case.before
        expected = before.expected + outcome.expected
        delivered = before.delivered + outcome.delivered
        self._issue(
            judgement,
            case.endpoint,
            case.last,
            expected,
            delivered,
            world,
            tuple(case.records),
            is_equal=outcome.is_equal,
            is_sure=case.is_sure,
            first=outcome.begin if case.before is None else 0,
        )
        if outcome.begin > case.first:
            world.register.add(trimmed(case, outcome.begin))
        if outcome.is_equal and outcome.begin <= case.first:
            proven = Proven(case.last, expected, delivered, case.musts)
            judgement.block.proven[case.endpoint] = proven
        findings = list(case_findings(case, outcome))
        for finding in findings:
            world.register.replace(finding)
        _take_back(judgement, case.endpoint, world, keep=[finding.id for finding in findings])
        # What came after the bound of a ticket is looked at with the next one.
        if outcome.is_equal and case.last >= judgement.block.last:
            judgement.late.pop(case.endpoint, None)
            stamp = (judgement.block.stamp, world.interest.version)
            judgement.block.cleared[case.endpoint] = stamp

    def _settle_own(self, judgement: Judgement, case: Case, outcome: Outcome, world: World) -> None:
        """Take whether a member of a queue got its own messages only; its queue is certified."""
        block = judgement.block
        strange = fault(FindingKind.UNEXPECTED, case.place, case.block, case.endpoint)
        if not outcome.unexpected:
            block.cleared[case.endpoint] = (block.stamp, world.interest.version)
            judgement.late.pop(case.endpoint, None)
            world.register.withdraw(strange.id)
        elif case.is_passed:
            told = [one for one in case_findings(case, outcome) if one.id == strange.id]
            for finding in told:
                world.register.replace(finding)

    def put_off(self, round_: Round, case: Case) -> None:
        """Leave a case for a later judgement: a Kafka cluster that it concerns does not answer."""
        judgement = round_.judgement_of(case)
        judgement.is_put_off = True
        judgement.block.looked.pop(case.endpoint, None)

    def finish(self, round_: Round, world: World, now_s: float) -> None:
        """End a judgement: what is late is followed, what is settled rests until news come."""
        for judgement in round_.judgements:
            block = judgement.block
            stamp = (block.stamp, world.interest.version)
            if judgement.is_put_off:
                for endpoint in judgement.late:
                    self._wait(judgement, endpoint, "a Kafka cluster to answer")
                continue
            for endpoint, ticket in judgement.passed.items():
                block.tickets.pop(endpoint.node, None)
                if endpoint in judgement.late and ticket.bound >= block.last:
                    block.settled[endpoint] = stamp
                    del judgement.late[endpoint]
            if not judgement.late:
                block.judged = stamp
                block.tickets.clear()
                continue
            for endpoint in judgement.late:
                node = endpoint.node
                if node not in block.tickets:
                    block.tickets[node] = world.passing.open(judgement.place, block.last, node)
                    world.passing.advance(block.tickets[node], world.sight())
                reason = world.passing.where(block.tickets[node], world.read)
                self._wait(judgement, endpoint, reason)
        for place in self.blocks.open:
            self.blocks.route(place, world.passing.position(place), now_s)
        self.unpublished.update({one.key: one for one in self.blocks.retimed()})
        now_ms = world.register.now_ms
        for certificate in self.blocks.forget(now_s, world.read, world.read_s):
            self.hours.close(certificate, now_ms)
        if not 0 <= now_ms - self.renewed_ms < RENEW_MS:
            self.renewed_ms = now_ms
            for _, _, block in self.blocks.walk():
                self.unpublished.update({one.key: one for one in block.issued.values()})

    def _wait(self, judgement: Judgement, endpoint: EndpointKey | str, reason: str) -> None:
        block = judgement.block
        told = (str(judgement.place), judgement.number, str(endpoint), block.last, reason)
        self.waiting.append(Waiting(*told))

    def _issue(
        self,
        judgement: Judgement,
        endpoint: EndpointKey,
        last: int,
        expected: int,
        delivered: int,
        world: World,
        members: Sequence[EndpointKey],
        *,
        is_equal: bool = True,
        is_sure: bool = True,
        first: int = 0,
    ) -> None:
        place, number, issued = judgement.place, judgement.number, judgement.block.issued
        stamp = (judgement.block.stamp, world.interest.version)
        strays = [one for one in judgement.owners if one in members]
        is_equal &= not any(judgement.block.settled.get(one) == stamp for one in strays)
        if is_equal and endpoint in judgement.others and endpoint not in issued:
            return
        is_closed = self.blocks.is_closed(place, number, world.read.get(place, 0))
        end = (number + 1) * BLOCK_OFFSETS - 1
        certificate = Certificate(
            source=str(place),
            block=number,
            first=max(first, number * BLOCK_OFFSETS),
            last=end if is_closed and last == judgement.block.last else last,
            endpoint=str(endpoint),
            expected=expected,
            delivered=delivered,
            equal=is_equal,
            partial=not is_closed,
            sure=is_sure,
            digest=judgement.block.delivered(members),
        )
        certificate = self.blocks.with_times(place, certificate)
        if issued.get(endpoint) != certificate:
            issued[endpoint] = certificate
            self.unpublished[certificate.key] = certificate


def _is_plain(judgement: Judgement, members: Sequence[EndpointKey], world: World) -> bool:
    """Say whether all that came is of the one generation that digests can stand for."""
    last = (judgement.number + 1) * BLOCK_OFFSETS - 1
    source = world.names.key(judgement.place)
    generations = judgement.block.generations(members)
    return world.passing.turns.is_plain(source, generations, last)


def _is_due(block: Block, now_s: float) -> bool:
    is_quiet = not 0 <= now_s - block.changed_s < QUIET_S
    is_old = not 0 <= now_s - block.judged_s < PATIENCE_S
    return is_quiet or is_old or any(one.is_done for one in block.tickets.values())


def _take_back(
    judgement: Judgement, endpoint: EndpointKey, world: World, keep: Sequence[str] = ()
) -> None:
    """Withdraw what was said before of the same messages, but for what still holds."""
    for kind in (FindingKind.MISSING, FindingKind.UNEXPECTED, FindingKind.CORRUPT):
        if not world.register.has(kind, str(endpoint), endpoint.node):
            continue
        finding = fault(kind, judgement.place, judgement.number, endpoint)
        if finding.id not in keep:
            world.register.withdraw(finding.id)


def _endpoints(world: World) -> Mapping[EndpointKey, Sequence[EndpointKey]]:
    """Return the endpoints to which something is promised, each with its members.

    Those are the endpoint itself, or all of a queue of which one gets a message.
    """
    alone = {endpoint: (endpoint,) for endpoint in world.interest.certified()}
    return alone | dict(world.interest.shared())


def _others(
    block: Block, promised: Mapping[EndpointKey, Sequence[EndpointKey]]
) -> Mapping[EndpointKey, Sequence[EndpointKey]]:
    """Return all other endpoints that got something: it must be what they asked for."""
    judged = {member: None for members in promised.values() for member in members}
    return {endpoint: (endpoint,) for endpoint in block.receipts if endpoint not in judged}


def _doubted(
    judgement: Judgement,
    members: Sequence[EndpointKey],
    claims: Sequence[Claim],
    world: World,
) -> Mapping[EndpointKey, Sequence[Claim]]:
    """Return the members of a queue that got what may be another's, each with its own claims.

    What was moved to a member may be anything of its queue's; digests of all members together do
    not tell who got the rest. Where each claims all that any of them does, it is its own.
    """
    if len(members) == 1:
        return {}
    found: dict[EndpointKey, Sequence[Claim]] = {}
    offer, receipts = judgement.offer, judgement.block.receipts
    wanted = sum(1 for _ in offer.levels(claims))
    for member in members:
        if member in receipts and receipts[member].unmoved:
            own = claims_of(judgement.place, member, world)
            if offer.is_vague(claims) or sum(1 for _ in offer.levels(own)) < wanted:
                found[member] = own
    return found


def claims_of(place: TopicPartition, endpoint: EndpointKey, world: World) -> Sequence[Claim]:
    """Return what an endpoint claims of an ingress partition."""
    origin = place_of(world.passing.prefix, place.topic).node
    return world.interest.claims(
        endpoint,
        world.names.uuids.get(endpoint.node),
        place,
        world.names.key(place),
        is_local=origin == endpoint.node,
        carriers=world.carriers,
        stretches=world.eras.stretches(place, origin, endpoint.node),
        origin=origin,
    )


def _case(
    judgement: Judgement,
    endpoint: EndpointKey,
    members: Sequence[EndpointKey],
    claims: Sequence[Claim],
    world: World,
    now_s: float,
) -> Case:
    block, number = judgement.block, judgement.number
    end = (number + 1) * BLOCK_OFFSETS - 1
    ticket = judgement.passed.get(endpoint)
    is_whole = ticket is None or ticket.bound >= block.last
    last = block.last if ticket is None else min(block.last, ticket.bound)
    is_own = endpoint in judgement.owners
    source = world.names.key(judgement.place)
    turns = tuple(world.passing.turns.of(source))
    before = None if is_own else block.proven.get(endpoint)
    if before is not None and before.musts != musts_of(claims, before.last, turns):
        before = None
    first = number * BLOCK_OFFSETS if before is None else before.last + 1
    wants = wants_of(claims, first, end)
    ranges = {one: dict(block.receipts[one].records) for one in members if one in block.receipts}
    is_quiet = not 0 <= now_s - block.changed_s < QUIET_S
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
        generation=world.passing.generations.get(judgement.place, 0),
        is_own=is_own,
        is_sure=is_proof(judgement.offer, block.delivered(members), claims),
        may_move=any(map(world.interest.may_move, members)),
        turns=turns,
        evidence=evidence_of(world.passing.prefix, ranges),
        before=before,
        musts=musts_of(claims, last, turns),
    )


def evidence_of(prefix: str, ranges: RecordRanges) -> Sequence[str]:
    """Return where deliveries are, as findings spell it."""
    names = TopicNames(prefix)
    return tuple(
        records(TopicPartition(names.endpoint(one.node, one.name), partition), *range_)
        for one, of_partitions in ranges.items()
        for partition, range_ in sorted(of_partitions.items())
    )
