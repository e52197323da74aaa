"""Everything that may be told to a tree node: the inputs of `TreeNode.step`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.model.tree_apps import (
    AnswerGiven,
    ExclusiveCleared,
    Resumed,
    RoleRequest,
    SendWanted,
    SnoopEnded,
    SnoopWanted,
    TreeEvicted,
)
from mesh.model.tree_frames import Frame
from mesh.model.trees import Address


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
    """Time has passed; every 100 ms or a little later, while anything is awaited."""


@dataclass(frozen=True, slots=True)
class RealmChanged:
    """Operators have given the node another realm, "" for none. Spec: tree_layer 5.14."""

    realm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshFollowed:
    """The topology has so many nodes, and says how links are tried.

    Attributes:
        nodes: Frames may cross as many links: no way is longer.
        ping_ms: How often to send PING.
        pings_missed_max: After how many without an answer a link is taken for cut.
    """

    nodes: int
    ping_ms: int
    pings_missed_max: int


@dataclass(frozen=True, slots=True)
class LeadResumed:
    """The node goes on after a while in which it could neither hear nor say anything.

    Attributes:
        links: Neighbours that may have been away with it.
        until_ms: Before then these links are not considered down, though nothing is heard of them.
    """

    links: Sequence[str]
    until_ms: int


@dataclass(frozen=True, slots=True)
class PortOpened:
    """An application listens to a protocol, "" being the one of those who name none.

    Spec: tree_layer 6.7.
    """

    app: str
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class PortClosed:
    """An application no longer listens to a protocol."""

    app: str
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class RolesAdded:
    """An application takes roles; several go in one frame per link. Spec: tree_layer 5.2, 5.5."""

    app: str
    requests: Sequence[RoleRequest]


@dataclass(frozen=True, slots=True)
class RolesRemoved:
    """An application gives roles up. Spec: tree_layer 5.3."""

    app: str
    addresses: Sequence[Address]


@dataclass(frozen=True, slots=True)
class AppGone:
    """An application has ended: its roles go, and nobody waits for its answers.

    Spec: tree_layer 13.
    """

    app: str


Input = (
    LinkOpened
    | LinkClosed
    | FrameRead
    | Ticked
    | RealmChanged
    | MeshFollowed
    | LeadResumed
    | PortOpened
    | PortClosed
    | RolesAdded
    | RolesRemoved
    | AppGone
    | ExclusiveCleared
    | SendWanted
    | AnswerGiven
    | TreeEvicted
    | SnoopWanted
    | SnoopEnded
    | Resumed
)
