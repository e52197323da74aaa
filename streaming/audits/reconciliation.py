"""What is owed of a block reconciled with what was delivered, by digests alone. Spec: K29, K31.

Who has just what is owed is certified. Of everybody else it is said what digests tell: the rest is
looked into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaming.audits.block_judgements import (
    BlockJudgement,
    Certification,
    Claimant,
    MessageCounts,
    World,
    claims_of,
    doubted_of,
    is_plain,
    moved_to,
)
from streaming.audits.claims import Claim
from streaming.audits.comparisons import PartitionClaims
from streaming.audits.exact_receipts import exact_receipts
from streaming.audits.interest import EndpointKey
from streaming.audits.issuance import issue, issue_exact, withdraw_faults
from streaming.audits.settlement import look_into
from streaming.audits.spans import is_settled
from streaming.audits.verdicts import DigestVerdict, compare, is_proof
from streaming.tables.digest import BLOCK_OFFSETS, Digest
from streaming.tables.rows import TopicPartition


def reconcile(
    certification: Certification, judgement: BlockJudgement, claimed: PartitionClaims
) -> None:
    """Certify who has what a block owes, and look into all others.

    Args:
        certification: Of all blocks.
        judgement: That of the block.
        claimed: What endpoints claim of its ingress partition.
    """
    place, block, comparison = judgement.place, judgement.block, judgement.comparison
    world = certification.world
    for endpoint, members in comparison.everybody.items():
        if endpoint not in claimed.claims:
            claimed.take(endpoint, _claims_of(place, members, world))
    exact = exact_receipts(judgement, claimed, world)
    _accept_exact(certification, judgement, exact, claimed)
    for endpoint, members in comparison.everybody.items():
        if endpoint in exact:
            continue
        claims = claimed.claims[endpoint]
        if endpoint in comparison.others:
            moved = moved_to(place, endpoint, block.receipts[endpoint], world)
            claims = [*claimed.may(endpoint), *moved] if moved else claimed.may(endpoint)
        if comparison.is_through(endpoint, claims, is_glance=judgement.is_glance):
            continue
        claimant = Claimant(endpoint, members, claims, block.delivered(members))
        if not _is_decided(certification, judgement, claimant):
            continue
        verdict = _verdict(judgement, claimant, world)
        if verdict in (DigestVerdict.EQUAL, DigestVerdict.NOTHING):
            _accept(certification, judgement, claimant)
        else:
            look_into(certification, judgement, claimant, verdict)


def _accept_exact(
    certification: Certification,
    judgement: BlockJudgement,
    exact: Mapping[EndpointKey, Digest],
    claimed: PartitionClaims,
) -> None:
    """Accept at once what `_accept` would of each."""
    block, is_glance = judgement.block, judgement.is_glance
    for endpoint in exact if block.unequal else ():
        block.unequal.pop(endpoint, None)
    through = ((one, (claimed.claims[one], not is_glance)) for one in exact)
    judgement.comparison.through.update(through)
    if is_glance:
        return
    right = {one: got for one, got in exact.items() if got.count or one in block.issued}
    issue_exact(certification, judgement, right)
    for endpoint in right if block.standing or certification.world.register.groups else ():
        block.standing.pop(endpoint, None)
        withdraw_faults(certification, judgement, endpoint)


def _accept(certification: Certification, judgement: BlockJudgement, claimant: Claimant) -> None:
    """Take that an endpoint has what it had to get, and certify it if that is not nothing.

    What was owed to it may turn out to be nothing: then that is certified instead.
    """
    endpoint, members, claims, delivered = claimant
    block, is_glance = judgement.block, judgement.is_glance
    block.unequal.pop(endpoint, None)
    if len(members) == 1:
        judgement.comparison.through[endpoint] = claims, not is_glance
    if is_glance or not (delivered.count or endpoint in block.issued):
        return
    block.standing.pop(endpoint, None)
    sure = is_proof(judgement.offer, delivered, claims)
    counts = MessageCounts(delivered.count, delivered.count)
    issue(certification, judgement, endpoint, members, block.last, counts, is_sure=sure)
    withdraw_faults(certification, judgement, endpoint)


def _is_decided(
    certification: Certification, judgement: BlockJudgement, claimant: Claimant
) -> bool:
    """Return whether digests can be compared: it is known what is claimed, and by whom."""
    endpoint, claims, interest = claimant.endpoint, claimant.claims, certification.world.interest
    if not is_settled(interest, endpoint, claims, judgement.number * BLOCK_OFFSETS):
        return False
    doubted = doubted_of(judgement, claimant, certification.world)
    if doubted and judgement.is_glance:
        return False
    for member in doubted:
        judgement.owners[member.endpoint] = None
        look_into(certification, judgement, member, DigestVerdict.UNSURE)
    if any(member.endpoint in judgement.late for member in doubted):
        judgement.late[endpoint] = None  # until it is known who got what
        return False
    if judgement.offer.is_undecided(claims):
        judgement.undecided[endpoint] = None
        return False
    return True


def _verdict(judgement: BlockJudgement, claimant: Claimant, world: World) -> DigestVerdict:
    """Return the verdict on an endpoint by digests alone."""
    endpoint, members, claims, delivered = claimant
    verdicts = judgement.comparison.verdicts
    known = verdicts.get(endpoint)
    if known is None or known[0] is not claims:
        verdict = compare(judgement.offer, delivered, claims)
        generations = judgement.block.generations(members)
        if verdict is DigestVerdict.EQUAL and not is_plain(judgement, generations, world):
            verdict = DigestVerdict.UNSURE
        known = verdicts[endpoint] = claims, verdict
    return known[1]


def _claims_of(
    place: TopicPartition, members: Sequence[EndpointKey], world: World
) -> Sequence[Claim]:
    return [one for member in members for one in claims_of(place, member, world)]
