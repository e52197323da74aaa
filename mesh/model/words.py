"""Words that people are told of links, nodes and endpoints: heartbeats and JSON carry them so."""

from __future__ import annotations

from enum import StrEnum


class LinkWord(StrEnum):
    """How a link is, as one of its ends sees it; see `mesh.model.link_modes`.

    Attributes:
        UP: All is well.
        DOWN: The other end is not heard.
        UNPROVEN: What the other end offers is not known for certain.
        FROZEN: The other end has not been heard since this one started.
        STOPPED: A loss waits to be accepted: its sources are read no further.
        FULL: It is up, and the outbox to the other end has reached its limit.
        PROBING: It is not known yet whether it would close a loop. Spec: K27.
        REFUSED: It would.
        DISABLED: Operators have disabled it.
        PAUSED: It would be up, and operators want nothing of it read. No heartbeat says so.
        UNKNOWN: Nobody says how it is.
    """

    UP = "up"
    DOWN = "down"
    UNPROVEN = "unproven"
    FROZEN = "frozen"
    STOPPED = "stopped"
    FULL = "full"
    PROBING = "probing"
    REFUSED = "refused"
    DISABLED = "disabled"
    PAUSED = "paused"
    UNKNOWN = "unknown"


class NodeWord(StrEnum):
    """How a node is, as its heartbeats show.

    Attributes:
        UP: It serves.
        STARTING: It beats, and does not serve yet.
        DOWN: It does not beat.
        NEVER: It has never started.
        UNREACHABLE: Its Kafka cluster does not answer.
    """

    UP = "up"
    STARTING = "starting"
    DOWN = "down"
    NEVER = "never"
    UNREACHABLE = "unreachable"


class EndpointWord(StrEnum):
    """What an endpoint has to report.

    Attributes:
        FULL: It has reached its limit.
        LOSSY: Its oldest messages became dead letters.
        HELD: Its topic takes no records.
        MISSING: It has no topic.
        REFUSED: It is a queue that attracts nothing of what was subscribed.
        UNHEARD: A subscription, or the end of one, stands in a partition of `clients` that is not
            read.
    """

    FULL = "full"
    LOSSY = "lossy"
    HELD = "held"
    MISSING = "missing"
    REFUSED = "refused"
    UNHEARD = "unheard"
