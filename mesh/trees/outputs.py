"""Everything that a tree node may ask for: the outputs of `TreeNode.step`, in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mesh.model.tree_frames import Cause, Frame, ReplyKind
from mesh.model.trees import Address, Colour, Extent, InstanceId, MessageId, TreeId


@dataclass(frozen=True, slots=True)
class Transmit:
    """Write a frame for this neighbour, behind all that was written for it before."""

    link: str
    frame: Frame


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
class Answered:
    """An answer to what this application sent.

    Attributes:
        kind: DATA, NULL, NOT_FOUND, GRANT, or END: nobody says anything more.
        is_last: Exactly one answer of a call is; behind it comes nothing.
    """

    app: str
    call: str
    kind: ReplyKind
    is_last: bool
    items: tuple[bytes, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class RoleTaken:
    """The application holds the role from now on, by its wish or by a grant."""

    app: str
    address: Address
    iid: InstanceId
    is_granted: bool


@dataclass(frozen=True, slots=True)
class RoleLost:
    """The application no longer holds the role."""

    app: str
    address: Address
    iid: InstanceId
    why: Loss


class Loss(StrEnum):
    """Why a role was lost."""

    HIGHER_HOLDER = "a higher holder took it"
    CLEARED = "it was cleared"
    GRANTED = "it was granted away"


@dataclass(frozen=True, slots=True)
class Refused:
    """What was asked for is not done, and nothing has changed.

    Attributes:
        code: A fixed word, in capitals.
        text: What, where, what to do.
    """

    app: str
    call: str
    code: str
    text: str


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


@dataclass(frozen=True, slots=True)
class PartitionSuspected:
    """A tree link was lost; whether the mesh is split a census can tell. Spec: 7.4."""

    link: str


@dataclass(frozen=True, slots=True)
class Unpartitioned:
    """Parts that were apart are one again: `near` and `far` are the ends of the link."""

    id: MessageId
    scope: Extent
    near: str
    far: str
    colour: Colour


Output = (
    Transmit
    | Delivered
    | Answered
    | RoleTaken
    | RoleLost
    | Refused
    | TreeBuilt
    | ColourChanged
    | PartitionSuspected
    | Unpartitioned
)
