"""What a node remembers of what is under way: sessions, recoveries, hosted roles.

Sets that are gone through are dicts without values: order is that of insertion, on every
machine. Spec: tree_layer 3.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mesh.model.tree_apps import SnoopWanted
from mesh.model.tree_frames import Cause, Options, Reply
from mesh.model.trees import NO_INSTANCE, NO_MESSAGE, Address, Extent, InstanceId, MessageId, TreeId

Source = str | InstanceId
"""Who owes a reply: a link, an instance that is hosted here, or `RECOVERY`."""

RECOVERY: Source = InstanceId(0)
"""The recovery that a session waits for before it goes on."""


@dataclass(slots=True)
class LocalRole:
    """An instance that is hosted here.

    Attributes:
        seq: Raised by each publish, each recovery it answers, each move. H2.
        batch: The last recovery that it answered.
    """

    app: str
    address: Address
    iid: InstanceId
    is_exclusive: bool
    extent: Extent
    protocol: str
    seq: int = 0
    batch: MessageId = NO_MESSAGE


@dataclass(slots=True)
class Session:
    """A message at one hop, from its arrival to the last reply: the breadcrumb.

    Attributes:
        came_by: The link towards the sender, None at the sender.
        app, call: At the sender: who waits, and what it calls it.
        upstream_delivered: Somebody had it before it came here.
        toward: The instance that the hop before chose.
        sent: Links that it was ever sent on.
        owed: Who has yet to send a last reply.
        offered: Instances here that were given it, and their applications.
        is_delivered, has_data, has_null, has_end, has_not_found: What has come back so far.
        items: With one response: what is collected.
        items_bytes: What that comes to, each with what it takes beside its own bytes.
        cause: Why the last branch that answered with nothing did.
        recoveries: How often a recovery was begun for it: at most once.
        is_incomplete: ... which could not hear everybody.
        is_forwarded: It went on; routes that appear later are used too.
        behind: Replies that came while one waits for an application's word, in order.
        is_held: A reply waits so.
        is_orphan: The link towards the sender is gone: accounts end in silence. H11.
        bytes_kept: What it comes to while it is open.
        number: Its place in the order in which messages came here.
    """

    mid: MessageId
    address: Address
    iid: InstanceId
    protocol: str
    options: Options
    header: bytes
    payload: bytes
    came_by: str | None
    began_ms: int
    hops: int = 0
    app: str = ""
    call: str = ""
    upstream_delivered: bool = False
    left_realm: bool = False
    toward: InstanceId = NO_INSTANCE
    sent: dict[str, None] = field(default_factory=dict)
    owed: dict[Source, None] = field(default_factory=dict)
    offered: dict[InstanceId, str] = field(default_factory=dict)
    is_delivered: bool = False
    has_data: bool = False
    has_null: bool = False
    has_end: bool = False
    has_not_found: bool = False
    items: list[bytes] = field(default_factory=list)
    items_bytes: int = 0
    cause: Cause | None = None
    recoveries: int = 0
    is_incomplete: bool = False
    is_forwarded: bool = False
    behind: deque[tuple[Source, Reply]] = field(default_factory=deque)
    is_held: bool = False
    is_orphan: bool = False
    is_closed: bool = False
    closed_ms: int = 0
    bytes_kept: int = 0
    number: int = 0

    @property
    def sender(self) -> tuple[str | None, str]:
        """Return by whom it came here, as far as that is known: what came so keeps its order."""
        return self.came_by, self.app

    @property
    def scope(self) -> Extent:
        """Return which map of routes it follows."""
        return Extent.REALM if self.options.local_realm else Extent.CLOUD


@dataclass(slots=True)
class WatchedMessage:
    """A message, or a reply to it, on its way past those who watch. Spec: tree_layer 6.8.

    Attributes:
        said, source: The reply and who gave it; None for the message.
        watching: Who has yet to be shown it.
        wanted: Whose word it waits for, or who was shown it last.
    """

    session: Session
    watching: list[SnoopWanted]
    began_ms: int
    said: Reply | None = None
    source: Source = ""
    wanted: SnoopWanted | None = None

    @property
    def size(self) -> int:
        """How many bytes of applications it keeps."""
        if self.said is None:
            return len(self.session.payload) + len(self.session.header)
        return size_of(self.said)


@dataclass(slots=True)
class Watching:
    """Who watches what passes a node, and what waits for their word.

    Attributes:
        watchers: Application, tree and protocol -> what it wants.
        held: What waits, by token.
        held_bytes: Bytes of applications in it, and in replies that wait behind one that is held.
    """

    watchers: dict[tuple[str, TreeId | None, str], SnoopWanted] = field(default_factory=dict)
    held: dict[MessageId, WatchedMessage] = field(default_factory=dict)
    held_bytes: int = 0


def size_of(said: Reply) -> int:
    """Return how many bytes of applications a reply carries."""
    return sum(map(len, said.items))


@dataclass(slots=True)
class SharedRecovery:
    """A recovery that began here, and everybody who waits for it. Spec: tree_layer 5.8.

    Attributes:
        late: Messages from here that it began too early for; they wait for the next one.
        running: Floods that have not ended.
        generations: Of the role's two maps when it began. H8.
        heals: Heals known when it began.
        ok: False once something may not have been heard.
        is_directed: Only what lies behind heals is asked. Spec: tree_layer 7.3.
    """

    address: Address
    scope: Extent
    waiters: list[Session] = field(default_factory=list)
    late: list[Session] = field(default_factory=list)
    running: dict[MessageId, None] = field(default_factory=dict)
    generations: tuple[int, int] = (0, 0)
    heals: int = 0
    attempts: int = 0
    ok: bool = True
    is_directed: bool = False


@dataclass(slots=True, kw_only=True)
class Recovery:
    """A flood of a recovery at one node. Spec: tree_layer 5.8.

    Attributes:
        parent: The link that it came by, None where it began.
        join: Where it began: what it is for.
        waiting: Links that have not echoed yet.
        hops: Links between its origin and here.
        began_ms: When it came here.
        known: Instances that need not answer.
        hop_ms: The slowest hop behind here, as far as echoes have told.
    """

    id: MessageId
    address: Address
    scope: Extent
    parent: str | None
    join: SharedRecovery | None
    hops: int
    began_ms: int
    known: tuple[InstanceId, ...] = ()
    waiting: dict[str, None] = field(default_factory=dict)
    ok: bool = True
    hop_ms: int = 0
    deadline_ms: int = 0
