"""What an application and the tree layer of its node tell each other.

The application says what it wants on `roles` and `sends` of its node, and is told on `app.APP`.
Spec: tree_layer 8, 13; kafka.md 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mesh.model.tree_frames import PLAIN, Cause, Options, ReplyKind
from mesh.model.trees import NO_INSTANCE, Address, Colour, Extent, InstanceId, MessageId, TreeId

LEASE_MS = 10_000
"""How long an application lives without renewing its lease, unless it says otherwise.

Spec: tree_layer 13.
"""


PROBE = "$held"
"""Protocol by which a node asks whether a role has a holder; holders' nodes answer it themselves.
No application's protocol begins so. Spec: tree_layer 5.4."""


class RoleKey(NamedTuple):
    """Who wants which role, in the words of the record's key: a tree may go by a name."""

    app: str
    tree: str
    role: str


@dataclass(frozen=True, slots=True)
class RoleRequest:
    """A role that an application takes.

    Attributes:
        iid: Of the instance; 0, as a rule, for a fresh one.
        is_polite: An exclusive role is taken only if nobody holds it. Spec: tree_layer 5.4.
    """

    address: Address
    is_exclusive: bool = False
    extent: Extent = Extent.CLOUD
    protocol: str = ""
    iid: InstanceId = NO_INSTANCE
    is_polite: bool = False


@dataclass(frozen=True, slots=True)
class RoleSaid:
    """A record of `roles`: a role is wanted, or with None no longer wanted.

    Attributes:
        by: The epoch of the node if it wrote this itself, 0 for the application.
    """

    key: RoleKey
    request: RoleRequest | None
    by: int = 0


@dataclass(frozen=True, slots=True)
class LeaseSaid:
    """A record of `roles`: an application has a lease, or with None none any longer.

    Attributes:
        hello: A word of its own that the node's leader repeats at once; "" asks for nothing.
        by: As of `RoleSaid`.
    """

    app: str
    lease_ms: int | None
    hello: str = ""
    by: int = 0


@dataclass(frozen=True, slots=True)
class SendWanted:
    """An application sends to a role.

    Attributes:
        call: The application's own name for it; every answer carries it.
    """

    app: str
    call: str
    address: Address
    payload: bytes = b""
    header: bytes = b""
    options: Options = PLAIN
    iid: InstanceId = NO_INSTANCE
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """An application answers what was delivered to one of its instances. Spec: tree_layer 6.5, 8.

    Attributes:
        grants: Give the sender the role `granted` (default: the one that was addressed).
        gives_up: ... and lose it here: the role moves.
    """

    app: str
    mid: MessageId
    payload: bytes | None = None
    is_last: bool = True
    grants: bool = False
    gives_up: bool = False
    granted: str = ""


@dataclass(frozen=True, slots=True)
class ExclusiveCleared:
    """The holder of this exclusive role, alive or dead, is to lose it. Spec: tree_layer 5.3."""

    app: str
    address: Address


@dataclass(frozen=True, slots=True)
class TreeEvicted:
    """Forget the routes of a tree, as when the cache is full. Spec: tree_layer 5.15."""

    app: str
    tree: TreeId


@dataclass(frozen=True, slots=True)
class RoutesAsked:
    """An application asks what the node knows of the routes to a role.

    Attributes:
        call: The application's own name for it.
    """

    app: str
    call: str
    address: Address


@dataclass(frozen=True, slots=True)
class SnoopWanted:
    """An application watches what passes its node. Spec: tree_layer 6.7, 6.8.

    Attributes:
        tree: Which one, "" for all.
        protocol: Messages of this alone, "" for all.
        holds: Each message and reply waits for the application's word before it goes on.
    """

    app: str
    tree: TreeId | None
    protocol: str = ""
    holds: bool = False


@dataclass(frozen=True, slots=True)
class SnoopEnded:
    """An application no longer watches; what waits for its word goes on."""

    app: str
    tree: TreeId | None
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """An application's word on what waits for it.

    Attributes:
        token: What the application was shown.
        is_consumed: It goes no further; a sender that waits for a last reply gets one all the same.
        payload: What goes on instead, None for what came.
    """

    app: str
    token: MessageId
    is_consumed: bool = False
    payload: bytes | None = None


class NewsKind(StrEnum):
    """What an application may ask to be told of, beside what concerns itself.

    Spec: tree_layer 7.4, 8.
    """

    SPLITS = "splits"
    COLOURS = "colours"
    TREES = "trees"


@dataclass(frozen=True, slots=True)
class NewsWanted:
    """An application wants to hear of something, or with `ends` no longer."""

    app: str
    of: NewsKind
    ends: bool = False


AppSaid = (
    SendWanted
    | AnswerGiven
    | ExclusiveCleared
    | TreeEvicted
    | RoutesAsked
    | SnoopWanted
    | SnoopEnded
    | Resumed
    | NewsWanted
)
"""Records of `sends`."""


def content_bytes(said: AppSaid) -> int:
    """Return how many bytes of an application's content a record carries."""
    match said:
        case SendWanted():
            return len(said.payload) + len(said.header)
        case AnswerGiven() | Resumed():
            return len(said.payload or b"")
        case (
            ExclusiveCleared()
            | TreeEvicted()
            | RoutesAsked()
            | SnoopWanted()
            | SnoopEnded()
            | NewsWanted()
        ):
            return 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message for an instance of this application.

    Attributes:
        wants_answer: False for one-way messages: an answer would be refused.
        is_endpoint: Nobody further on gets it, as far as is known here.
    """

    app: str
    mid: MessageId
    address: Address
    iid: InstanceId
    protocol: str
    header: bytes
    payload: bytes
    wants_answer: bool
    is_endpoint: bool
    hops: int


@dataclass(frozen=True, slots=True)
class Snooped:
    """A message or reply passes the node, and this application watches. Spec: tree_layer 6.8.

    Attributes:
        token: To be named in `Resumed`; 0 if it does not wait.
        mid: Of the message, the same at every node and for its replies.
        link: The neighbour that it came from, "" for this node.
        hops: Links that the message crossed.
        has_role: The role is hosted here too.
        kind: Of a reply, None for a message.
        is_last: Of a reply: as far as this node goes, nothing comes behind it.
        is_endpoint: A reply that has come to the sender.
        items: The payload, or those of a reply that collects.
    """

    app: str
    token: MessageId
    mid: MessageId
    address: Address
    iid: InstanceId
    protocol: str
    options: Options
    header: bytes
    items: tuple[bytes, ...]
    link: str
    hops: int
    has_role: bool
    kind: ReplyKind | None = None
    is_last: bool = False
    is_endpoint: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer to what this application sent.

    Attributes:
        kind: DATA, NULL, NOT_FOUND, GRANT, or END: nobody says anything more.
        is_last: Exactly one answer of a call is; none follows it.
    """

    app: str
    call: str
    kind: ReplyKind
    is_last: bool
    items: tuple[bytes, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class RoleTaken:
    """The application holds the role from now on, by its request or by a grant.

    Attributes:
        protocol: It gets messages of this protocol, and those that name none.
    """

    app: str
    address: Address
    iid: InstanceId
    is_granted: bool
    is_exclusive: bool = False
    extent: Extent = Extent.CLOUD
    protocol: str = ""


class RoleLoss(StrEnum):
    """Why a role was lost."""

    HIGHER_HOLDER = "a higher holder took it"
    CLEARED = "it was cleared"
    GRANTED = "it was granted away"


@dataclass(frozen=True, slots=True)
class RoleLost:
    """The application no longer holds the role."""

    app: str
    address: Address
    iid: InstanceId
    why: RoleLoss


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused, and nothing has changed.

    Attributes:
        code: A fixed word, in capitals.
        text: What, where, what to do.
        address: The role that was asked for, if it was one.
    """

    app: str
    call: str
    code: str
    text: str
    address: Address | None = None


@dataclass(frozen=True, slots=True)
class PartitionSuspected:
    """A tree link was lost; a census can tell whether the mesh is split. Spec: tree_layer 7.4."""

    link: str


@dataclass(frozen=True, slots=True)
class Unpartitioned:
    """Two parts of the mesh have met again. Spec: tree_layer 7.4.

    Attributes:
        near, far: The ends of the link where they met, `near` on the side that is told.
        colour: Of the united part: the higher of the two.
        near_colour, far_colour: Of each side before; None if not known.
    """

    id: MessageId
    scope: Extent
    near: str
    far: str
    colour: Colour
    near_colour: Colour | None = None
    far_colour: Colour | None = None


class ColourReason(StrEnum):
    """Why a colour is reported."""

    FIRST = "first"
    LINK_LOST = "link_lost"
    SPREAD = "spread"
    HEALED = "healed"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class ColourChanged:
    """The node's part, or its part of the realm, has another label. Spec: tree_layer 7.4.

    Attributes:
        old: None for a node that had none, and where nothing has changed: `ASKED`.
        reason: `SPREAD`: a neighbour passed it on after a loss or a heal elsewhere.
    """

    scope: Extent
    old: Colour | None
    new: Colour
    reason: ColourReason


@dataclass(frozen=True, slots=True)
class TreeBuilt:
    """The node knows a tree that was new to it, or that it had forgotten. Spec: tree_layer 8.

    Attributes:
        protocol: Of the message that it came by, "" for none.
    """

    tree: TreeId
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class NodesLost:
    """Some nodes no longer answer: the mesh is split, or they are dead. Spec: tree_layer 7.4.

    Attributes:
        reached: Who answers, this node among them.
        lost: Those that answered before and do not now.
    """

    reached: tuple[str, ...]
    lost: tuple[str, ...]

    @property
    def is_minority(self) -> bool:
        """Whether at most half of all these can be reached: refuse writes."""
        return len(self.reached) <= len(self.lost)


@dataclass(frozen=True, slots=True)
class NodesFound:
    """Some nodes answer that did not the last time: they are back, or new.

    Attributes:
        reached, lost, is_minority: As of `NodesLost`.
        found: Who answers again, or for the first time.
    """

    reached: tuple[str, ...]
    lost: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def is_minority(self) -> bool:
        """Whether still at most half of all these can be reached."""
        return len(self.reached) <= len(self.lost)


@dataclass(frozen=True, slots=True)
class Served:
    """A new incarnation of the node serves the application: open sends get no further answers.

    Attributes:
        hello: What the application said, if this answers it.
    """

    app: str
    uuid: str
    epoch: int
    hello: str = ""


@dataclass(frozen=True, slots=True)
class Expired:
    """The application has expired, with its roles and open sends; if it lives it asks again.

    Its lease ran out, another process of its name ended it, or its records were lost before the
    node could read them.
    """

    app: str


class RouteReason(StrEnum):
    """How a route came to be known."""

    PUBLISHED = "published"
    RECOVERED = "recovered"
    MOVED = "moved"
    COPIED = "copied"
    HERE = "here"


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """One way to an instance.

    Attributes:
        scope: The map that holds it: CLOUD, or REALM.
        link: The neighbour; "" for an instance that is here.
        seq: Of the instance when it was last heard of.
        hops: Links to it, then.
        reason: How it came to be known.
        age_ms: How long it has not changed; 0 for an instance that is here.
    """

    scope: Extent
    iid: InstanceId
    link: str
    seq: int
    hops: int
    reason: RouteReason = RouteReason.HERE
    age_ms: int = 0


@dataclass(frozen=True, slots=True)
class RoutesTold:
    """What the node knows of the routes to a role.

    Attributes:
        is_certain: A send follows these; else it recovers first.
        links: Neighbours with whom frames are exchanged.
        colour: Label of the node's part, "" while it has none.
        has_more: Another record continues the routes.
    """

    app: str
    call: str
    address: Address
    is_certain: bool
    routes: tuple[KnownRoute, ...]
    links: tuple[str, ...]
    colour: str
    has_more: bool = False


AppTold = (
    Delivered
    | Snooped
    | Answered
    | RoleTaken
    | RoleLost
    | Refused
    | PartitionSuspected
    | Unpartitioned
    | ColourChanged
    | TreeBuilt
    | NodesLost
    | NodesFound
    | Served
    | Expired
    | RoutesTold
)
"""Records of `app.APP`."""
