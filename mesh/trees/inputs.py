"""Everything that may be told to a tree node: the inputs of `TreeNode.step`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.model.tree_frames import PLAIN, Frame, Options
from mesh.model.trees import NO_INSTANCE, Address, Extent, InstanceId, MessageId, TreeId


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The mesh link to this neighbour works: the shell reads its frames from the end on."""

    link: str


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """The mesh link to this neighbour does not work at this end."""

    link: str


@dataclass(frozen=True, slots=True)
class FrameRead:
    """A frame of this neighbour, in the order of its topic."""

    link: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed; at least every 100 ms while anything is awaited."""


@dataclass(frozen=True, slots=True)
class PortOpened:
    """An application listens to a protocol, "" being the one of those who name none. Spec: 6.7."""

    app: str
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class PortClosed:
    """An application no longer listens to a protocol."""

    app: str
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class RoleWish:
    """A role that an application takes.

    Attributes:
        iid: Of the instance; 0, as a rule, for a fresh one.
    """

    address: Address
    is_exclusive: bool = False
    extent: Extent = Extent.CLOUD
    protocol: str = ""
    iid: InstanceId = NO_INSTANCE


@dataclass(frozen=True, slots=True)
class RolesAdded:
    """An application takes roles; several go in one frame per link. Spec: 5.2, 5.5."""

    app: str
    wishes: Sequence[RoleWish]


@dataclass(frozen=True, slots=True)
class RolesRemoved:
    """An application gives roles up. Spec: 5.3."""

    app: str
    addresses: Sequence[Address]


@dataclass(frozen=True, slots=True)
class AppGone:
    """An application has ended: its roles go, and nobody waits for its answers. Spec: 13."""

    app: str


@dataclass(frozen=True, slots=True)
class ExclusiveCleared:
    """Whoever holds this exclusive role no longer does, alive or dead. Spec: 5.3."""

    address: Address


@dataclass(frozen=True, slots=True)
class SendWanted:
    """An application sends to a role.

    Attributes:
        call: The application's own word for it; every answer carries it.
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
    """An application answers what was delivered to one of its instances. Spec: 6.5, 8.

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
class TreeEvicted:
    """Forget the routes of a tree, as when the cache is full. Spec: 5.15."""

    tree: TreeId


Input = (
    LinkOpened
    | LinkClosed
    | FrameRead
    | Ticked
    | PortOpened
    | PortClosed
    | RolesAdded
    | RolesRemoved
    | AppGone
    | ExclusiveCleared
    | SendWanted
    | AnswerGiven
    | TreeEvicted
)
