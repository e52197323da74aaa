"""Why a message did not leave on a link, went nowhere, cannot reach a node, or is not read.

All that show a reason take its sentence from here. Spec: lab.md 2, DESIGN 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum, auto


class Reason(StrEnum):
    """Every non-forward has exactly one: of those that apply, the first in this order."""

    ARRIVAL_LINK = "arrival_link"
    ARRIVAL_ZONE = "arrival_zone"
    NO_TRANSIT = "no_transit"
    JOIN_HOPS = "join_hops"
    EARLIER_TOPOLOGY = "earlier_topology"
    FILTER = "filter"
    LINK_DISABLED = "link_disabled"
    QUOTA = "quota"
    NOT_RESYNCED = "not_resynced"
    NODE_DOWN = "node_down"
    NO_INTEREST = "no_interest"


class FilterCause(StrEnum):
    """Which part of the topology refuses a message whose reason is `filter`."""

    LOCAL = "local"
    """An end of the link keeps the subject local. Spec: EMS-11."""
    DIRECT_ONLY = "direct_only"
    """Guaranteed messages do not cross links of the zone. Spec: DMR-11."""
    JOIN_FILTER = "join_filter"
    """The filter of the join does not select the subject. Spec: UM-5."""
    SELECTOR = "selector"
    """The message does not meet a condition of the link. Spec: EMS-14."""


class NoWay(StrEnum):
    """Why no message can reach a node, whatever is wanted there."""

    NO_WAY = "no_way"
    """No walk leads there; a rule says where it ends."""
    NOT_LINKED = "not_linked"
    """No links lead there at all."""
    ONE_WAY = "one_way"
    """The last link leads the other way only."""


class NotRead(StrEnum):
    """Why a source is deliberately not read: of those that apply, the first in this order.

    Messages wait where they are meanwhile. A stop is different: there a loss waits until
    somebody accepts it. Spec: R6, K17, K20, K28, DMR-10.
    """

    COMMITTING = "committing"
    MEETING = "meeting"
    HOLDING = "holding"
    FULL = "full"
    SUBJECT = "subject"
    LINK = "link"
    CUT = "cut"
    PAUSED = "paused"
    RATE = "rate"
    IDENTITY = "identity"


class Discard(Enum):
    """How much a ledger says of direct messages that a drop has ended."""

    NO = auto()
    """Nothing: none has ended, or who lost it is told by a dead letter or an announcement."""
    MESSAGES = auto()
    """How many messages. They reached the node."""
    RECORDS = auto()
    """How many records: nobody has read them, and nobody can tell the messages in them."""


class DropReason(StrEnum):
    """Why messages of a source went nowhere, missed a target, or lost a header.

    The ledger and the metrics count by these. A refused record also becomes a dead letter, with its
    reason in capitals. Spec: DESIGN 4.4.
    """

    NO_SUBJECT = "no_subject"
    """The record has no subject header, or several: it is refused."""
    INVALID_SUBJECT = "invalid_subject"
    """Its subject is not valid: it is refused."""
    TOO_LARGE = "too_large"
    """It is larger than the mesh carries: it is refused."""
    POISON = "poison"
    """Routing fails over it each time: it is refused."""
    HEADER_FORGED = "header_forged"
    """A client wrote headers that belong to the mesh: only those are dropped. Spec: K7."""
    CODEC = "codec"
    """The record in an outbox is not a frame: it is refused."""
    SENDER = "sender"
    """The frame in an outbox is from another node than the outbox: it is refused."""
    LOOP_TRACE = "loop_trace"
    """The frame has been at this node before: it is refused."""
    LOOP_HOPS = "loop_hops"
    """The frame's path is longer than the mesh has nodes: it is refused."""
    DUPLICATE = "duplicate"
    """They were accepted before. Spec: K11."""
    GAP = "gap"
    """Something before them is missing: they come again with its repair. Spec: K11, K20."""
    WAITING = "waiting"
    """They follow a known gap: they come again with its repair. Spec: K11, K20."""
    EARLIER_TOPOLOGY = "earlier_topology"
    """They are older than the link by which they came. Spec: K10."""
    STALE_EPOCH = "stale_epoch"
    """Direct messages that a former owner of the sender's lane wrote. Spec: K18."""
    TAKEOVER = "takeover"
    """Direct messages that a former owner of the lane may have passed on: not read. Spec: K18."""
    RETENTION = "retention"
    """Direct messages that were deleted before they could be read. Spec: K18."""
    UNWRITTEN = "unwritten"
    """Their copies, direct ones, may not be in Kafka: brokers refused them, or a former owner of
    the lane died before. A bound: offsets of the source, of which some were written, and some had
    no copies. Spec: K18."""
    NOT_WRITABLE = "not_writable"
    """Direct messages whose target's topic takes nothing now. Spec: K20."""
    HOME_UNREACHABLE = "home_unreachable"
    """No link leads to the home of their queue; counted per queue."""
    QUEUE_LEFT = "queue_left"
    """Their queue was gone from this node when they arrived; counted per queue."""
    GAP_ACCEPTED = "gap_accepted"
    """An operator accepted their loss. Spec: R6."""
    QUARANTINED = "quarantined"
    """One target refuses the record as too large or invalid. Spec: R12."""
    ENDPOINT_FULL = "endpoint_full"
    """Their endpoint held more than its limit, and they were its oldest. Spec: R14."""
    ENDPOINT_EXPIRED = "endpoint_expired"
    """They waited in their endpoint for longer than its limit. Spec: R14."""

    @property
    def discard(self) -> Discard:
        """How a ledger counts the direct messages that end for this reason. Spec: K18."""
        match self:
            case DropReason.TAKEOVER | DropReason.RETENTION:
                return Discard.RECORDS
            case (
                DropReason.EARLIER_TOPOLOGY
                | DropReason.STALE_EPOCH
                | DropReason.UNWRITTEN
                | DropReason.NOT_WRITABLE
            ):
                return Discard.MESSAGES
            case (
                DropReason.NO_SUBJECT
                | DropReason.INVALID_SUBJECT
                | DropReason.TOO_LARGE
                | DropReason.POISON
                | DropReason.HEADER_FORGED
                | DropReason.CODEC
                | DropReason.SENDER
                | DropReason.LOOP_TRACE
                | DropReason.LOOP_HOPS
                | DropReason.DUPLICATE
                | DropReason.GAP
                | DropReason.WAITING
                | DropReason.HOME_UNREACHABLE
                | DropReason.QUEUE_LEFT
                | DropReason.GAP_ACCEPTED
                | DropReason.QUARANTINED
                | DropReason.ENDPOINT_FULL
                | DropReason.ENDPOINT_EXPIRED
            ):
                return Discard.NO


DISCARDED_DIRECT = frozenset(one for one in DropReason if one.discard is not Discard.NO)
"""Why direct messages that reached a node, or should have been read there, went nowhere; guaranteed
ones are dropped only for the first of these. Spec: DESIGN 6, K18."""


Why = Reason | FilterCause | NoWay | NotRead

SENTENCES: Mapping[Why, str] = {
    Reason.ARRIVAL_LINK: "the message came over this link",
    Reason.ARRIVAL_ZONE: "the message came over zone {zone}, and what came over a {kind} zone does "
    "not go on in it",
    Reason.NO_TRANSIT: "the message has crossed an external link, and it crosses only one",
    Reason.JOIN_HOPS: "the message has crossed as many joins in a row as it may",
    Reason.EARLIER_TOPOLOGY: "the message was taken by an older topology than the one that was in "
    "force when this link was made",
    Reason.FILTER: "the topology keeps the message off this link",
    Reason.LINK_DISABLED: "operators have disabled the link",
    Reason.QUOTA: "the link has reached its limit",
    Reason.NOT_RESYNCED: "it is not proven yet what {target} wants",
    Reason.NODE_DOWN: "{target} is down, and direct messages wait for nobody",
    Reason.NO_INTEREST: "nobody behind this link wants it",
    FilterCause.LOCAL: "{detail}, so it crosses no link of {node}",
    FilterCause.DIRECT_ONLY: "zone {zone} is direct-only, so no guaranteed message crosses its "
    "links",
    FilterCause.JOIN_FILTER: "the join takes {detail} only",
    FilterCause.SELECTOR: "the message does not meet the condition {detail}",
    NotRead.COMMITTING: "the lane's last commit is not through yet",
    NotRead.MEETING: "a held target has nearly caught up; the lane waits for it a moment",
    NotRead.IDENTITY: "brokers are asked whether the topic is still the one that was found",
    NotRead.HOLDING: "a change of the topology is under way",
    NotRead.FULL: "a link or endpoint is full, so the node takes nothing more from clients",
    NotRead.SUBJECT: "an operator has paused the subject of the next message",
    NotRead.LINK: "the link is disabled, not open, or not proven yet",
    NotRead.CUT: "a drill lets nothing through",
    NotRead.PAUSED: "operators have paused it",
    NotRead.RATE: "the link has used up its rate",
    NoWay.NO_WAY: "no way leads there",
    NoWay.NOT_LINKED: "no links lead there",
    NoWay.ONE_WAY: "link {source}-{target} leads the other way only",
}
"""The sentence for each, to be completed by `sentence`."""


def sentence(
    why: Why,
    *,
    source: str = "",
    target: str = "",
    zone: str = "",
    kind: str = "",
    detail: str = "",
    node: str = "",
) -> str:
    """Return why a message goes no further, for people.

    Args:
        why: The word for it.
        source: The node where the message stops.
        target: The neighbour to which it does not continue; empty if no link leads there.
        zone: The zone of the link between them.
        kind: The kind of that zone.
        detail: The control, condition or filter that refuses it.
        node: The end of the link that has that control.
    """
    return SENTENCES[why].format(
        source=source, target=target, zone=zone, kind=kind, detail=detail, node=node
    )
