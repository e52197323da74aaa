"""The state of one tree node, and the few things that every mechanism does with it."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.model.tree_apps import Delivered, TreeBuilt
from mesh.model.tree_frames import Body, Frame, Heal, Publish
from mesh.model.trees import Address, Colour, Extent, Ids, InstanceId, MessageId, TreeId
from mesh.trees.clocks import LogicalClock
from mesh.trees.hosts import Hosts
from mesh.trees.outputs import Output, Transmit
from mesh.trees.records import LocalRole, Recovery, Session, SharedRecovery, Watching
from mesh.trees.routes import LastHeard, Tree
from mesh.trees.sessions import Sessions
from mesh.trees.settings import Settings

TOO_FAR = "hops beyond the limit"
"""Counts frames that have crossed too many links."""

MADE_UP = "routes that were made up"
"""Counts routes that a host's own answer shows to have been made up."""

RESERVED = "words about trees of the mesh itself"
"""Counts frames that would take a role on the tree that every node is on."""

GIVEN_MAX = 20_000
"""How many deliveries are remembered in case their instance moves."""

FLOODS_MAX = 10_000
"""How many publishes and heals are remembered for links that come up."""


@dataclass(slots=True)
class TreeLink:
    """This node's end of a tree link. Spec: tree_layer 2, 12.

    Attributes:
        realm: Of the peer.
        uuid: Of the peer.
        mine: Number of this end's session; a new one whenever the link goes down.
        theirs: The newest session of the peer, 0 for none.
        sent, read: Numbers of the last frames of the two sessions.
        last: The frame that was read last.
        is_up: Both ends have read each other's HELLO.
        named: In which scopes the peer's HELLO has named a colour in this session.
        heals_told: Of what events were raised in this session. H13.
        hello_ms: When HELLO is due again.
        heard_ms: When anything was last read.
        ping_ms: When the next PING is due.
        asked_ms: When the last one was sent.
        trees: Trees that have an edge over this link.
        hop_ms: What a frame takes over it, by PING; 0 while that is not known.
        pings: When those were sent that are not answered yet.
    """

    peer: str
    mine: int
    realm: str = ""
    uuid: str = ""
    theirs: int = 0
    sent: int = 0
    read: int = 0
    last: Frame | None = None
    is_up: bool = False
    named: dict[Extent, None] = field(default_factory=dict)
    heals_told: dict[Extent, None] = field(default_factory=dict)
    hello_ms: int = 0
    heard_ms: int = 0
    ping_ms: int = 0
    asked_ms: int = 0
    trees: dict[TreeId, None] = field(default_factory=dict)
    hop_ms: float = 0.0
    pings: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class TreeState:
    """What one incarnation of a node knows.

    Attributes:
        uuid, epoch: Its identity and incarnation.
        realm: Its locality group, "" for none.
        trees: Least recently used first.
        under_way: How many messages and recoveries are open on each tree, which is kept for them.
        hosts: Instances here, and who listens.
        remembered: Last routes of forgotten trees. H2.
        far_hop_ms: What the slowest hop of the mesh takes, as echoes of recoveries tell.
        seen: Ids of floods and messages that came already, oldest first.
        floods: What was told to everybody, or in the realm, last; and when.
        beaten: Instances that gave way to one that is known less far than they were: others out
            there are told within the same step.
        given: Which messages instances here have had, here or where they were before; the oldest
            are forgotten. I1.
        sessions: Messages that wait for somebody here, or did just now. H9.
        ready: Sessions whose recovery has ended; they go on within the same step.
        questions: What was delivered to the node itself, which answers within the same step.
        asked_trees: Neighbours that were asked what they know, by which id, and the heals then.
        has_copied: One of them has told.
        watching: Who watches what passes, and what waits for their word.
        heals: Those that it was told of, in order, and the link towards each.
    """

    name: str
    uuid: str
    epoch: int
    realm: str
    settings: Settings
    ids: Ids
    now_ms: int = 0
    clock: LogicalClock = field(default_factory=LogicalClock)
    colour: Colour | None = None
    realm_colour: Colour | None = None
    links_begun: int = 0
    links: dict[str, TreeLink] = field(default_factory=dict)
    trees: OrderedDict[TreeId, Tree] = field(default_factory=OrderedDict)
    under_way: dict[TreeId, int] = field(default_factory=dict)
    hosts: Hosts = field(default_factory=Hosts)
    remembered: OrderedDict[tuple[TreeId, str, Extent, InstanceId], LastHeard] = field(
        default_factory=OrderedDict
    )
    seen: dict[MessageId, None] = field(default_factory=dict)
    floods: deque[tuple[int, Extent, Publish | Heal]] = field(
        default_factory=lambda: deque(maxlen=FLOODS_MAX)
    )
    beaten: list[LocalRole] = field(default_factory=list)
    given: dict[tuple[MessageId, InstanceId], None] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=Sessions)
    ready: deque[Session] = field(default_factory=deque)
    questions: deque[Delivered] = field(default_factory=deque)
    asked_trees: dict[str, tuple[MessageId, int]] = field(default_factory=dict)
    has_copied: bool = False
    watching: Watching = field(default_factory=Watching)
    recoveries: dict[MessageId, Recovery] = field(default_factory=dict)
    joins: dict[tuple[Address, Extent], SharedRecovery] = field(default_factory=dict)
    heals: list[tuple[Heal, str]] = field(default_factory=list)
    far_hop_ms: float = 0.0
    swept_ms: int = 0
    outputs: list[Output] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def heals_known(self) -> int:
        """How many heals this node was told of since they were last compacted."""
        return len(self.heals)

    def tell(self, output: Output) -> None:
        """Leave something for the caller of the step, behind what was left before."""
        self.outputs.append(output)

    def count(self, why: str) -> None:
        """Count something that was dropped or refused."""
        self.counts[why] += 1

    def transmit(self, link: str, body: Body) -> None:
        """Write a frame on a link."""
        end = self.links[link]
        end.sent += 1
        self.tell(Transmit(link, Frame(end.mine, end.sent, body)))

    def is_up(self, link: str) -> bool:
        """Return whether frames can be sent on this link."""
        end = self.links.get(link)
        return end is not None and end.is_up

    def is_remote(self, link: str) -> bool:
        """Return whether the link leaves the node's realm; without a realm each one does."""
        return not self.realm or self.links[link].realm != self.realm

    def ways(self, scope: Extent, *, but: str | None = None) -> Iterator[str]:
        """Yield the links that are up and within the scope, except the one that something came by.

        Spec: tree_layer 5.1.
        """
        for link, end in self.links.items():
            if end.is_up and link != but and not (scope is Extent.REALM and self.is_remote(link)):
                yield link

    def remember_if_new(self, id_: MessageId) -> bool:
        """Remember an id; return whether it was unknown. The oldest are forgotten."""
        if id_ in self.seen:
            return False
        self.seen[id_] = None
        if len(self.seen) > self.settings.seen_max:
            del self.seen[next(iter(self.seen))]
        return True

    def note_given(self, mid: MessageId, iid: InstanceId) -> None:
        """Remember that an instance has had a message."""
        self.given[mid, iid] = None
        if len(self.given) > GIVEN_MAX:
            del self.given[next(iter(self.given))]

    def instances(self, address: Address) -> Mapping[InstanceId, LocalRole]:
        """Return the instances of a role that are hosted here."""
        return self.hosts.instances(address)

    def begin_on(self, tree: TreeId) -> None:
        """Count a message or a recovery that is open on a tree."""
        self.under_way[tree] = self.under_way.get(tree, 0) + 1

    def end_on(self, tree: TreeId) -> None:
        """Count it as ended."""
        left = self.under_way.pop(tree) - 1
        if left:
            self.under_way[tree] = left

    def tree(self, id_: TreeId, protocol: str = "") -> Tree:
        """Return a tree, built again if it was unknown or forgotten."""
        found = self.trees.get(id_)
        if found is None:
            found = self.trees[id_] = Tree(id_)
            self.tell(TreeBuilt(id_, protocol))
        elif self.settings.trees_max is not None:
            self.trees.move_to_end(id_)
        return found
