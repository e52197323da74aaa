"""Everything that a tree node may ask for: the outputs of `TreeNode.step`, in order."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.model.tree_apps import (
    Answered,
    ColourChanged,
    Delivered,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleTaken,
    Snooped,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_frames import Frame


@dataclass(frozen=True, slots=True)
class Transmit:
    """Write a frame for this neighbour, behind all that was written for it before."""

    link: str
    frame: Frame


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
