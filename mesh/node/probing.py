"""Links between nodes that are configured apart: probed before they carry data, refused in loops.

Every node publishes which links it holds. As long as all known nodes work by one topology, which
was found legal before it was used, nothing more is needed: links open as they come up. Where a
node works by another one, every node hands on what it has heard, also over links that carry no
data; each judges all of it by the same rule (`mesh.core.loops`), shuts what the rule
refuses, and says by what it judged once that holds in every lane. A link that is not open yet
opens when all nodes connected with it say the same: so of two links that close a loop together
none opens before the other end of the mesh has shut what loses. Spec: K26, K27, EMS-15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.held_links import Pair, component, facts_digest
from mesh.core.lineage import topology_digest
from mesh.core.local_links import LocalLink, local_links
from mesh.core.loops import Judgement, judgement
from mesh.model.control import NEVER, Stage, Version
from mesh.model.effects import DropLinks, Note, WriteLinks
from mesh.model.inputs import DrainStepDone, IdentityRead, LinksRead
from mesh.model.interest_inputs import GATES, STILL, VersionByInput
from mesh.model.links import (
    Gate,
    GateStatus,
    HeldLink,
    NodeLinks,
    YieldProposal,
    YieldReply,
)
from mesh.model.topology import Topology
from mesh.node.gate_rules import (
    NOTHING_REFUSED,
    by_name,
    is_probing,
    is_same,
    kept_open,
    news,
    on_wire,
    only_peers_changed,
    opened,
    shut,
    states,
    up_to_date,
    waits_for,
    yielding,
)
from mesh.node.gates import set_gates
from mesh.node.giving_way import GivingWay, Situation
from mesh.node.leader import Leader
from mesh.node.learner import Learner
from mesh.node.link_gossip import RENEW_MS, LinkGossip
from mesh.node.mistakes import mistaken, not_held

JUDGE_MS = 20
"""Least time between two judgements, unless a neighbour's links have changed."""

CALM_MS = 1_000
"""Least time between two own records as long as all nodes work by one topology and nothing is
shut: a node that starts hears of one neighbour after another, and nobody waits for that."""

FORMER_MAX = 64
"""Former topologies remembered; who missed more changes than that is taken to be apart."""

AGAIN_MS = 50
"""Time between two judgements while a link gives way; `CALM_MS` as long as one waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a judgement goes by, and what it says.

    Attributes:
        near: The nodes connected with this one.
        apart: The same, if some of them work by another topology; else nobody.
        facts: Digest of what they hold, if so.
        are_ours: All of them work by a topology that this node works by, has worked by or will.
        judged: Which links must carry nothing.
        losers: Those that are open, and have to give way first.
        may_shut: They may be shut: nothing is on its way.
        may_open: What takes their place may open.
    """

    near: Sequence[str]
    apart: Sequence[str]
    facts: str
    are_ours: bool
    judged: Judgement
    losers: Sequence[Pair]
    may_shut: bool
    may_open: bool


@dataclass(slots=True)
class Probing:
    """What one worker knows of all nodes' links; the leader's one judges them.

    Attributes:
        topology, node, uuid: Whose links.
        cluster_id: Of the node's own Kafka cluster; empty: nothing is published or judged.
        number: Of the topology, which its new links are created by; 0 for a file.
        records: What each node says, by uuid.
        has_read: The own control topic is read to its end: sources may have to hold.
    """

    topology: Topology
    node: str
    uuid: str
    cluster_id: str = ""
    number: int = 0
    records: dict[str, NodeLinks] = field(default_factory=dict)
    has_read: bool = False
    _identities: dict[str, IdentityRead] = field(default_factory=dict)
    _digests: tuple[str, ...] = ()
    _former: tuple[str, ...] = ()
    _ahead: frozenset[str] = frozenset()
    _leads: bool = False
    _may_tell: bool = True
    _has_judged: bool = False
    _is_dirty: bool = True
    _is_urgent: bool = True
    _judged_ms: int = 0
    _written: NodeLinks | None = None
    _written_ms: int = 0
    _in_force: int = -1
    _least: tuple[int, int] = (0, 0)
    _remembered: tuple[object, Judgement] = ("", NOTHING_REFUSED)
    _way: GivingWay = field(init=False)
    _still: Version = NEVER
    _again_ms: int = 0
    _said: tuple[str, ...] = ()
    _gossip: LinkGossip = field(init=False)

    def __post_init__(self) -> None:
        """Know by which topology the node works."""
        self._digests = (topology_digest(self.topology),)
        self._way = GivingWay(self.uuid)
        self._gossip = LinkGossip(self.uuid)

    @property
    def is_known(self) -> bool:
        """Whether it is decided which links are open, so that a first routing may follow."""
        if not self.cluster_id:
            return True
        return self._has_judged if self._leads else self.has_read and self.uuid in self.records

    @property
    def reply(self) -> YieldReply:
        """How far this node is with what an open link gives way by."""
        own = self.records.get(self.uuid)
        return YieldReply() if own is None else own.reply

    # -- what is heard --------------------------------------------------------------------

    def take(self, read: LinksRead | IdentityRead | DrainStepDone, learner: Learner) -> None:
        """Take a node's links record, the writer of a control topic, or a drain step done here."""
        if isinstance(read, DrainStepDone):
            learner.pending.versions.note(STILL, read.version)
        elif isinstance(read, LinksRead):
            self.heard(read.record)
        elif self._identities.get(read.neighbour) != read:
            self._identities[read.neighbour] = read
            self._is_dirty = self._is_urgent = True

    def heard(self, record: NodeLinks) -> None:
        """Take a node's record of its links, whoever handed it on."""
        if record.uuid == self.uuid and self._leads:
            # Whoever handed it on may know more than the own control topic, if that lost its end.
            least = max(self._least[0], record.sequence), max(self._least[1], record.number)
            if record.sequence > self.records[self.uuid].sequence and least != self._least:
                self._least, self._is_dirty = least, True
            return
        known = self.records.get(record.uuid)
        if known is not None and known.sequence >= record.sequence:
            return
        self.records[record.uuid] = record
        self._is_dirty = True
        if record.node in self.topology.neighbours(self.node):
            # Its link must be shut before it is used; what is farther away can wait for more.
            self._is_urgent |= known is None or known.facts != record.facts

    def lead(self, written: Sequence[NodeLinks]) -> None:
        """Begin to judge, with what the own control topic says."""
        self._leads = False
        for record in written:
            self.heard(record)
        self._gossip.written = {record.uuid: record.sequence for record in written}
        self._written = next((record for record in written if record.uuid == self.uuid), None)
        if self._written is not None:
            # A change in force since the node was down made a former one of its own topology.
            last = (self._written.digest,) if self.number > 0 else ()
            self._add_former((*last, *self._written.former))
        self._leads = self._is_dirty = self._is_urgent = True
        self._has_judged, self._in_force = False, -1
        self.records.setdefault(
            self.uuid, NodeLinks(node=self.node, uuid=self.uuid, cluster_id="", digest="")
        )

    def follow(self) -> None:
        """Go by what another worker judges from now on."""
        self._leads = False

    def relink(self, topology: Topology, number: int, stage: Stage) -> None:
        """Have the links of another topology; others may have the former one for a while."""
        self.topology, self.number = topology, number
        former, self._former = self._former, ()
        self._digests = (topology_digest(topology), *self._digests[:1])
        self._add_former((*self._digests[1:], *former))
        self._is_dirty = self._is_urgent = True
        if stage.is_over:
            self.change_ended()  # its end was read before this worker could follow it

    def change_ended(self) -> None:
        """Record that no change is under way: a node with the former topology is apart."""
        if len(self._digests) > 1:
            self._digests = self._digests[:1]
            self._is_dirty = True

    def _add_former(self, digests: Sequence[str]) -> None:
        """Add to the former topologies what is none of the newest, as long as there is room."""
        news = [one for one in dict.fromkeys(digests) if one not in (*self._former, "")]
        former = (*self._former, *(one for one in news if one != self._digests[0]))
        self._former = former[:FORMER_MAX]

    def in_force(self, versions: VersionByInput) -> None:
        """Record that a round is in force in every lane."""
        number = versions.get(GATES, (0, -1))[1]
        if number != self._in_force:
            self._in_force = number
            self._is_dirty = self._is_urgent = True

    # -- judging --------------------------------------------------------------------------

    def step(
        self,
        learner: Learner,
        leader: Leader | None,
        now_ms: int,
        lanes: Mapping[int, VersionByInput],
        *,
        is_ready: bool,
        may_tell: bool,
    ) -> Iterator[WriteLinks | DropLinks | Note]:
        """Set the gates by what is known and each lane has committed; publish what is new.

        A leader that begins to judge waits until all that neighbours offer is proven, unless it is
        ready and has known them before: they may wait for it to write its own topic again. That it
        has other links it says only once it is known that it works by them (`may_tell`).

        Args:
            learner: What the node knows of its neighbours.
            leader: What it offers; None in a worker that does not lead, which writes nothing.
            now_ms: The present moment.
            lanes: By lane of the node, which versions of interest it has committed.
            is_ready: Whether the node serves.
            may_tell: Whether the links that the node has now may be published.
        """
        if may_tell != self._may_tell:
            self._may_tell, self._is_dirty, self._is_urgent = may_tell, True, True
        count = self.topology.nodes[self.node].lanes
        still = min(lanes.get(lane, {}).get(STILL, NEVER) for lane in range(count))
        if still != self._still:
            self._still, self._is_dirty = still, True
        self._is_dirty |= 0 < self._again_ms <= now_ms - self._judged_ms
        self._is_dirty |= self._gossip.is_due(now_ms)
        if not self.cluster_id or not self._is_dirty:
            return
        own = self.records.get(self.uuid)
        if not self._leads:
            if own is not None:
                self._is_dirty = False
                set_gates(learner, {gate.neighbour: gate for gate in own.gates}, own.gate_number)
            return
        if own is None or not (self._has_judged or is_ready or learner.is_synced):
            return
        if not self._is_urgent and now_ms - self._judged_ms < JUDGE_MS:
            return
        self._is_dirty = self._is_urgent = False
        self._has_judged, self._judged_ms = True, now_ms
        yield from self._judge(own, learner, leader)

    def _judge(
        self, own: NodeLinks, learner: Learner, leader: Leader | None
    ) -> Iterator[WriteLinks | DropLinks | Note]:
        """Judge all links again: which are shut, which may open, and what others are told of it."""
        record = self._with_facts(own)
        self.records[self.uuid] = record
        near = component(self.records, self.uuid)
        record = self._with_former(record, near)
        found = self._look(record, near)
        record, gates, kept = self._set(record, found)
        self.records[self.uuid] = record
        lagging = [uuid for uuid in near if self.records[uuid].seen != found.facts]
        if found.may_open or ((found.are_ours or not lagging) and not found.losers):
            gates = {name: opened(gate) for name, gate in gates.items()}
        gate_number = record.gate_number + (states(gates) != states(by_name(record)))
        record = replace(record, gates=tuple(map(on_wire, gates.values())), gate_number=gate_number)
        yield from news(by_name(own), gates)
        names = [self.records[uuid].node for uuid in lagging if uuid != self.uuid]
        waits = waits_for(self.node, names, found.losers, found.judged)
        closed = set_gates(learner, _shown(gates, waits), gate_number)
        if leader is not None and closed:
            leader.shut(closed)
        self.records[self.uuid] = record
        now = Situation(
            now_ms=self._judged_ms,
            near=near,
            facts=found.facts,
            asks=self.uuid == min((end for one in found.losers for end in one.ends), default=""),
            why=waits,
            still=self._still,
            is_shut=not kept and self._in_force >= gate_number,
            is_set=not is_probing(gates),
            is_joined=leader is not None and leader.is_complete(learner),
        )
        record = self._way.step(record, self.records, now)
        yield from self._way.notes
        self._way.notes.clear()
        self._again_ms = AGAIN_MS if record.is_giving_way else CALM_MS if found.losers else 0
        yield from self._tell(record, found.apart)

    def _look(self, record: NodeLinks, near: Sequence[str]) -> _Found:
        """Judge what the nodes connected with this one hold."""
        self._ahead = self._digests_ahead(record.digest)
        digests = {self.records[uuid].digest for uuid in near}
        are_one = digests == {record.digest}
        is_quiet = digests <= self._expected
        # While all follow a change, handing on how far each of them is serves nobody.
        apart = () if are_one or is_quiet else near
        facts = facts_digest(self.records, near) if apart else ""
        judged = NOTHING_REFUSED if is_quiet else self._judgement(facts, near)
        switched = self._switched(near, facts)
        return _Found(
            apart=apart,
            facts=facts,
            # A node that is down or behind a disabled link has missed changes, and follows them
            # once it is back: those that had to take part did, so its links agree with what is in
            # force (K28).
            are_ours=digests <= {record.digest, *self._former, *self._ahead},
            judged=judged,
            losers=yielding(self.records, judged),
            may_shut=bool(switched) or self._is_quiescent(record, near),
            may_open=any(one.has_opened for one in switched),
            near=near,
        )

    def _set(
        self, record: NodeLinks, found: _Found
    ) -> tuple[NodeLinks, dict[str, GateStatus], Sequence[str]]:
        """Return the own record, the gates that follow from a judgement, and what stays open yet.

        Once every lane has these gates in force the record says by what was judged.
        """
        losers = found.losers
        kept = (
            ()
            if found.may_shut
            else kept_open(self.records, record, found.near, losers, self._said)
        )
        gates = shut(self.records, record, self._reasons(record, found.judged, kept), kept)
        is_set = states(gates) == states(by_name(record)) and self._in_force >= record.gate_number
        if is_set and not kept:
            record = replace(record, seen=found.facts)
            self._said = (found.facts, *self._said[:FORMER_MAX])
        return record, gates, kept

    def _switched(self, near: Sequence[str], facts: str) -> Sequence[YieldProposal]:
        """Return what was proposed by these facts, where nothing is on its way any more."""
        proposals = [self.records[uuid].proposal for uuid in near]
        return [one for one in proposals if one and one.facts == facts and one.has_switched]

    def _is_quiescent(self, record: NodeLinks, near: Sequence[str]) -> bool:
        """Return whether sources hold and nothing is on its way, whatever the facts are by now."""
        followed = self.records.get(record.reply.to) if record.reply.is_holding else None
        proposal = followed.proposal if followed is not None and followed.uuid in near else None
        return proposal is not None and proposal.is_active and proposal.has_switched

    def _with_facts(self, own: NodeLinks) -> NodeLinks:
        """Return the own record with the links that the node holds now."""
        links = tuple(self._held(own, link) for link in local_links(self.topology, self.node))
        record = replace(own, cluster_id=self.cluster_id, digest=self._digests[0], links=links)
        if record.facts == own.facts and own.number >= max(1, self._least[1]):
            return record
        # What was said of a link that is another one now says nothing of it.
        kept = [gate for gate in own.gates if is_same(own, record, gate.neighbour)]
        self._said = ()
        return replace(record, number=max(own.number, self._least[1]) + 1, gates=tuple(kept))

    def _with_former(self, record: NodeLinks, near: Sequence[str]) -> NodeLinks:
        """Return the own record with what is known of former topologies.

        A node that a change has added has seen none of them, and takes them from others.
        """
        for uuid in near:
            if self.records[uuid].digest == record.digest:
                self._add_former(self.records[uuid].former)
        return replace(record, former=self._former)

    @property
    def _expected(self) -> frozenset[str]:
        """What others may work by without being apart: while a change is under way, all before."""
        before = self._former if len(self._digests) > 1 else ()
        return frozenset((*self._digests, *before, *self._ahead))

    def _digests_ahead(self, digest: str) -> frozenset[str]:
        """Return what others work by who have followed a change that this node is about to."""
        return frozenset(one.digest for one in self.records.values() if digest in one.former)

    def _held(self, own: NodeLinks, link: LocalLink) -> HeldLink:
        joins = [join for join in (link.out, link.into) if join is not None]
        held = HeldLink(
            neighbour=link.neighbour,
            zone=link.zone,
            kind=str(link.kind),
            version=self.number,
            joins=tuple(sorted(joins, key=lambda join: join.zone)),
        )
        former = own.link_to(link.neighbour)
        if former is not None and former.facts == held.facts:
            held = replace(held, version=former.version, peer=former.peer)
        identity = self._identities.get(link.neighbour)
        return held if identity is None else replace(held, peer=identity.uuid)

    def _judgement(self, facts: str, near: Sequence[str]) -> Judgement:
        if self._remembered[0] != (facts, self._former):
            all_ = {uuid: self.records[uuid] for uuid in near}
            found = judgement(up_to_date(all_, self.topology, self._former))
            self._remembered = (facts, self._former), found
        return self._remembered[1]

    def _reasons(
        self, record: NodeLinks, judged: Judgement, kept: Sequence[str]
    ) -> Mapping[str, str]:
        """Return why links must carry nothing, by neighbour."""
        found: dict[str, str] = {}
        for held in record.links:
            name = held.neighbour
            loses = None if name in kept else judged.reasons.get((self.uuid, name))
            reason = (
                mistaken(self.topology, self.node, self.uuid, self._identities, held)
                or loses
                or not_held(self.records, self.uuid, self._expected, held)
            )
            if reason:
                found[name] = reason
        return found

    def _tell(self, record: NodeLinks, near: Sequence[str]) -> Iterator[WriteLinks | DropLinks]:
        """Write the own record if it has changed, and hand on those of others."""
        last, least = self._written, max(record.sequence, self._least[0])
        if not self._may_tell and last is not None and last.digest != record.digest:
            return
        if last is None or replace(record, sequence=last.sequence) != last or least > last.sequence:
            self._is_dirty = True  # having said so may be what a link waits for
            is_calm = not near and not states(by_name(record)) and only_peers_changed(last, record)
            if not is_calm or self._judged_ms - self._written_ms >= CALM_MS:
                record = self._written = replace(record, sequence=least + 1)
                self._written_ms = self._judged_ms
        self.records[self.uuid] = record
        yield from self._gossip.step(self.records, near, self._judged_ms)
        if self._gossip.is_behind:
            self._again_ms = self._again_ms or RENEW_MS


def _shown(gates: Mapping[str, GateStatus], waits: str) -> Mapping[str, GateStatus]:
    """Return gates as people see them: of one that is probed, what it waits for."""
    return {
        name: replace(gate, reason=waits) if gate.state is Gate.PROBING else gate
        for name, gate in gates.items()
    }
