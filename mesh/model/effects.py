"""Everything a node's control plane may request: the effects of `NodeMachine.step`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mesh.model.control import (
    Acknowledgement,
    Heartbeat,
    Interest,
    Mark,
    RepairRequest,
    Scope,
    Stop,
)
from mesh.model.frames import MessageClass
from mesh.model.interest_inputs import VersionByInput
from mesh.model.links import NodeLinks
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class EnsureEndpoint:
    """Create the endpoint's topic before anything is routed to it."""

    endpoint: str
    message_class: MessageClass


@dataclass(frozen=True, slots=True)
class Reroute:
    """From here on messages are routed by newer interest: each lane commits a cut.

    Attributes:
        in_force: Versions that each lane puts in force with its next commit.
        cuts: Node uuid -> `clients` offset, for the nodes whose subscriptions changed.

    Spec: K12, K25.
    """

    in_force: VersionByInput
    cuts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Relinked:
    """From here on the node has the links of another topology; a `Reroute` follows. Spec: K28.

    Attributes:
        topology: The one that is in force now.
        gone, added: Neighbours whose links were removed, and whose are new; one may be both.
    """

    topology: Topology
    gone: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteAdvert:
    """Offer an entry in a scope, or with None withdraw it. Spec: K22."""

    scope: Scope
    filter_: str
    interest: Interest | None


@dataclass(frozen=True, slots=True)
class WriteMark:
    """Close a version of a scope, in the transaction of its adverts; None: it is gone. K23."""

    scope: Scope
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class WriteAck:
    """Report to a neighbour how far its scope is applied. Spec: K24."""

    neighbour: str
    scope: Scope
    ack: Acknowledgement


@dataclass(frozen=True, slots=True)
class WriteSubscribed:
    """Publish how far the own subscriptions are known everywhere. Spec: K24."""

    ack: Acknowledgement


@dataclass(frozen=True, slots=True)
class WriteHeartbeat:
    """Beat. Spec: K32."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class WriteLinkState:
    """Report the last heartbeat read from a neighbour; the shell adds the read positions."""

    neighbour: str
    epoch: int
    beat: int


@dataclass(frozen=True, slots=True)
class WriteLearned:
    """Store a neighbour's guaranteed interest, now that it is proven. Spec: K21.

    Attributes:
        neighbour, scope: Its owner.
        epoch, number: Its version.
        filters: All of them, or those that were added.
        is_more: Whether they were added since all were stored.
    """

    neighbour: str
    scope: Scope
    epoch: int
    number: int
    filters: tuple[str, ...]
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class EndLearned:
    """Drop what is stored about a neighbour: its link is removed. Spec: K21, K28."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class WriteStop:
    """Report that a source is stopped, or with None that it is read again. Spec: R6."""

    topic: str
    partition: int
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class WriteLinks:
    """Report which links a node holds: this node, or another whose record is passed on. K27."""

    record: NodeLinks


@dataclass(frozen=True, slots=True)
class DropLinks:
    """Stop passing on the links of the node with this uuid: it is gone. K27."""

    uuid: str


@dataclass(frozen=True, slots=True)
class WriteRepair:
    """Request a repair from a neighbour, or withdraw the request once it has arrived. Spec: K11."""

    neighbour: str
    request: RepairRequest
    is_open: bool


@dataclass(frozen=True, slots=True)
class ResumeSource:
    """Announce the loss that an operator accepted, then read on. Spec: R6."""

    stop: Stop


@dataclass(frozen=True, slots=True)
class EndSubscription:
    """A lease ran out: write the tombstone on `clients`. Spec: K13."""

    endpoint: str
    filter_: str


@dataclass(frozen=True, slots=True)
class RestartLeadership:
    """Take lane 0's topics again, with an epoch above every one found there. Spec: K16, K23."""


@dataclass(frozen=True, slots=True)
class RepeatLearned:
    """Report again what was learned of neighbours whose link is disabled. Spec: K21."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read a neighbour's control topic from its beginning: what it offers stays unproven. K23."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class StartWithout:
    """Ask what the node has acknowledged of a neighbour: no proof of it comes at the start. K21."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class BecameReady:
    """Every input is proven or frozen, and the first routing is in force."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know, for the log: `docs/log.md` lists what there is.

    Attributes:
        event: What happened, as two words with a dot between: the subject, and what became of it.
        fields: What it concerns, where, and how much of it.
        level: How bad it is: an `error` needs a person, or is a loss.
    """

    event: str
    fields: Mapping[str, object]
    level: Literal["warning", "error"] = "warning"


Write = (
    WriteAdvert
    | WriteMark
    | WriteAck
    | WriteSubscribed
    | WriteHeartbeat
    | WriteLinkState
    | WriteLearned
    | EndLearned
    | WriteStop
    | WriteRepair
    | WriteLinks
    | DropLinks
    | EndSubscription
)
"""What is written to the node's own control topics."""

Effect = (
    Write
    | EnsureEndpoint
    | Reroute
    | Relinked
    | ResumeSource
    | RestartLeadership
    | RepeatLearned
    | ReadAgain
    | StartWithout
    | BecameReady
    | Note
)
