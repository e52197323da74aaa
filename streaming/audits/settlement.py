"""What digests cannot tell of an endpoint, until it is settled. Spec: K29, K30.

What is late is followed until every hop has passed it. Then, or where the messages alone tell, a
case of it is read message by message, and what that gave is certified and told.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.model.findings import FindingKind
from streaming.audits.block import Block, Standing
from streaming.audits.block_judgements import (
    BlockJudgement,
    Certification,
    Claimant,
    MessageCounts,
    World,
    case_of,
    is_plain,
)
from streaming.audits.cases import (
    Case,
    CaseOutcome,
    Proven,
    case_findings,
    consumed,
    fault,
    trimmed,
)
from streaming.audits.interest import EndpointKey
from streaming.audits.issuance import issue, withdraw_faults
from streaming.audits.tickets import Ticket
from streaming.audits.verdicts import DigestVerdict, is_proof, is_too_much, owed


def look_into(
    certification: Certification,
    judgement: BlockJudgement,
    claimant: Claimant,
    verdict: DigestVerdict,
) -> None:
    """Queue a case to be read message by message, or wait until every hop has passed.

    Args:
        certification: All that is known of blocks, and of the mesh.
        judgement: Of one block of a source, at one time.
        claimant: The endpoint whose messages do not agree, and what came there.
        verdict: In which way they do not.
    """
    block, endpoint = judgement.block, claimant.endpoint
    stamp = (block.stamp, certification.world.version)
    if stamp in (block.cleared.get(endpoint), block.settled.get(endpoint)):
        return
    if endpoint in block.standing and _stands(certification, judgement, claimant):
        return
    if judgement.is_glance and verdict is DigestVerdict.UNSURE:
        return  # only the messages tell, and these are not read for every batch
    judgement.late[endpoint] = None
    if block.unequal.get(endpoint, -1) < 0:
        block.unequal[endpoint] = block.last  # at first perhaps only deliveries were read
    ticket = _ticket_of(judgement, endpoint, certification.world)
    is_passed = ticket.is_done and (judgement.may_read or not judgement.is_glance)
    if is_passed:
        judgement.passed[endpoint] = ticket
    is_telling = verdict in (DigestVerdict.UNSURE, DigestVerdict.CORRUPT)
    if is_passed or (is_telling and block.looked.get(endpoint) != stamp):
        is_unequal = verdict is DigestVerdict.UNEQUAL or is_too_much(
            judgement.offer, claimant.delivered, claimant.claims
        )
        case = case_of(certification, judgement, claimant, is_unequal=is_unequal)
        if _is_read(case, block, claimant):
            settle(certification, case, CaseOutcome(0, 0))  # nothing is left to be read
            return
        if case.first > case.delivered_last:  # it differs by what has come ahead of its ingress
            judgement.passed.pop(endpoint, None)
            block.unequal[endpoint] = block.last
            return
        block.looked[endpoint] = stamp
        certification.cases.append(case)
        judgement.owed[endpoint] = must = owed(judgement.offer, claimant.claims)
        if must is not None and case.last < block.last:
            last = block.last
            rest = replace(case, first=case.last + 1, last=last, delivered_last=last)
            certification.cases.append(replace(rest, before=None, is_rest=True))


def _is_read(case: Case, block: Block, claimant: Claimant) -> bool:
    """Return whether all that came to an endpoint was read before, and found equal."""
    before = case.before
    if before is None or case.first <= case.delivered_last:
        return False
    return before.last >= block.last and before.delivered == claimant.delivered.count


def _stands(certification: Certification, judgement: BlockJudgement, claimant: Claimant) -> bool:
    """Return whether an endpoint lacks, or has, what was said of it before, and no more."""
    endpoint, members, claims, delivered = claimant
    block, offer = judgement.block, judgement.offer
    known, must = block.standing[endpoint], owed(offer, claims)
    generations = block.generations(members)
    if must is None or not is_plain(judgement, generations, certification.world):
        return False
    news = known.news(must, delivered)
    if news is None:
        return False
    block.unequal.pop(endpoint, None)
    if not judgement.is_glance:
        sure = is_proof(offer, delivered, claims)
        counts = MessageCounts(known.expected + news.count, delivered.count)
        told = (certification, judgement, endpoint, members, block.last, counts)
        issue(*told, is_equal=False, is_sure=sure)
    return True


def settle(certification: Certification, case: Case, outcome: CaseOutcome) -> None:
    """Take what reading a case gave.

    Args:
        certification: All that is known of blocks, and of the mesh; certificates and findings that
            follow are added to it.
        case: What was read again, message by message.
        outcome: What its messages have shown.
    """
    judgement, world = certification.judgement_of(case), certification.world
    if case.is_own:
        _settle_own(certification, judgement, case, outcome)
        return
    if case.is_rest:
        _settle_rest(certification, judgement, case, outcome)
        return
    is_all_there = bool(outcome.corrupt) and not outcome.missing
    if not (outcome.is_equal or case.is_passed or is_all_there):
        return
    block, endpoint, members = judgement.block, case.endpoint, tuple(case.records)
    before = Proven(-1, 0, 0, ()) if case.before is None else case.before
    expected = before.expected + outcome.expected
    counts = MessageCounts(expected, before.delivered + outcome.delivered)
    there = block.delivered(members).count
    if outcome.is_cut and counts.delivered < there:
        _settle_cut(certification, judgement, case, outcome, MessageCounts(expected, there))
        return
    if outcome.missing and case.is_passed:
        world.interest.lacked(endpoint, case.place, case.last)
    issue(
        *(certification, judgement, endpoint, members, case.last, counts),
        is_equal=outcome.is_equal,
        is_sure=case.is_sure,
        first=outcome.begin if case.before is None else 0,
    )
    if outcome.begin > case.first:
        world.register.add(trimmed(case, outcome.begin))
    if outcome.is_equal and outcome.begin <= case.first:
        block.proven[endpoint] = Proven(case.last, *counts, case.musts)
    # What was lacking before is known now.
    block.unequal[endpoint] = block.last
    block.standing.pop(endpoint, None)
    if not outcome.is_equal and outcome.begin <= case.first:
        judgement.told[endpoint] = counts
        if case.last >= block.last:
            _stand(judgement, case, counts)
    findings = list(case_findings(case, outcome))
    for finding in findings:
        world.register.replace(finding)
    withdraw_faults(certification, judgement, endpoint, keep=[finding.id for finding in findings])
    # What came after the bound of a ticket is looked at with the next one.
    if outcome.is_equal and case.last >= block.last:
        _clear(certification, judgement, endpoint)


def _settle_cut(
    certification: Certification,
    judgement: BlockJudgement,
    case: Case,
    outcome: CaseOutcome,
    counts: MessageCounts,
) -> None:
    """Take what reading gave of an endpoint that does not have all any more that it got.

    What is not there may have been; what is there twice, or is nobody's, is told all the same.
    """
    seen = replace(outcome, missing=0, missing_offsets=())
    told = (certification, judgement, case.endpoint, tuple(case.records), case.last, counts)
    issue(*told, is_equal=seen.is_equal and not case.is_unequal, is_sure=False)
    register = certification.world.register
    register.add(consumed(case))
    for finding in case_findings(case, seen):
        register.replace(finding)
    _clear(certification, judgement, case.endpoint)


def _settle_rest(
    certification: Certification, judgement: BlockJudgement, case: Case, outcome: CaseOutcome
) -> None:
    """Check what follows reported faults: if it is equal, there are no others."""
    endpoint = case.endpoint
    if not outcome.is_equal or endpoint not in judgement.told:
        return
    expected, delivered = judgement.told[endpoint]
    counts = MessageCounts(expected + outcome.expected, delivered + outcome.delivered)
    if _stand(judgement, case, counts):
        told = (certification, judgement, endpoint, tuple(case.records), case.last, counts)
        issue(*told, is_equal=False, is_sure=case.is_sure)
        judgement.late.pop(endpoint, None)


def _settle_own(
    certification: Certification, judgement: BlockJudgement, case: Case, outcome: CaseOutcome
) -> None:
    """Take whether a member of a queue got its own messages only; its queue is certified."""
    register = certification.world.register
    strange = fault(FindingKind.UNEXPECTED, case.place, case.block, case.endpoint)
    if not outcome.unexpected:
        _clear(certification, judgement, case.endpoint)
        register.withdraw(strange.id)
    elif case.is_passed:
        told = [one for one in case_findings(case, outcome) if one.id == strange.id]
        for finding in told:
            register.replace(finding)


def _clear(certification: Certification, judgement: BlockJudgement, endpoint: EndpointKey) -> None:
    """Keep that nothing is left to be read of an endpoint, as its block is."""
    judgement.late.pop(endpoint, None)
    judgement.block.cleared[endpoint] = (judgement.block.stamp, certification.world.version)


def _stand(judgement: BlockJudgement, case: Case, counts: MessageCounts) -> bool:
    """Keep an endpoint's reported faults if all its deliveries were read; return whether so."""
    endpoint, block = case.endpoint, judgement.block
    must, there = judgement.owed.get(endpoint), block.delivered(tuple(case.records))
    if must is None or there.count != counts.delivered:
        return False
    block.standing[endpoint] = Standing(must, there, counts.expected)
    return True


def put_off(certification: Certification, case: Case) -> None:
    """Leave a case for a later judgement: a Kafka cluster that it concerns does not answer."""
    judgement = certification.judgement_of(case)
    judgement.is_put_off = True
    judgement.block.looked.pop(case.endpoint, None)


def follow(judgement: BlockJudgement, world: World) -> None:
    """Follow the ways of what is late, to each node where something is, and no others."""
    block, needed = judgement.block, []
    for endpoint in judgement.late:
        block.unequal.setdefault(endpoint, block.last)
        _ticket_of(judgement, endpoint, world)
    for endpoint in block.unequal:
        if (known := block.ticket_of(endpoint)) is not None and known not in needed:
            needed.append(known)
    block.tickets = sorted(needed, key=lambda one: one.bound)


def _ticket_of(judgement: BlockJudgement, endpoint: EndpointKey, world: World) -> Ticket:
    """Return what follows the way of all that an endpoint lacks; it may be through already."""
    block = judgement.block
    ticket = block.ticket_of(endpoint)
    if ticket is None:
        late = endpoint.node, endpoint.name.casefold()
        ticket = world.progress.open(judgement.place, block.last, *late)
        block.tickets.append(ticket)
        world.progress.advance(ticket, world.sight())
    return ticket
