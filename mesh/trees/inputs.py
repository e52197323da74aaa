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
