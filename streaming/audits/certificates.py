"""Certificates: what had to be delivered against what was, by digest or message by message.

Spec: K29, K30, K31.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streaming.audits.blocks import Block, Blocks, Certificate
from streaming.audits.cases import Case, Outcome, case_findings, fault
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.eras import Eras
from streaming.audits.findings import FindingKind, Register
from streaming.audits.interest import Carriers, Claim, EndpointKey, Interest
from streaming.audits.names import Names
from streaming.audits.passing import Now, Passing
from streaming.audits.verdicts import Verdict, compare, wants_of
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of

QUIET_S = 2.0
"""An open block without news for so long is certified for its range so far. Spec: K29."""

PATIENCE_S = 30.0
"""A busy block is certified for its range so far this often. Spec: K29."""


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
    """What a judgement looks at besides the blocks; all of it belongs to other audits."""

    names: Names
    interest: Interest
    passing: Passing
    heads: Mapping[ChainKey, ChainHead]
    carriers: Carriers
    eras: Eras
    read: Mapping[TopicPartition, int]
    register: Register


@dataclass(slots=True)
class Judgement:
    """One block under judgement, until its cases are settled.

    Attributes:
        place: The ingress partition.
        number: Of the block.
        block: Its state.
        late: Endpoints that are not certified.
        is_passed: Whether what is not there now is missing.
    """

    place: TopicPartition
    number: int
    block: Block
    late: dict[EndpointKey, None]
    is_passed: bool


@dataclass(slots=True)
class Round:
    """One judgement of all blocks: the cases to read, and the blocks that wait for them."""

    cases: list[Case] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)


@dataclass(slots=True)
class Certifier:
    """Issues certificates.

    Attributes:
        blocks: What is not certified for good.
        unpublished: Certificates to be written, by key.
        waiting: What is not certified, as of the last judgement.
    """

    blocks: Blocks
    unpublished: dict[str, Certificate] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)

    def judge(self, world: World, now: Now, *, is_last: bool = False) -> Round:
        """Certify what digests can certify; return what must be read message by message.

        Every case of the round is settled with `settle`, then `finish` ends it.

        Args:
            world: The other audits.
            now: The moment.
            is_last: Certify open ranges at once: there will be no later judgement.
        """
        self.waiting = []
        round_ = Round()
        claims: dict[tuple[TopicPartition, EndpointKey], Sequence[Claim]] = {}
        for place, number, block in self.blocks.walk():
            if block.judged == (block.stamp, world.interest.version):
                continue
            if block.ticket is not None:
                world.passing.advance(block.ticket, world.heads, world.names, now)
            if is_last or _is_due(block, now):
                self._judge_block(round_, place, number, block, world, claims, now)
            else:
                self._wait(place, number, block, "*", "news to settle")
        return round_

    def _judge_block(
        self,
        round_: Round,
        place: TopicPartition,
        number: int,
        block: Block,
        world: World,
        claims: dict[tuple[TopicPartition, EndpointKey], Sequence[Claim]],
        now: Now,
    ) -> None:
        block.judged_s = now.clock_s
        is_passed = block.ticket is not None and block.ticket.is_done
        judgement = Judgement(place, number, block, {}, is_passed)
        stamp = (block.stamp, world.interest.version)
        round_.judgements.append(judgement)
        for endpoint, members in _endpoints(block, world):
            claim = claims.get((place, endpoint))
            if claim is None:
                found = [one for member in members for one in _claims_of(place, member, world)]
                claim = claims[place, endpoint] = found
            if not world.interest.is_settled(endpoint, claim, number * BLOCK_OFFSETS):
                continue
            verdict, expected = compare(block, members, claim)
            if verdict is Verdict.EQUAL:
                self._issue(judgement, endpoint, block.last, expected, expected, world, members)
                _take_back(judgement, endpoint, world)
            elif verdict is not Verdict.NOTHING and block.cleared.get(endpoint) != stamp:
                judgement.late[endpoint] = None
                is_news = block.looked.get(endpoint) != stamp
                is_telling = verdict in (Verdict.UNSURE, Verdict.CORRUPT)
                if is_passed or (is_telling and is_news):
                    block.looked[endpoint] = stamp
                    case = _case(judgement, endpoint, members, claim, world, now)
                    round_.cases.append(case)

    def settle(self, round_: Round, case: Case, outcome: Outcome, world: World) -> None:
        """Take what reading a case gave."""
        judgement = next(
            one for one in round_.judgements if one.place == case.place and one.number == case.block
        )
        is_all_there = bool(outcome.corrupt) and not outcome.missing
        if not (outcome.is_equal or case.is_passed or is_all_there):
            return
        self._issue(
            judgement,
            case.endpoint,
            case.last,
            outcome.expected,
            outcome.delivered,
            world,
            tuple(case.records),
            is_equal=outcome.is_equal,
        )
        findings = list(case_findings(case, outcome))
        for finding in findings:
            world.register.replace(finding)
        _take_back(judgement, case.endpoint, world, keep=[finding.id for finding in findings])
        if outcome.is_equal:
            judgement.late.pop(case.endpoint, None)
            if case.last >= judgement.block.last:
                stamp = (judgement.block.stamp, world.interest.version)
                judgement.block.cleared[case.endpoint] = stamp

    def finish(self, round_: Round, world: World, now: Now) -> None:
        """End a judgement: what is late is followed, what is settled rests until news come."""
        for judgement in round_.judgements:
            block = judgement.block
            is_all_passed = judgement.is_passed and (
                block.ticket is None or block.ticket.bound >= block.last
            )
            if not judgement.late or is_all_passed:
                block.judged = (block.stamp, world.interest.version)
                block.ticket = None
                continue
            if block.ticket is None or judgement.is_passed:
                block.ticket = world.passing.open(judgement.place, block.last)
            reason = world.passing.where(block.ticket)
            for endpoint in judgement.late:
                self._wait(judgement.place, judgement.number, block, str(endpoint), reason)
        self.blocks.forget(now.clock_s)

    def _wait(
        self, place: TopicPartition, number: int, block: Block, endpoint: str, reason: str
    ) -> None:
        self.waiting.append(Waiting(str(place), number, endpoint, block.last, reason))

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
    ) -> None:
        place, number = judgement.place, judgement.number
        is_closed = self.blocks.is_closed(place, number, world.read.get(place, 0))
        end = (number + 1) * BLOCK_OFFSETS - 1
        came = judgement.block.delivered(members)
        certificate = Certificate(
            source=str(place),
            block=number,
            first=number * BLOCK_OFFSETS,
            last=end if is_closed and last == judgement.block.last else last,
            endpoint=str(endpoint),
            expected=expected,
            delivered=delivered,
            equal=is_equal,
            partial=not is_closed,
            ids=came.ids_text,
            content=came.content_text,
        )
        if judgement.block.issued.get(endpoint) != certificate:
            judgement.block.issued[endpoint] = certificate
            self.unpublished[certificate.key] = certificate


def _is_due(block: Block, now: Now) -> bool:
    is_quiet = not 0 <= now.clock_s - block.changed_s < QUIET_S
    is_old = not 0 <= now.clock_s - block.judged_s < PATIENCE_S
    return is_quiet or is_old or (block.ticket is not None and block.ticket.is_done)


def _take_back(
    judgement: Judgement, endpoint: EndpointKey, world: World, keep: Sequence[str] = ()
) -> None:
    """Withdraw what was said before of the same messages, but for what still holds."""
    for kind in (FindingKind.MISSING, FindingKind.UNEXPECTED, FindingKind.CORRUPT):
        finding = fault(kind, judgement.place, judgement.number, endpoint)
        if finding.id not in keep:
            world.register.withdraw(finding.id)


def _endpoints(block: Block, world: World) -> Sequence[tuple[EndpointKey, Sequence[EndpointKey]]]:
    """Return the certified endpoints, and those that got something nobody asked for.

    With each its members: itself, or all of a queue of which one gets a message.
    """
    wishes = world.interest.wishes
    strangers = [endpoint for endpoint in block.receipts if endpoint not in wishes]
    alone = [(one, (one,)) for one in (*world.interest.certified(), *strangers)]
    return sorted((*alone, *world.interest.shared().items()))


def _claims_of(place: TopicPartition, endpoint: EndpointKey, world: World) -> Sequence[Claim]:
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
    now: Now,
) -> Case:
    block, number = judgement.block, judgement.number
    end = (number + 1) * BLOCK_OFFSETS - 1
    is_whole = block.ticket is None or block.ticket.bound >= block.last
    last = block.last if is_whole or block.ticket is None else block.ticket.bound
    receipts = {one: block.receipts[one] for one in members if one in block.receipts}
    is_quiet = not 0 <= now.clock_s - block.changed_s < QUIET_S
    return Case(
        place=judgement.place,
        source=world.names.key(judgement.place),
        block=number,
        endpoint=endpoint,
        first=number * BLOCK_OFFSETS,
        last=last,
        delivered_last=end if is_quiet and is_whole else last,
        wants=tuple(wants_of(block, claims, number * BLOCK_OFFSETS, end)),
        records={one: dict(receipt.records) for one, receipt in receipts.items()},
        is_passed=judgement.is_passed,
        generation=world.passing.generations.get(judgement.place, 0),
    )
