"""The mode of a link at one end, and what that does. Spec: DMR-10, K19, K21, K23, K27.

One table: the router, the reader of outboxes, the status and the picture in the docs use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.reasons import Reason
from mesh.model.words import LinkWord


class LinkMode(StrEnum):
    """The mode of a link: the first that holds, in this order.

    Attributes:
        DISABLED: Operators have disabled it.
        REFUSED: It would close a loop. Spec: K27.
        PROBING: It is not yet known whether it would.
        RESYNCING: It was enabled again, and the other end's offers have not been proven since.
        DOWN: Ten beats of the other end were missed.
        FROZEN: The other end could not be reached when this node started.
        UNPROVEN: The other end's offers do not match its marks, or are not known to.
        UP: Everything is well.
    """

    DISABLED = "disabled"
    REFUSED = "refused"
    PROBING = "probing"
    RESYNCING = "resyncing"
    DOWN = "down"
    FROZEN = "frozen"
    UNPROVEN = "unproven"
    UP = "up"


@dataclass(frozen=True, slots=True)
class Conduct:
    """What an end does while a link is in a mode.

    Attributes:
        reads: Whether it reads the other end's outboxes, and whether that end's offers count.
        guaranteed: Why guaranteed messages do not leave; None if they do, or wait in the outbox.
        direct: Why direct messages do not leave; None if they do.
        word: What people see.
    """

    reads: bool
    guaranteed: Reason | None
    direct: Reason | None
    word: LinkWord


CONDUCT: Mapping[LinkMode, Conduct] = {
    LinkMode.DISABLED: Conduct(False, None, Reason.LINK_DISABLED, LinkWord.DISABLED),
    LinkMode.REFUSED: Conduct(False, Reason.NOT_RESYNCED, Reason.NOT_RESYNCED, LinkWord.REFUSED),
    LinkMode.PROBING: Conduct(False, Reason.NOT_RESYNCED, Reason.NOT_RESYNCED, LinkWord.PROBING),
    LinkMode.RESYNCING: Conduct(False, None, Reason.NOT_RESYNCED, LinkWord.UNPROVEN),
    LinkMode.DOWN: Conduct(True, None, Reason.NODE_DOWN, LinkWord.DOWN),
    LinkMode.FROZEN: Conduct(True, None, None, LinkWord.FROZEN),
    LinkMode.UNPROVEN: Conduct(True, None, None, LinkWord.UNPROVEN),
    LinkMode.UP: Conduct(True, None, None, LinkWord.UP),
}

CLOSED = frozenset({LinkMode.DISABLED, LinkMode.RESYNCING})
"""What an operator has closed, until it is open and proven again."""
