"""Everything that may be told to a node with its applications: inputs of `Applications.step`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.model.tree_apps import AppSaid, LeaseSaid, RoleSaid
from mesh.trees.inputs import (
    FrameRead,
    LeadResumed,
    LinkClosed,
    LinkOpened,
    MeshFollowed,
    RealmChanged,
    Ticked,
)


@dataclass(frozen=True, slots=True)
class RolesRead:
    """Records of `roles`, in order."""

    said: Sequence[RoleSaid | LeaseSaid]


@dataclass(frozen=True, slots=True)
class RolesCaughtUp:
    """All that `roles` held when this incarnation began was read."""


@dataclass(frozen=True, slots=True)
class SaidWrongly:
    """A record that names this application says nothing that can be meant.

    Attributes:
        call: What the application calls it; "" if it does not say.
        text: What is wrong with it.
    """

    app: str
    call: str
    text: str


@dataclass(frozen=True, slots=True)
class WordsLost:
    """Something that applications have said was lost before it was read: nobody knows whose."""


NodeInput = (
    RolesRead
    | RolesCaughtUp
    | AppSaid
    | SaidWrongly
    | LinkOpened
    | LinkClosed
    | FrameRead
    | RealmChanged
    | MeshFollowed
    | LeadResumed
    | WordsLost
    | Ticked
)
