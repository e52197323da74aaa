"""Everything that a tree node may ask for: the outputs of `TreeNode.step`, in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mesh.model.tree_apps import (
    Answered,
    Delivered,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleTaken,
    Snooped,
    Unpartitioned,
)
from mesh.model.tree_frames import Frame
from mesh.model.trees import Colour, Extent, TreeId


@dataclass(frozen=True, slots=True)
class Transmit:
    """Write a frame for this neighbour, behind all that was written for it before."""

    link: str
    frame: Frame


@dataclass(frozen=True, slots=True)
class TreeBuilt:
    """The node knows a tree that it did not know, or had forgotten."""

    tree: TreeId
    protocol: str


class ColourReason(StrEnum):
    """Why the colour changed."""

    FIRST = "first"
    LINK_LOST = "link lost"
    SPREAD = "spread"
    HEALED = "healed"


@dataclass(frozen=True, slots=True)
class ColourChanged:
    """The node's part has another colour. Spec: 7.4."""

    scope: Extent
    old: Colour | None
    new: Colour
    reason: ColourReason


Output = (
    Transmit
    | Delivered
    | Snooped
    | Answered
    | RoleTaken
    | RoleLost
    | Refused
    | TreeBuilt
    | ColourChanged
    | PartitionSuspected
    | Unpartitioned
)
