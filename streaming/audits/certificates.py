"""Certificates of all blocks: which is judged when, what rests until news come, and what waits.

Spec: K29, K30, K31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streaming.audits.block import Block, Certificate
from streaming.audits.block_judgements import BLOCK_QUIET_S, BlockJudgement, Certification, World
from streaming.audits.blocks import Blocks
from streaming.audits.comparisons import (
    NOTHING_CLAIMED,
    Basis,
    Comparison,
    PartitionClaims,
    Promises,
    Rest,
    UncertifiedRange,
)
from streaming.audits.hours import Hours
from streaming.audits.interest import EndpointKey
from streaming.audits.offers import Offer
from streaming.audits.reconciliation import reconcile
from streaming.audits.settlement import follow
from streaming.tables.rows import HOUR_MS, TopicPartition

RENEW_MS = 12 * HOUR_MS
"""Certificates are kept for two days: those of blocks that stay open are written again so often."""

CERTIFY_EVERY_S = 4.0
"""A busy block is certified for its range so far this often. Spec: K29."""

GLANCES_MAX = 20_000
"""Subjects, or bundles of them, times endpoints of busy blocks that one judgement looks at before
it is time to certify them: so a loss under a trickle shows as soon as one in a quiet block."""


@dataclass(slots=True)
class Certifier:
    """Has blocks certified.

    Attributes:
        blocks: What is not certified for good.
        unpublished: Certificates to be written, by key.
        waiting: What is not certified, as of the last judgement.
        hours: What closed blocks sum up to.
        renewed_ms: When certificates of open blocks were written again the last time.
        undecided: Endpoints of which it was not known by the last judgement what they are owed.
        comparisons: What digests have told, by block; who goes on from a state compares again.
        read_s: When blocks were read message by message, of those where that was just now.
        claimed: What endpoints claim of ingress partitions, as of the last judgement.
        promises: Those to whom something was promised by then.
    """

    blocks: Blocks
    unpublished: dict[str, Certificate] = field(default_factory=dict)
    waiting: list[UncertifiedRange] = field(default_factory=list)
    hours: Hours = field(default_factory=Hours)
    renewed_ms: int = 0
    undecided: dict[EndpointKey, None] = field(default_factory=dict)
    comparisons: dict[tuple[TopicPartition, int], Comparison] = field(
        default_factory=dict, init=False, repr=False
    )
    read_s: dict[tuple[TopicPartition, int], float] = field(
        default_factory=dict, init=False, repr=False
    )
    claimed: dict[TopicPartition, PartitionClaims] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    promises: Promises | None = field(default=None, init=False, repr=False, compare=False)

    def judge(self, world: World, now_s: float, *, is_last: bool = False) -> Certification:
        """Certify what digests can certify; return what must be read message by message.

        Every case of it is settled or put off, then `finish` ends it.

        Args:
            world: The other audits.
            now_s: The auditor's clock, in seconds.
            is_last: Certify open ranges at once: there will be no later judgement.
        """
        self.waiting, self.undecided = [], {}
        for finding in self.blocks.unplaced.take_findings():
            world.register.add(finding)
        certification, glances = Certification(self.blocks, world, now_s), 0
        promises = self.promises = Promises.by(world.interest, self.promises)
        before, self.comparisons = self.comparisons, {}
        read = self.read_s.items()
        self.read_s = {key: at for key, at in read if 0 <= now_s - at < BLOCK_QUIET_S}
        for place, number, block in self.blocks.walk():
            if block.judged == (block.stamp, world.version):
                continue
            for ticket in block.tickets:
                world.progress.advance(ticket, world.sight())
            may_read = (place, number) not in self.read_s
            is_due = is_last or _is_due(block, now_s, may_read=may_read)
            if is_due:
                block.judged_s = now_s
            is_closed = self.blocks.is_closed(place, number, world.read.get(place, 0))
            generations = world.progress.generations.of(world.names.key(place))
            basis = Basis(block.stamp, generations, is_closed=is_closed)
            known = before.get((place, number))
            if known is None or known.basis != basis:
                known = Comparison(basis, Offer.of(block))
            self.comparisons[place, number] = known
            if self._rests(known, block, world):
                continue
            judgement = BlockJudgement(place, number, block, known)
            judgement.may_read, judgement.is_closed = may_read, is_closed
            judgement.is_glance = not is_due
            if judgement.is_glance:
                self._wait(judgement, "*", "news to settle")
                glances += len(promises.endpoints) * len(block.subjects)
                if glances > GLANCES_MAX:
                    continue
            known.look_at(block, promises)
            certification.judgements.append(judgement)
            claimed = self.claimed.get(place, NOTHING_CLAIMED).by(world.version)
            self.claimed[place] = claimed
            reconcile(certification, judgement, claimed)
        return certification

    def _rests(self, known: Comparison, block: Block, world: World) -> bool:
        """Return whether a block is unchanged since the last look, so that the result is too."""
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

    def finish(self, certification: Certification) -> None:
        """End a certification: follow late messages, and leave settled blocks until they change."""
        world, now_s = certification.world, certification.now_s
        read = {(case.place, case.block): None for case in certification.cases}
        for judgement in certification.judgements:
            block, begin = judgement.block, len(self.waiting)
            key, stamp = (judgement.place, judgement.number), (block.stamp, world.version)
            for endpoint in judgement.undecided:
                self.undecided[endpoint] = None
                self._wait(judgement, endpoint, ended_of(endpoint))
            if judgement.is_put_off:
                self.read_s.pop(key, None)
                for endpoint in judgement.late:
                    self._wait(judgement, endpoint, "a Kafka cluster to answer")
                continue
            if key in read:
                self.read_s[key] = now_s
            for endpoint, ticket in judgement.passed.items():
                if endpoint in judgement.late and ticket.bound >= block.last:
                    block.settled[endpoint] = stamp
                    block.unequal.pop(endpoint, None)
                    del judgement.late[endpoint]
            if judgement.is_glance:
                follow(judgement, world)
                continue
            block.unequal = {
                one: last for one, last in block.unequal.items() if one in judgement.late
            }
            follow(judgement, world)
            if not (judgement.late or judgement.undecided):
                block.judged = stamp
            found = _reasons(block, world)
            reasons = dict(zip(map(id, block.tickets), found, strict=True))
            for endpoint in judgement.late:
                if (followed := block.ticket_of(endpoint)) is not None:
                    self._wait(judgement, endpoint, reasons[id(followed)])
            if key in read or not _is_quiet(block, now_s):
                continue  # what was read is news, and with time alone more of it counts
            told = self.waiting[begin:]
            judgement.comparison.rest = Rest(world.version, told, found, [*judgement.undecided])
        self._publish(certification)

    def _publish(self, certification: Certification) -> None:
        """Have written what is issued, and close the blocks that are certified for good."""
        world, now_s = certification.world, certification.now_s
        for place in self.blocks.open:
            self.blocks.route(place, world.progress.position(place), now_s)
        self.unpublished.update(certification.issued)
        self.unpublished.update({one.key: one for one in self.blocks.retimed()})
        now_ms = world.register.now_ms
        for certificate in self.blocks.forget(now_s, world.read, world.read_s, world.version):
            self.hours.close(certificate, now_ms)
        if not 0 <= now_ms - self.renewed_ms < RENEW_MS:
            self.renewed_ms = now_ms
            for _, _, block in self.blocks.walk():
                self.unpublished.update({one.key: one for one in block.issued.values()})

    def _wait(self, judgement: BlockJudgement, endpoint: EndpointKey | str, reason: str) -> None:
        block = judgement.block
        told = (judgement.source, judgement.number, str(endpoint), block.last, reason)
        self.waiting.append(UncertifiedRange(*told))


def _reasons(block: Block, world: World) -> Sequence[str]:
    """Return for what each ticket of a block waits."""
    return [world.progress.where(one, world.read) for one in block.tickets]


def ended_of(endpoint: EndpointKey) -> str:
    """Return what is waited for where that alone decides what is owed, for people."""
    return f"lanes of {endpoint.node} to tell where a subscription of {endpoint} ended"


def _is_due(block: Block, now_s: float, *, may_read: bool) -> bool:
    is_old = not 0 <= now_s - block.judged_s < CERTIFY_EVERY_S
    # What is read again is not read for every batch: in a busy block something is late always.
    is_through = may_read and any(one.is_done for one in block.tickets)
    return _is_quiet(block, now_s) or is_old or is_through


def _is_quiet(block: Block, now_s: float) -> bool:
    return not 0 <= now_s - block.changed_s < BLOCK_QUIET_S
