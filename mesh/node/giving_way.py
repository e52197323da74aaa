"""How an open link that loses gives way: a small agreement of connected nodes.

Walks of messages move with it, so nothing may be under way at that moment. One end of such a link
asks all nodes, by a proposal in its `links` record, which every node passes on; each replies in its
own record. When all replies are there they hold their sources. Then they probe, again and again,
until nothing has arrived between two probes at any node. Then all shut the loser, then open what
waited for that, and when the new links' offers are known everywhere sources go on. Up to the switch
the proposer may withdraw, and the link stays open as it was; so a node that does not reply never
costs a message. Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mesh.core.held_links import Records
from mesh.model.control import Version
from mesh.model.effects import Note
from mesh.model.links import (
    ABORT,
    ASK,
    HOLD,
    JOIN,
    RUN,
    SWITCH,
    NodeLinks,
    YieldProposal,
    YieldReply,
)
from mesh.model.patience import Patience

CALM_MS = 500
"""How long the facts must have been unchanged before an attempt: each change ends it."""

FIRST_PROBE = HOLD + 1

STEP_MS = 10_000
"""How long the proposer waits for all replies to a step before the switch."""

SWITCH_MS = 30_000
"""The same after the switch: then sources go on even if some node has not followed yet."""

PATIENCE_MS = 60_000
"""How long a node holds its sources for a stalled proposal: the proposer may be gone."""

AGAIN_MS = Patience(5_000, 40_000)
"""When a failed attempt is repeated; the time doubles as long as the facts are the same."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a node knows as it judges.

    Attributes:
        now_ms: Time.
        near: uuids of all nodes connected with this one.
        facts: Digest of their facts.
        asks: Whether this node has to make the proposal.
        why: What gives way to what, in words.
        still: What every lane has committed under the name `$still`.
        is_shut: The loser is shut, in every lane.
        is_set: What waited for that is open as well.
        is_joined: All that its open links offer is acknowledged completely.
    """

    now_ms: int
    near: Sequence[str]
    facts: str
    asks: bool
    why: str
    still: Version
    is_shut: bool
    is_set: bool
    is_joined: bool


@dataclass(slots=True)
class GivingWay:
    """Proposes and replies for one node, in its record.

    Attributes:
        uuid: The node's.
        notes: What to report to people.
    """

    uuid: str
    notes: list[Note] = field(default_factory=list)
    _calm: tuple[str, int] = ("", 0)
    _asked: tuple[YieldProposal | None, int] = (None, 0)
    _heard: tuple[str, YieldProposal | None, int] = ("", None, 0)
    _failed: str = ""
    _pause_ms: int = AGAIN_MS.first
    _again_ms: int = 0

    def step(self, own: NodeLinks, records: Records, now: Situation) -> NodeLinks:
        """Return the own record with what is to be proposed and answered now."""
        if self._calm[0] != now.facts:
            self._calm = now.facts, now.now_ms
        own = replace(own, proposal=self._propose(own, records, now))
        return replace(own, reply=self._reply(own, records, now))

    # -- proposing ------------------------------------------------------------------------

    def _propose(self, own: NodeLinks, records: Records, now: Situation) -> YieldProposal | None:
        """Return the node's proposal, one step further if it can go on; else unchanged.

        A proposal goes through ASK, probes until nothing is on its way, SWITCH and RUN, and each
        step waits for the replies of all nodes. It begins when this node has to propose and no
        other does. Before the switch it is aborted if facts change, a node with a lower uuid
        proposes as well, or replies are late. After the switch it goes on without them: sources
        must not hold forever.
        """
        proposal = own.proposal
        if proposal is None or not proposal.is_active:
            is_calm = now.now_ms - self._calm[1] >= CALM_MS
            if self._failed != now.facts:
                self._pause_ms, self._again_ms = AGAIN_MS.first, 0
            is_free = is_calm and not _proposals(records, now.near)
            if now.asks and is_free and now.now_ms >= self._again_ms:
                return YieldProposal(own.sequence + 1, now.facts, ASK)
            return proposal
        if self._asked[0] != proposal:
            self._asked = proposal, now.now_ms
        waited_ms = now.now_ms - self._asked[1]
        left = [uuid for uuid in now.near if not _has_done(records[uuid], self.uuid, proposal)]
        names = ", ".join(sorted(records[uuid].node for uuid in left))
        waits = f"what is new {now.why}"
        if proposal.has_switched:
            if not left:
                return replace(proposal, step=proposal.step + 1)
            if waited_ms < SWITCH_MS:
                return proposal
            self.notes.append(Note("link.late", {"nodes": names, "text": "links not yet changed"}))
            return replace(proposal, step=RUN)
        others = _proposals(records, now.near)
        is_off = proposal.facts != now.facts or not now.asks or min(others) < self.uuid
        if is_off or waited_ms >= STEP_MS:
            if not is_off:
                self.notes.append(Note("link.stays", {"nodes": names, "text": waits}))
                self._failed, self._again_ms = now.facts, now.now_ms + self._pause_ms
                self._pause_ms = AGAIN_MS.after(self._pause_ms)
            return replace(proposal, step=ABORT)
        if left:
            return proposal
        if proposal.step == ASK:
            self.notes.append(Note("link.gives_way", {"text": waits}))
        are_idle = all(records[uuid].reply.is_idle for uuid in now.near)
        # No walk has more links than there are nodes.
        is_drained = proposal.step > FIRST_PROBE and (are_idle or proposal.step > len(now.near))
        return replace(proposal, step=SWITCH if is_drained else proposal.step + 1)

    # -- replying -------------------------------------------------------------------------

    def _reply(self, own: NodeLinks, records: Records, now: Situation) -> YieldReply:
        """Return what this node answers to the proposal that counts, if there is one."""
        reply = own.reply
        proposals = _proposals({**records, self.uuid: own}, now.near)
        proposals = {
            to: proposal for to, proposal in proposals.items() if not _is_left(reply, to, proposal)
        }
        if not proposals:
            return self._released(reply, records, now) if reply.is_following else reply
        to = min(proposals)
        proposal = proposals[to]
        if self._heard[:2] != (to, proposal):
            self._heard = to, proposal, now.now_ms
        if now.now_ms - self._heard[2] >= PATIENCE_MS:
            self.notes.append(Note("link.late", {"nodes": records[to].node, "text": "not heard"}))
            return replace(reply, asked=ABORT)
        if (reply.to, reply.attempt) != (to, proposal.attempt):
            reply = YieldReply(to, proposal.attempt, reply.number + 1, proposal.step)
        reply = replace(reply, asked=proposal.step)
        return _done(reply, proposal, now)

    def _released(self, reply: YieldReply, records: Records, now: Situation) -> YieldReply:
        """Go on; after a switch only once the own gates are as it demands."""
        proposal = records[reply.to].proposal if reply.to in records else None
        must_follow = proposal is not None and proposal.has_switched and reply.to in now.near
        if must_follow and not now.is_shut and now.now_ms - self._heard[2] < PATIENCE_MS:
            return reply
        return replace(reply, asked=ABORT)


def _proposals(records: Records, near: Sequence[str]) -> dict[str, YieldProposal]:
    """Return the proposals for which sources hold, by proposer."""
    proposals = {uuid: records[uuid].proposal for uuid in near}
    return {
        uuid: proposal
        for uuid, proposal in proposals.items()
        if proposal is not None and proposal.is_active
    }


def _is_left(reply: YieldReply, to: str, proposal: YieldProposal) -> bool:
    """Return whether a node went on although the proposer has not said so."""
    return (reply.to, reply.attempt) == (to, proposal.attempt) and not reply.is_following


def _has_done(record: NodeLinks, to: str, proposal: YieldProposal) -> bool:
    reply = record.reply
    is_ours = (reply.to, reply.attempt) == (to, proposal.attempt) and reply.is_following
    return is_ours and reply.done >= proposal.step


def _done(reply: YieldReply, proposal: YieldProposal, now: Situation) -> YieldReply:
    """Return a reply that reports how far a step is done."""
    if proposal.has_switched:
        is_set = now.is_shut and (now.is_set or proposal.step == SWITCH)
        is_done = is_set and (now.is_joined or proposal.step != JOIN)
        return replace(reply, done=proposal.step) if is_done else reply
    if proposal.step == ASK and proposal.facts == now.facts:
        return replace(reply, done=ASK)
    number, step = now.still
    if proposal.facts != now.facts or (number, step // 2) != (reply.number, proposal.step):
        return reply
    return replace(reply, done=proposal.step, is_idle=step % 2 == 1)
