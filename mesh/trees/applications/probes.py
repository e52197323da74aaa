"""Whether somebody holds a role, asked before it is taken politely: a message to one instance.

A null says that the holder may have got the message and cannot answer: nobody has said that there
is none. So the question is asked again, since the way that was lost is not taken twice.
Spec: tree_layer 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from mesh.model.tree_apps import PROBE, Answered, RoleKey, RoleLost, SendWanted
from mesh.model.tree_frames import Options, ReplyKind
from mesh.model.trees import Address

TRIES_MAX = 5
"""How often is asked where nobody knows."""


class Holder(Enum):
    """What is known of the holder of a role."""

    SOMEBODY = auto()
    NOBODY = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Probe:
    """One question.

    Attributes:
        key, address: Of the role.
        tries: How often it was asked before.
        lost: It was held here until a higher holder was heard of, which may be no more.
        is_doubtful: Who holds the role may have got it, and could not answer.
    """

    key: RoleKey
    address: Address
    tries: int
    lost: RoleLost | None = None
    is_doubtful: bool = False


@dataclass(slots=True)
class Probes:
    """The questions of one incarnation of a node."""

    _asked: int = 0
    _open: dict[str, Probe] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, probe: Probe) -> SendWanted:
        """Return a question to be sent."""
        self._asked += 1
        call = str(self._asked)
        self._open[call] = probe
        options = Options(one_instance=True)
        return SendWanted("", call, probe.address, options=options, protocol=PROBE)

    def heard(self, answer: Answered) -> tuple[Probe, Holder] | None:
        """Take an answer; return to what, and what it says, once that is certain."""
        probe = self._open.get(answer.call)
        if probe is None:
            return None
        probe.is_doubtful |= answer.kind is ReplyKind.NULL
        is_held = answer.kind is ReplyKind.DATA
        if not (is_held or answer.is_last):
            return None
        del self._open[answer.call]
        if is_held:
            return probe, Holder.SOMEBODY
        return probe, Holder.UNKNOWN if probe.is_doubtful else Holder.NOBODY
