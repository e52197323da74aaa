"""Certificates: what had to be delivered against what was, by digest or message by message.

Spec: K29, K30, K31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streaming.audits.block import Block, Certificate, Standing
from streaming.audits.blocks import Blocks
from streaming.audits.cases import (
    Case,
    Outcome,
    Proven,
    case_findings,
    consumed,
    fault,
    trimmed,
)
from streaming.audits.claims import Claim
from streaming.audits.compared import (
    NOTHING_CLAIMED,
    Claimed,
    Compared,
    Mark,
    Promised,
    Rest,
    Waiting,
)
from streaming.audits.findings import FindingKind
from streaming.audits.hours import Hours
from streaming.audits.interest import EndpointKey
from streaming.audits.judgements import (
    QUIET_S,
    Judgement,
    Round,
    World,
    case_of,
    claims_of,
    doubted_of,
    is_plain,
    moved_to,
)
from streaming.audits.offers import Offer
from streaming.audits.passing import Ticket
from streaming.audits.spans import is_settled
from streaming.audits.verdicts import Verdict, compare, is_proof, owed
from streaming.tables.digest import BLOCK_OFFSETS, Digest
from streaming.tables.rows import TopicPartition

RENEW_MS = 12 * 3_600_000
"""Certificates are kept for two days: those of blocks that stay open are written again so often."""

PATIENCE_S = 4.0
"""A busy block is certified for its range so far this often. Spec: K29."""

GLANCES_MAX = 20_000
"""Subjects, or bundles of them, times endpoints of busy blocks that one judgement looks at before
it is time to certify them: so a loss under a trickle shows as soon as one in a quiet block."""


@dataclass(slots=True)
class Certifier:
    """Issues certificates.

    Attributes:
        blocks: What is not certified for good.
        unpublished: Certificates to be written, by key.
        waiting: What is not certified, as of the last judgement.
        hours: What closed blocks sum up to.
        renewed_ms: When certificates of open blocks were written again the last time.
        undecided: Endpoints of which it was not known by the last judgement what they are owed.
        compared: What digests have told, by block; who goes on from a state compares again.
        read_s: When blocks were read message by message, of those where that was just now.
        claimed: What endpoints claim of ingress partitions, as of the last judgement.
        promised: Those to whom something was promised by then.
    """

    blocks: Blocks
    unpublished: dict[str, Certificate] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)
    hours: Hours = field(default_factory=Hours)
    renewed_ms: int = 0
    undecided: dict[EndpointKey, None] = field(default_factory=dict)
    compared: dict[tuple[TopicPartition, int], Compared] = field(
        default_factory=dict, init=False, repr=False
    )
    read_s: dict[tuple[TopicPartition, int], float] = field(
        default_factory=dict, init=False, repr=False
    )
    claimed: dict[TopicPartition, Claimed] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    promised: Promised | None = field(default=None, init=False, repr=False, compare=False)

    def judge(self, world: World, now_s: float, *, is_last: bool = False) -> Round:
        """Certify what digests can certify; return what must be read message by message.

        Every case of the round is settled with `settle`, then `finish` ends it.

        Args:
            world: The other audits.
            now_s: The auditor's clock, in seconds.
            is_last: Certify open ranges at once: there will be no later judgement.
        """
        self.waiting, self.undecided = [], {}
        for finding in self.blocks.aside.take_mislabelled():
            world.register.add(finding)
        round_, glances = Round(), 0
        promised = self.promised = Promised.by(world.interest, self.promised)
        before, self.compared = self.compared, {}
        read = self.read_s.items()
        self.read_s = {key: at for key, at in read if 0 <= now_s - at < QUIET_S}
        for place, number, block in self.blocks.walk():
            if block.judged == (block.stamp, world.version):
                continue
            for ticket in block.tickets:
                world.passing.advance(ticket, world.sight())
            may_read = (place, number) not in self.read_s
            is_due = is_last or _is_due(block, now_s, may_read=may_read)
            if is_due:
                block.judged_s = now_s
            is_closed = self.blocks.is_closed(place, number, world.read.get(place, 0))
            turns = world.passing.turns.of(world.names.key(place))
            mark = Mark(block.stamp, turns, is_closed=is_closed)
            known = before.get((place, number))
            if known is None or known.mark != mark:
                known = Compared(mark, Offer.of(block))
            self.compared[place, number] = known
            if self._rests(known, block, world):
                continue
            judgement = Judgement(place, number, block, known)
            judgement.may_read, judgement.is_closed = may_read, is_closed
            judgement.is_glance = not is_due
            if judgement.is_glance:
                self._wait(judgement, "*", "news to settle")
                glances += len(promised.endpoints) * len(block.subjects)
                if glances > GLANCES_MAX:
                    continue
            known.look_at(block, promised)
            round_.judgements.append(judgement)
            claimed = self.claimed.get(place, NOTHING_CLAIMED).by(world.version)
            self.claimed[place] = claimed
            self._judge_block(round_, judgement, world, claimed, now_s)
        return round_

    def _rests(self, known: Compared, block: Block, world: World) -> bool:
        """Return whether nothing has changed since a look at a block, which then says the same."""
        rest = known.rest
        if rest is None or rest.version != world.version:
            return False
        if any(ticket.is_done for ticket in block.tickets):
            return False
        if rest.reasons != _reasons(block, world):
            return False
        self.waiting += rest.waiting
        self.undecided.update(dict.fromkeys(rest.undecided))
        return True

    def _judge_block(
        self, round_: Round, judgement: Judgement, world: World, claimed: Claimed, now_s: float
    ) -> None:
        place, block = judgement.place, judgement.block
        compared, is_glance = judgement.compared, judgement.is_glance
        others, offer = compared.others, compared.offer
        for endpoint, members in compared.everybody.items():
            if (claim := claimed.claims.get(endpoint)) is None:
                claim = claimed.take(endpoint, _claims_of(place, members, world))
            is_simple = endpoint in claimed.simple and endpoint in members
            if endpoint in others:
                moved = moved_to(place, endpoint, block.receipts[endpoint], world)
                claim = [*claimed.may(endpoint), *moved] if moved else claimed.may(endpoint)
                is_simple = False
            if compared.is_through(endpoint, claim, is_glance=is_glance):
                continue
            told = (judgement, endpoint, members, claim)
            if not (is_simple or self._is_decided(round_, *told, world, now_s)):
                continue
            delivered = block.delivered(members)
            if is_simple and _is_simply_equal(*told, delivered, world):
                verdict = Verdict.EQUAL if delivered.count else Verdict.NOTHING
                expected = delivered.count
            else:
                verdict, expected = _verdict(*told, delivered, world)
            if verdict in (Verdict.EQUAL, Verdict.NOTHING):
                block.unequal.pop(endpoint, None)
                if len(members) == 1:
                    compared.through[endpoint] = claim, not is_glance
            # What was owed to it may turn out to be nothing: then that is certified instead.
            is_equal = verdict is Verdict.EQUAL or (
                verdict is Verdict.NOTHING and endpoint in block.issued
            )
            if is_equal and not is_glance:
                block.standing.pop(endpoint, None)
                sure = is_simple or is_proof(offer, delivered, claim)
                counts = (block.last, expected, expected)
                self._issue(judgement, endpoint, *counts, world, members, is_sure=sure)
                _take_back(judgement, endpoint, world)
            elif verdict not in (Verdict.EQUAL, Verdict.NOTHING):
                self._look(round_, *told, verdict, world, now_s)

    def _is_decided(
        self,
        round_: Round,
        judgement: Judgement,
        endpoint: EndpointKey,
        members: Sequence[EndpointKey],
        claim: Sequence[Claim],
        world: World,
        now_s: float,
    ) -> bool:
        """Return whether digests can be compared: it is known what is claimed, and by whom."""
        if not is_settled(world.interest, endpoint, claim, judgement.number * BLOCK_OFFSETS):
            return False
        doubted = doubted_of(judgement, members, claim, world)
        if doubted and judgement.is_glance:
            return False
        for member, own in doubted.items():
            judgement.owners[member] = None
            told = (member, (member,), own, Verdict.UNSURE)
            self._look(round_, judgement, *told, world, now_s)
        if any(member in judgement.late for member in doubted):
            judgement.late[endpoint] = None  # until it is known who got what
            return False
        if judgement.offer.is_undecided(claim):
            judgement.undecided[endpoint] = None
            return False
        return True

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
        block, stamp = judgement.block, (judgement.block.stamp, world.version)
        if stamp in (block.cleared.get(endpoint), block.settled.get(endpoint)):
            return
        if endpoint in block.standing and self._stands(judgement, endpoint, members, claims, world):
            return
        if judgement.is_glance and verdict is Verdict.UNSURE:
            return  # only the messages tell, and these are not read for every batch
        judgement.late[endpoint] = None
        if block.unequal.get(endpoint, -1) < 0:
            block.unequal[endpoint] = block.last  # at first perhaps only deliveries were read
        ticket = self._ticket_of(judgement, endpoint, world)
        is_passed = ticket.is_done and (judgement.may_read or not judgement.is_glance)
        if is_passed:
            judgement.passed[endpoint] = ticket
        is_telling = verdict in (Verdict.UNSURE, Verdict.CORRUPT)
        if is_passed or (is_telling and block.looked.get(endpoint) != stamp):
            is_unequal = verdict is Verdict.UNEQUAL
            told = (judgement, endpoint, members, claims, world, now_s)
            case = case_of(*told, is_unequal=is_unequal)
            if case.first > case.delivered_last:  # it differs by what has come ahead of its ingress
                judgement.passed.pop(endpoint, None)
                block.unequal[endpoint] = block.last
                return
            block.looked[endpoint] = stamp
            self.read_s[judgement.place, judgement.number] = now_s
            round_.cases.append(case)
            judgement.owed[endpoint] = must = owed(judgement.offer, claims)
            if must is not None and case.last < block.last:
                last = block.last
                rest = replace(case, first=case.last + 1, last=last, delivered_last=last)
                round_.cases.append(replace(rest, before=None, is_rest=True))

    def _stands(
        self,
        judgement: Judgement,
        endpoint: EndpointKey,
        members: Sequence[EndpointKey],
        claims: Sequence[Claim],
        world: World,
    ) -> bool:
        """Return whether an endpoint lacks, or has, what was said of it before, and no more."""
        block, offer = judgement.block, judgement.offer
        known, must = block.standing[endpoint], owed(offer, claims)
        if must is None or not is_plain(judgement, members, world):
            return False
        delivered = block.delivered(members)
        news = known.news(must, delivered)
        if news is None:
            return False
        block.unequal.pop(endpoint, None)
        if not judgement.is_glance:
            sure = is_proof(offer, delivered, claims)
            counts = (block.last, known.expected + news.count, delivered.count)
            told = (judgement, endpoint, *counts, world, members)
            self._issue(*told, is_equal=False, is_sure=sure)
        return True

    def settle(self, round_: Round, case: Case, outcome: Outcome, world: World) -> None:
        """Take what reading a case gave."""
        judgement = round_.judgement_of(case)
        if case.is_own:
            self._settle_own(judgement, case, outcome, world)
            return
        if case.is_rest:
            self._settle_rest(judgement, case, outcome, world)
            return
        is_all_there = bool(outcome.corrupt) and not outcome.missing
        if not (outcome.is_equal or case.is_passed or is_all_there):
            return
        before = Proven(-1, 0, 0, ()) if case.before is None else case.before
        expected = before.expected + outcome.expected
        delivered = before.delivered + outcome.delivered
        there = judgement.block.delivered(tuple(case.records)).count
        if outcome.is_cut and delivered < there:
            self._settle_cut(judgement, case, outcome, (expected, there), world)
            return
        if outcome.missing and case.is_passed:
            world.interest.lacked(case.endpoint, case.place, case.last)
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
        # What was lacking before is known now.
        judgement.block.unequal[case.endpoint] = judgement.block.last
        judgement.block.standing.pop(case.endpoint, None)
        if not outcome.is_equal and outcome.begin <= case.first:
            judgement.told[case.endpoint] = expected, delivered
            if case.last >= judgement.block.last:
                _stand(judgement, case, expected, delivered)
        findings = list(case_findings(case, outcome))
        for finding in findings:
            world.register.replace(finding)
        _take_back(judgement, case.endpoint, world, keep=[finding.id for finding in findings])
        # What came after the bound of a ticket is looked at with the next one.
        if outcome.is_equal and case.last >= judgement.block.last:
            judgement.late.pop(case.endpoint, None)
            stamp = (judgement.block.stamp, world.version)
            judgement.block.cleared[case.endpoint] = stamp

    def _settle_cut(
        self,
        judgement: Judgement,
        case: Case,
        outcome: Outcome,
        counts: tuple[int, int],
        world: World,
    ) -> None:
        """Take what reading gave of an endpoint that does not have all any more that it got.

        What is not there may have been; what is there twice, or is nobody's, is told all the same.
        """
        seen = replace(outcome, missing=0, missing_offsets=())
        told = (judgement, case.endpoint, case.last, *counts, world, tuple(case.records))
        is_equal = seen.is_equal and not case.is_unequal
        self._issue(*told, is_equal=is_equal, is_sure=False)
        world.register.add(consumed(case))
        for finding in case_findings(case, seen):
            world.register.replace(finding)
        judgement.late.pop(case.endpoint, None)
        judgement.block.cleared[case.endpoint] = (judgement.block.stamp, world.version)

    def _settle_rest(
        self, judgement: Judgement, case: Case, outcome: Outcome, world: World
    ) -> None:
        """Take whether what comes after faults that were told is equal: then these stand alone."""
        endpoint = case.endpoint
        if not outcome.is_equal or endpoint not in judgement.told:
            return
        expected, delivered = judgement.told[endpoint]
        counts = expected + outcome.expected, delivered + outcome.delivered
        if _stand(judgement, case, *counts):
            told = (judgement, endpoint, case.last, *counts, world, tuple(case.records))
            self._issue(*told, is_equal=False, is_sure=case.is_sure)
            judgement.late.pop(endpoint, None)

    def _settle_own(self, judgement: Judgement, case: Case, outcome: Outcome, world: World) -> None:
        """Take whether a member of a queue got its own messages only; its queue is certified."""
        block = judgement.block
        strange = fault(FindingKind.UNEXPECTED, case.place, case.block, case.endpoint)
        if not outcome.unexpected:
            block.cleared[case.endpoint] = (block.stamp, world.version)
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
        self.read_s.pop((judgement.place, judgement.number), None)
        judgement.block.looked.pop(case.endpoint, None)

    def finish(self, round_: Round, world: World, now_s: float) -> None:
        """End a judgement: what is late is followed, what is settled rests until news come."""
        read = {(case.place, case.block): None for case in round_.cases}
        for judgement in round_.judgements:
            block, begin = judgement.block, len(self.waiting)
            stamp = (block.stamp, world.version)
            for endpoint in judgement.undecided:
                self.undecided[endpoint] = None
                self._wait(judgement, endpoint, ended_of(endpoint))
            if judgement.is_put_off:
                for endpoint in judgement.late:
                    self._wait(judgement, endpoint, "a Kafka cluster to answer")
                continue
            for endpoint, ticket in judgement.passed.items():
                if endpoint in judgement.late and ticket.bound >= block.last:
                    block.settled[endpoint] = stamp
                    block.unequal.pop(endpoint, None)
                    del judgement.late[endpoint]
            if judgement.is_glance:
                self._follow(judgement, world)
                continue
            block.unequal = {
                one: last for one, last in block.unequal.items() if one in judgement.late
            }
            self._follow(judgement, world)
            if not (judgement.late or judgement.undecided):
                block.judged = stamp
            found = _reasons(block, world)
            reasons = dict(zip(map(id, block.tickets), found, strict=True))
            for endpoint in judgement.late:
                if (followed := block.ticket_of(endpoint)) is not None:
                    self._wait(judgement, endpoint, reasons[id(followed)])
            if (judgement.place, judgement.number) in read or not _is_quiet(block, now_s):
                continue  # what was read is news, and with time alone more of it counts
            told = self.waiting[begin:]
            judgement.compared.rest = Rest(world.version, told, found, [*judgement.undecided])
        for place in self.blocks.open:
            self.blocks.route(place, world.passing.position(place), now_s)
        self.unpublished.update({one.key: one for one in self.blocks.retimed()})
        now_ms = world.register.now_ms
        for certificate in self.blocks.forget(now_s, world.read, world.read_s, world.version):
            self.hours.close(certificate, now_ms)
        if not 0 <= now_ms - self.renewed_ms < RENEW_MS:
            self.renewed_ms = now_ms
            for _, _, block in self.blocks.walk():
                self.unpublished.update({one.key: one for one in block.issued.values()})

    def _follow(self, judgement: Judgement, world: World) -> None:
        """Follow the ways of what is late, to each node where something is, and no others."""
        block, needed = judgement.block, []
        for endpoint in judgement.late:
            block.unequal.setdefault(endpoint, block.last)
            self._ticket_of(judgement, endpoint, world)
        for endpoint in block.unequal:
            if (known := block.ticket_of(endpoint)) is not None and known not in needed:
                needed.append(known)
        block.tickets = sorted(needed, key=lambda one: one.bound)

    def _ticket_of(self, judgement: Judgement, endpoint: EndpointKey, world: World) -> Ticket:
        """Return what follows the way of all that an endpoint lacks; it may be through already."""
        block = judgement.block
        ticket = block.ticket_of(endpoint)
        if ticket is None:
            ticket = world.passing.open(judgement.place, block.last, endpoint.node)
            block.tickets.append(ticket)
            world.passing.advance(ticket, world.sight())
        return ticket

    def _wait(self, judgement: Judgement, endpoint: EndpointKey | str, reason: str) -> None:
        block = judgement.block
        told = (judgement.source, judgement.number, str(endpoint), block.last, reason)
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
        if judgement.owners:
            stamp = (judgement.block.stamp, world.version)
            strays = [one for one in judgement.owners if one in members]
            is_equal &= not any(judgement.block.settled.get(one) == stamp for one in strays)
        if is_equal and endpoint in judgement.others and endpoint not in issued:
            return
        is_closed = judgement.is_closed
        first = max(first, number * BLOCK_OFFSETS)
        if is_closed and last == judgement.block.last:
            last = (number + 1) * BLOCK_OFFSETS - 1
        if (moments := judgement.moments.get((first, last))) is None:
            moments = judgement.moments[first, last] = self.blocks.times_of(place, first, last)
        certificate = Certificate(
            source=judgement.source,
            block=number,
            first=first,
            last=last,
            endpoint=str(endpoint),
            expected=expected,
            delivered=delivered,
            equal=is_equal,
            partial=not is_closed,
            sure=is_sure,
            digest=judgement.block.delivered(members),
            first_ms=moments.first_ms,
            last_ms=moments.last_ms,
        )
        if issued.get(endpoint) != certificate:
            issued[endpoint] = certificate
            self.unpublished[certificate.key] = certificate


def _claims_of(
    place: TopicPartition, members: Sequence[EndpointKey], world: World
) -> Sequence[Claim]:
    return [one for member in members for one in claims_of(place, member, world)]


def _reasons(block: Block, world: World) -> Sequence[str]:
    """Return for what each ticket of a block waits."""
    return [world.passing.where(one, world.read) for one in block.tickets]


def ended_of(endpoint: EndpointKey) -> str:
    """Return what is waited for where that alone decides what is owed, for people."""
    return f"lanes of {endpoint.node} to tell where a subscription of {endpoint} ended"


def _is_simply_equal(
    judgement: Judgement,
    endpoint: EndpointKey,
    members: Sequence[EndpointKey],
    claims: Sequence[Claim],
    delivered: Digest,
    world: World,
) -> bool:
    """Return whether an endpoint with a simple claim has what that is about: nearly all have."""
    if judgement.offer.whole(claims) != delivered:
        return False
    return endpoint not in judgement.block.receipts or is_plain(judgement, members, world)


def _verdict(
    judgement: Judgement,
    endpoint: EndpointKey,
    members: Sequence[EndpointKey],
    claims: Sequence[Claim],
    delivered: Digest,
    world: World,
) -> tuple[Verdict, int]:
    """Return what digests tell of an endpoint, and how many messages were expected if equal."""
    verdicts = judgement.compared.verdicts
    known = verdicts.get(endpoint)
    if known is None or known[0] is not claims:
        verdict, expected = compare(judgement.offer, delivered, claims)
        if verdict is Verdict.EQUAL and not is_plain(judgement, members, world):
            verdict = Verdict.UNSURE
        known = verdicts[endpoint] = claims, verdict, expected
    return known[1], known[2]


def _stand(judgement: Judgement, case: Case, expected: int, delivered: int) -> bool:
    """Keep that faults were told of an endpoint, if what was read is all that it has."""
    endpoint, block = case.endpoint, judgement.block
    must, there = judgement.owed.get(endpoint), block.delivered(tuple(case.records))
    if must is None or there.count != delivered:
        return False
    block.standing[endpoint] = Standing(must, there, expected)
    return True


def _is_due(block: Block, now_s: float, *, may_read: bool) -> bool:
    is_old = not 0 <= now_s - block.judged_s < PATIENCE_S
    # What is read again is not read for every batch: in a busy block something is late always.
    is_through = may_read and any(one.is_done for one in block.tickets)
    return _is_quiet(block, now_s) or is_old or is_through


def _is_quiet(block: Block, now_s: float) -> bool:
    return not 0 <= now_s - block.changed_s < QUIET_S


def _take_back(
    judgement: Judgement, endpoint: EndpointKey, world: World, keep: Sequence[str] = ()
) -> None:
    """Withdraw what was said before of the same messages, but for what still holds."""
    if not world.register.groups:
        return
    for kind in (FindingKind.MISSING, FindingKind.UNEXPECTED, FindingKind.CORRUPT):
        if not world.register.has(kind, str(endpoint), endpoint.node):
            continue
        finding = fault(kind, judgement.place, judgement.number, endpoint)
        if finding.id not in keep:
            world.register.withdraw(finding.id)
