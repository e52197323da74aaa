"""Links between nodes that are configured apart: probed before they carry data, refused in loops.

Every node tells which links it holds. As long as all that is heard works by one topology, which
was found legal before it was used, nothing more is needed: links open as they come up. Where
somebody works by another one, every node hands on what it has heard, over links that carry no
data as well; each judges all of it by the same rule (`mesh.core.loops`), shuts what the rule
refuses, and says by what it judged once that holds in every lane. A link that is not open yet
opens when all nodes that hang together say the same: so of two links that close a loop together
none opens before the other end of the mesh has shut what loses. Spec: K26, K27, EMS-15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.loops import (
    component,
    facts_digest,
    link_back,
    refusals,
    topology_digest,
)
from mesh.core.routing import LocalLink, local_links
from mesh.model.effects import Note, WriteLinks
from mesh.model.inputs import IdentityRead, LinksRead
from mesh.model.links import Gate, GateStatus, HeldLink, NodeLinks
from mesh.model.topology import Topology
from mesh.node.gates import LINKS, set_gates
from mesh.node.leader import Leader
from mesh.node.learner import Learner

JUDGE_MS = 20
"""Least time between two judgements, unless a neighbour's links have changed."""

CALM_MS = 1_000
"""Least time between two own records as long as all nodes work by one topology and nothing is
shut: a node that starts hears of one neighbour after another, and nobody waits for that."""

FORMER_MAX = 64
"""Former topologies remembered; who missed more changes than that is taken to be apart."""

LAGGARDS_MAX = 5
"""Nodes named that a link waits for; more would not be read."""


@dataclass(slots=True)
class Probing:
    """What one worker knows of all nodes' links; the leader's one judges them.

    Attributes:
        topology, node, uuid: Whose links.
        cluster_id: Of the node's own Kafka cluster; empty: nothing is told or judged.
        number: Of the topology, which its new links are created by; 0 for a file.
        records: What each node says, by uuid.
    """

    topology: Topology
    node: str
    uuid: str
    cluster_id: str = ""
    number: int = 0
    records: dict[str, NodeLinks] = field(default_factory=dict)
    _identities: dict[str, IdentityRead] = field(default_factory=dict)
    _written: dict[str, int] = field(default_factory=dict)
    _digests: tuple[str, ...] = ()
    _former: tuple[str, ...] = ()
    _ahead: frozenset[str] = frozenset()
    _leads: bool = False
    _has_judged: bool = False
    _is_dirty: bool = True
    _is_urgent: bool = True
    _judged_ms: int = 0
    _told: NodeLinks | None = None
    _told_ms: int = 0
    _in_force: int = -1
    _least: tuple[int, int] = (0, 0)
    _remembered: tuple[str, Mapping[tuple[str, str], str]] = ("", {})

    def __post_init__(self) -> None:
        """Know by which topology the node works."""
        self._digests = (topology_digest(self.topology),)

    @property
    def is_known(self) -> bool:
        """Whether it is decided which links are open, so that a first routing may follow."""
        if not self.cluster_id:
            return True
        return self._has_judged if self._leads else self.uuid in self.records

    # -- what is heard --------------------------------------------------------------------

    def take(self, read: LinksRead | IdentityRead) -> None:
        """Take note of what a node says of its links, or of who writes a control topic."""
        if isinstance(read, LinksRead):
            self.heard(read.record)
        elif self._identities.get(read.neighbour) != read:
            self._identities[read.neighbour] = read
            self._is_dirty = self._is_urgent = True

    def heard(self, record: NodeLinks) -> None:
        """Take note of what a node says of its links, whoever handed it on."""
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
        self._written = {record.uuid: record.sequence for record in written}
        self._told = next((record for record in written if record.uuid == self.uuid), None)
        if self._told is not None:
            # What came into force by a change while the node was down made a former one of its own.
            last = (self._told.digest,) if self.number > 0 else ()
            self._add_former((*last, *self._told.former))
        self._leads = self._is_dirty = self._is_urgent = True
        self._has_judged, self._in_force = False, -1
        self.records.setdefault(
            self.uuid, NodeLinks(node=self.node, uuid=self.uuid, cluster_id="", digest="")
        )

    def follow(self) -> None:
        """Go by what another worker judges from now on."""
        self._leads = False

    def relink(self, topology: Topology, number: int) -> None:
        """Have the links of another topology; others may have the former one for a while."""
        self.topology, self.number = topology, number
        former, self._former = self._former, ()
        self._digests = (topology_digest(topology), *self._digests[:1])
        self._add_former((*self._digests[1:], *former))
        self._is_dirty = self._is_urgent = True

    def change_ended(self) -> None:
        """Take note that no change is under way: who works by the former topology is apart."""
        if len(self._digests) > 1:
            self._digests = self._digests[:1]
            self._is_dirty = True

    def _add_former(self, digests: Sequence[str]) -> None:
        """Add to the former topologies what is none of the newest, as long as there is room."""
        news = [one for one in dict.fromkeys(digests) if one not in (*self._former, "")]
        former = (*self._former, *(one for one in news if one != self._digests[0]))
        self._former = former[:FORMER_MAX]

    def in_force(self, versions: Mapping[str, tuple[int, int]]) -> None:
        """Take note that a round is in force in every lane."""
        number = versions.get(LINKS, (0, -1))[1]
        if number != self._in_force:
            self._in_force = number
            self._is_dirty = self._is_urgent = True

    # -- judging --------------------------------------------------------------------------

    def step(
        self, learner: Learner, leader: Leader | None, now_ms: int
    ) -> Iterator[WriteLinks | Note]:
        """Set the gates by what is known now; tell what is news of it."""
        if not self.cluster_id or not self._is_dirty:
            return
        own = self.records.get(self.uuid)
        if not self._leads:
            if own is not None:
                self._is_dirty = False
                set_gates(learner, {gate.neighbour: gate for gate in own.gates}, own.gate_number)
            return
        if own is None or not (self._has_judged or learner.is_synced):
            return
        if not self._is_urgent and now_ms - self._judged_ms < JUDGE_MS:
            return
        self._is_dirty = self._is_urgent = False
        self._has_judged, self._judged_ms = True, now_ms
        yield from self._judge(own, learner, leader)

    def _judge(
        self, own: NodeLinks, learner: Learner, leader: Leader | None
    ) -> Iterator[WriteLinks | Note]:
        told = self._with_facts(own)
        self.records[self.uuid] = told
        near = component(self.records, self.uuid)
        told = self._with_former(told, near)
        self._ahead = self._digests_ahead(told.digest)
        digests = {self.records[uuid].digest for uuid in near}
        are_one = digests == {told.digest}
        is_quiet = digests <= self._expected
        # Who is down or behind a disabled link has missed changes, and finds them when it is back:
        # those who had to be there were, so what it holds goes well with what is in force (K28).
        are_ours = digests <= {told.digest, *self._former, *self._ahead}
        settled = "" if are_one else facts_digest(self.records, near)
        refused = {} if is_quiet else self._refused(settled, near)
        gates = self._shut(told, refused)
        if _states(gates) == _states(_by_name(told)) and self._in_force >= told.gate_number:
            told = replace(told, seen=settled)
        self.records[self.uuid] = told
        lagging = [uuid for uuid in near if self.records[uuid].seen != settled]
        if are_ours or not lagging:
            gates = {name: _opened(gate) for name, gate in gates.items()}
        gate_number = told.gate_number + (_states(gates) != _states(_by_name(told)))
        told = replace(told, gates=tuple(map(_on_wire, gates.values())), gate_number=gate_number)
        yield from self._news(_by_name(own), gates)
        waits = self._waits_for(lagging)
        shown = {
            name: replace(gate, reason=waits) if gate.state is Gate.PROBING else gate
            for name, gate in gates.items()
        }
        shut = set_gates(learner, shown, gate_number)
        if leader is not None and shut:
            leader.shut(shut)
        yield from self._tell(told, () if are_one else near)

    def _with_facts(self, own: NodeLinks) -> NodeLinks:
        """Return the own record with the links that the node holds now."""
        links = tuple(self._held(own, link) for link in local_links(self.topology, self.node))
        told = replace(own, cluster_id=self.cluster_id, digest=self._digests[0], links=links)
        if told.facts == own.facts and own.number >= max(1, self._least[1]):
            return told
        # What was said of a link that is another one now says nothing of it.
        kept = [gate for gate in own.gates if _is_same(own, told, gate.neighbour)]
        return replace(told, number=max(own.number, self._least[1]) + 1, gates=tuple(kept))

    def _with_former(self, told: NodeLinks, near: Sequence[str]) -> NodeLinks:
        """Return the own record with what is known of former topologies.

        Who came with a change has seen none of them, and takes the word of others.
        """
        for uuid in near:
            if self.records[uuid].digest == told.digest:
                self._add_former(self.records[uuid].former)
        return replace(told, former=self._former)

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

    def _refused(self, settled: str, near: Sequence[str]) -> Mapping[tuple[str, str], str]:
        if self._remembered[0] != settled:
            found = refusals({uuid: self.records[uuid] for uuid in near})
            self._remembered = settled, found
        return self._remembered[1]

    def _shut(
        self, told: NodeLinks, refused: Mapping[tuple[str, str], str]
    ) -> dict[str, GateStatus]:
        """Return the gates with everything shut that has to be, and nothing opened."""
        gates = _by_name(told)
        found: dict[str, GateStatus] = {}
        for held in told.links:
            name = held.neighbour
            known = gates.get(name)
            drains = known is not None and (known.state is Gate.OPEN or known.drains)
            reason = self._mistaken(held) or refused.get((self.uuid, name)) or self._alone(held)
            if reason:
                found[name] = GateStatus(name, Gate.REFUSED, reason, drains)
            elif known is not None and known.state is Gate.OPEN:
                found[name] = known
            elif link_back(self.records, told, held) is not None:
                found[name] = GateStatus(name, Gate.PROBING, "", drains)
        return found

    def _mistaken(self, held: HeldLink) -> str | None:
        """Return why a neighbour is not who it is taken for, or None. Spec: EMS-16."""
        identity = self._identities.get(held.neighbour)
        if identity is None:
            return None
        if identity.uuid == self.uuid:
            return f"{held.neighbour} is {self.node} itself: both have the identity {self.uuid}"
        if identity.read_in and identity.cluster_id != identity.read_in:
            return (
                f"the control topic of {held.neighbour} is a copy: it was written in Kafka cluster "
                f"{identity.cluster_id} and is read in {identity.read_in}; correct the address"
            )
        for other in self.topology.neighbours(self.node):
            known = self._identities.get(other)
            if other < held.neighbour and known is not None and known.uuid == identity.uuid:
                return f"{held.neighbour} and {other} are one node: both are {identity.uuid}"
        return None

    def _alone(self, held: HeldLink) -> str | None:
        """Return that the other end does not hold a link, or None. Spec: K27."""
        peer = self.records.get(held.peer)
        if peer is None or peer.digest in self._expected:
            return None  # not heard of, or about to follow a change
        if link_back(self.records, self.records[self.uuid], held) is not None:
            return None
        return (
            f"{held.neighbour} holds no link to {self.node}: add it to the topology of "
            f"{held.neighbour}, or remove it from that of {self.node}"
        )

    def _waits_for(self, lagging: Sequence[str]) -> str:
        names = sorted(self.records[uuid].node for uuid in lagging if uuid != self.uuid)
        more = f" and {len(names) - LAGGARDS_MAX} more" if len(names) > LAGGARDS_MAX else ""
        waited = ", ".join(names[:LAGGARDS_MAX]) + more
        return f"waits until the links of all nodes are seen by {waited or self.node}"

    def _news(
        self, before: Mapping[str, GateStatus], after: Mapping[str, GateStatus]
    ) -> Iterator[Note]:
        for name, gate in after.items():
            known = before.get(name)
            if gate.state is Gate.REFUSED and gate != known:
                yield Note("link.refused", f"link to {name}: {gate.reason}")
            elif known is not None and known.state is not Gate.OPEN and gate.state is Gate.OPEN:
                yield Note("link.open", f"link to {name} carries data from now on")

    def _tell(self, told: NodeLinks, near: Sequence[str]) -> Iterator[WriteLinks]:
        """Write what is news of the own links, and hand on what others say of theirs."""
        last, least = self._told, max(told.sequence, self._least[0])
        if last is None or replace(told, sequence=last.sequence) != last or least > last.sequence:
            self._is_dirty = True  # having said so may be what a link waits for
            is_calm = not near and not _states(_by_name(told)) and _is_heard_alone(last, told)
            if not is_calm or self._judged_ms - self._told_ms >= CALM_MS:
                told = self._told = replace(told, sequence=least + 1)
                self._told_ms = self._judged_ms
        self.records[self.uuid] = told
        for uuid in sorted({*near, *self._written, self.uuid}):
            record = self.records[uuid]
            if self._written.get(uuid, 0) < record.sequence:
                self._written[uuid] = record.sequence
                yield WriteLinks(record)


def _is_heard_alone(last: NodeLinks | None, told: NodeLinks) -> bool:
    """Say whether all that is news of the own links is who the neighbours are.

    Other links must be told at once: when a change ends, who told of the former ones is apart.
    """
    if last is None or last.digest != told.digest:
        return False
    return [link.facts for link in last.links] == [link.facts for link in told.links]


def _by_name(record: NodeLinks) -> dict[str, GateStatus]:
    return {gate.neighbour: gate for gate in record.gates}


def _states(gates: Mapping[str, GateStatus]) -> Mapping[str, Gate]:
    """Return what is not open: who has not been heard of is not shut."""
    return {name: gate.state for name, gate in gates.items() if gate.state is not Gate.OPEN}


def _opened(gate: GateStatus) -> GateStatus:
    return GateStatus(gate.neighbour, Gate.OPEN) if gate.state is Gate.PROBING else gate


def _on_wire(gate: GateStatus) -> GateStatus:
    return gate if gate.state is Gate.REFUSED else replace(gate, reason="")


def _is_same(before: NodeLinks, after: NodeLinks, neighbour: str) -> bool:
    was, now = before.link_to(neighbour), after.link_to(neighbour)
    return was is not None and now is not None and (was.facts, was.peer) == (now.facts, now.peer)
