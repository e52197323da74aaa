"""What nodes say to each other on a tree link: one class per kind of frame. Spec: tree_layer 4."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mesh.model.trees import (
    NO_INSTANCE,
    NO_MESSAGE,
    Address,
    Colour,
    Extent,
    InstanceId,
    MessageId,
    TreeId,
)


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of a link session, repeated until the peer has answered it.

    Said again in a session that is up, it names the first colour of a writer that had none before.

    Attributes:
        uuid, epoch: The node's identity and incarnation.
        heard: The peer's session that this answers, 0 for none.
        realm: The node's locality group, "" for none.
        colour, realm_colour: As held when this was written.
    """

    uuid: str
    epoch: int
    heard: int
    realm: str
    colour: Colour | None
    realm_colour: Colour | None
    clock: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The writer's end of the link is down."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there? `sent_ms` is by the writer's clock."""

    sent_ms: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Echo of a `Ping`."""

    sent_ms: int


@dataclass(frozen=True, slots=True)
class Publish:
    """An instance is there, or with `is_published` False no longer. A flood.

    Spec: tree_layer 5.2, 5.3.

    Attributes:
        seq: Of the instance; higher is newer.
        hops: Links crossed when this is read.
        local_only: Only links inside the origin's realm were crossed. H16.
        spew: PATENT: for so many hops it goes everywhere, whatever tables say.
    """

    id: MessageId
    tree: TreeId
    role: str
    iid: InstanceId
    is_exclusive: bool
    is_published: bool
    seq: int
    hops: int
    local_only: bool
    extent: Extent
    spew: int = 0


@dataclass(frozen=True, slots=True)
class Bulk:
    """Several `Publish` that go the same way. Spec: tree_layer 5.5."""

    publishes: tuple[Publish, ...]


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """Who hosts this role? A flood whose echo ends it. Spec: tree_layer 5.8.

    Attributes:
        batch: One per recovery; a host raises its seq once for it. H2.
        heal: It goes to this heal, and is a flood only behind it; 0 for one that is a flood.
        known: Instances that do not answer: the asker's routes to them are good.
        spew: As of `Publish`.
    """

    id: MessageId
    tree: TreeId
    role: str
    scope: Extent
    batch: MessageId
    hops: int
    heal: MessageId = NO_MESSAGE
    known: tuple[InstanceId, ...] = ()
    spew: int = 0


@dataclass(frozen=True, slots=True)
class RecoveryAnswer:
    """A host's answer; it goes back the way the request came and is installed on the way."""

    id: MessageId
    iid: InstanceId
    is_exclusive: bool
    seq: int
    hops: int
    extent: Extent


@dataclass(frozen=True, slots=True)
class RecoveryDone:
    """The echo: everything behind the writer has answered, or with `ok` False may not have. H5.

    Attributes:
        hop_ms: What the slowest hop takes of the writer's and of those behind it; 0: not known.
    """

    id: MessageId
    ok: bool
    hop_ms: int = 0


class EdgePhase(StrEnum):
    """What is said of an edge. Spec: tree_layer 5.6."""

    CREATE = "create"
    ASK = "ask"
    OK = "ok"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Edge:
    """The hand-shake about an edge of a tree."""

    tree: TreeId
    phase: EdgePhase


class BreakReason(StrEnum):
    """Why routes are to go. CYCLE is of the profile PATENT alone."""

    STALE = "stale"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class RouteBreak:
    """Your routes for this role over me lead nowhere, or round. Spec: tree_layer 5.11, 5.12.

    Attributes:
        scope: The map that is meant: CLOUD or REALM.
        iid: The instance that is meant, 0 for all.
        mid: Of a cycle: the message that came twice.
    """

    tree: TreeId
    role: str
    scope: Extent
    iid: InstanceId = NO_INSTANCE
    reason: BreakReason = BreakReason.STALE
    mid: MessageId = NO_MESSAGE


@dataclass(frozen=True, slots=True)
class Options:
    """How a message is to be sent. Spec: tree_layer 6.1, 8."""

    one_way: bool = False
    one_instance: bool = False
    one_response: bool = False
    local_realm: bool = False

    @property
    def fault(self) -> str | None:
        """Why no message is sent so, in one line; None if it is. Spec: tree_layer 6.1."""
        if self.one_way and (self.one_instance or self.one_response):
            return "one_way goes with neither one_instance nor one_response; drop one"
        return None


PLAIN = Options()
"""To all instances, each of which may answer as often as it likes."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message on its way to the instances of a role.

    Attributes:
        iid: The one instance that is meant, 0 for any.
        protocol: Of the port that is meant, "" for any.
        delivered: Somebody upstream already has it: a barren end is then no "not found".
        left_realm: It has crossed a link between realms.
        toward: With one instance: the one that the last hop chose.
    """

    mid: MessageId
    tree: TreeId
    role: str
    iid: InstanceId
    protocol: str
    options: Options
    header: bytes
    payload: bytes
    delivered: bool
    left_realm: bool
    hops: int
    toward: InstanceId = NO_INSTANCE


class ReplyKind(StrEnum):
    """What comes back. The last four close accounts only and are never shown as data.

    Spec: tree_layer 4.
    """

    DATA = "data"
    NULL = "null"
    NOT_FOUND = "not_found"
    END = "end"
    DUPLICATE = "duplicate"
    STALE = "stale"
    GRANT = "grant"


class Cause(StrEnum):
    """Why a branch answers with nothing: what was sent may or may not have been delivered."""

    LINK_DOWN = "link_down"
    RECOVERY_INCOMPLETE = "recovery_incomplete"
    SWEPT = "swept"
    APPLICATION_GONE = "application_gone"
    NODE_RESTARTED = "node_restarted"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that comes with a reply. Spec: tree_layer 5.13.

    Attributes:
        give_up: The instance itself moves; else this is leave to take the role too.
        seq: Of the instance once it has moved.
    """

    address: Address
    iid: InstanceId
    is_exclusive: bool
    give_up: bool
    seq: int
    extent: Extent
    protocol: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, on the way that the message came. Spec: tree_layer 6.4.

    Attributes:
        had: Messages that were given to the instance which moves with a grant, the newest ones.
    """

    mid: MessageId
    kind: ReplyKind
    is_last: bool
    items: tuple[bytes, ...] = ()
    cause: Cause | None = None
    grant: Grant | None = None
    had: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class Reopen:
    """The session has found another route after its end: count on this branch again. H9."""

    mid: MessageId


@dataclass(frozen=True, slots=True)
class ColourSpread:
    """The colour of this part, or of the realm's part. Spec: tree_layer 7.1."""

    scope: Extent
    colour: Colour


@dataclass(frozen=True, slots=True)
class Heal:
    """Two parts have become one at a link; flooded on the side of `near`. Spec: tree_layer 7.2.

    Attributes:
        near, far: The ends of the link.
        colour: Of the merged part.
        near_colour, far_colour: Of each side before; None if the writer does not say.
    """

    id: MessageId
    scope: Extent
    near: str
    far: str
    colour: Colour
    near_colour: Colour | None = None
    far_colour: Colour | None = None


@dataclass(frozen=True, slots=True)
class HealNotice:
    """Over the healed link: raise the event on your side too. H13.

    Attributes:
        colour: Of the merged part.
        near_colour, far_colour: Of the writer's side and of the reader's, as the writer saw them.
    """

    scope: Extent
    colour: Colour
    near_colour: Colour | None = None
    far_colour: Colour | None = None


@dataclass(frozen=True, slots=True)
class GetTrees:
    """What do you know? Asked by a node that joins. Spec: tree_layer 5.16."""

    id: MessageId


@dataclass(frozen=True, slots=True)
class KnownInstance:
    """An instance as a neighbour would route to it.

    Attributes:
        hops: Links from the reader to it.
    """

    iid: InstanceId
    is_exclusive: bool
    seq: int
    hops: int


@dataclass(frozen=True, slots=True)
class KnownRole:
    """What the writer knows of a role.

    Attributes:
        is_certain: It would send on this without asking first.
    """

    tree: TreeId
    role: str
    is_certain: bool
    instances: tuple[KnownInstance, ...]


@dataclass(frozen=True, slots=True)
class Trees:
    """Answer to `GetTrees`, in as many frames as it takes.

    Attributes:
        colour: Of the writer.
    """

    id: MessageId
    colour: Colour | None
    roles: tuple[KnownRole, ...]


Body = (
    Hello
    | Bye
    | Ping
    | Pong
    | Publish
    | Bulk
    | RecoveryRequest
    | RecoveryAnswer
    | RecoveryDone
    | Edge
    | RouteBreak
    | Send
    | Reply
    | Reopen
    | ColourSpread
    | Heal
    | HealNotice
    | GetTrees
    | Trees
)
"""Everything that a frame can say."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A body in its place on the link: nothing is read twice, late or after a gap.

    Attributes:
        session: Of the writer: its epoch and how often it began; higher is newer.
        number: Of the frame in that session, from 1, without gaps.
    """

    session: int
    number: int
    body: Body
