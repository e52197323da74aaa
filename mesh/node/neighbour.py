"""What a worker knows of one neighbour, and what is left of its interest while it is down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mesh.core.local_links import LocalLink
from mesh.core.scopes import ScopeReader
from mesh.model.control import NEVER, Interest, LinkStatus, Mark, Scope, Stop, Version
from mesh.model.link_modes import CONDUCT, LinkMode
from mesh.model.links import Gate, GateStatus
from mesh.model.words import LinkWord

FROZEN = "not heard since this node started; its last known interest is used"


@dataclass(slots=True)
class Neighbour:
    """What is known of one neighbour.

    Attributes:
        link: The link to it.
        caught_up: Its control topic has been read to the end found at the start.
        is_read_again: It is read again later than at a start: old marks may precede the newest one.
        frozen: The node goes by what it has acknowledged of it: at the start it could not be
            reached, or did not prove what it offers, or its link was disabled.
        beat: (epoch, number) of its newest heartbeat, or `NEVER`.
        led: The newest epoch under which it has said that it serves.
        heard_ms: When that arrived, or from when on it was missed; None before the first tick.
        is_down: Ten beats were missed.
        is_disabled: Operators have disabled the link.
        is_resyncing: They have enabled it again, and nothing has been proven since.
        gate: Why no data flow at all, or None: the link is refused or probed. Spec: K27.
        heard_again_ms: When it was heard again after it was down, while its reports of the meantime
            are being read; None else.
        late: (scope, filter) that it withdrew while it was not heard, and that are still in force.
        marks: Newest marks read while its control topic is read again; they count at its end.
        scopes: Its scopes that this node reads.
    """

    link: LocalLink
    caught_up: bool = False
    is_read_again: bool = False
    frozen: bool = False
    beat: Version = NEVER
    led: int = -1
    heard_ms: int | None = None
    is_down: bool = False
    is_disabled: bool = False
    is_resyncing: bool = False
    gate: GateStatus | None = None
    heard_again_ms: int | None = None
    late: dict[tuple[Scope, str], None] = field(default_factory=dict)
    marks: dict[Scope, Mark] = field(default_factory=dict)
    scopes: dict[Scope, ScopeReader] = field(default_factory=dict)

    def begin_again(self, *, has_lost_end: bool = False) -> None:
        """Have its control topic read from its beginning, and everything proven again.

        Withdrawals written meanwhile may be gone from it by now. What is in force stays in force
        until then.

        Args:
            has_lost_end: Whether the topic lacks what was read from it; its writer sees that too,
                and writes it again. What it does not is given up with the next doubt.
        """
        self.caught_up, self.is_read_again, self.heard_ms = False, True, None
        self.marks.clear()
        for reader in self.scopes.values():
            reader.begin_again(has_lost_end=has_lost_end)

    @property
    def mode(self) -> LinkMode:
        """The mode of the link."""
        if self.is_disabled:
            return LinkMode.DISABLED
        if self.gate is not None:
            is_refused = self.gate.state is Gate.REFUSED
            return LinkMode.REFUSED if is_refused else LinkMode.PROBING
        if self.is_resyncing:
            return LinkMode.RESYNCING
        if self.is_down:
            return LinkMode.DOWN
        if self.frozen and not self.caught_up:
            return LinkMode.FROZEN
        return LinkMode.UP if self.is_proven else LinkMode.UNPROVEN

    @property
    def is_open(self) -> bool:
        """Whether data flow, and its offers count: `Conduct.reads`, which is used often."""
        return not (self.is_disabled or self.is_resyncing or self.gate is not None)

    def is_doubtful(self, offered: Iterable[Scope]) -> bool:
        """Return whether it is heard, yet its offers do not match its marks, or are incomplete.

        Its leader marks everything that it offers under its epoch. If a log lost its end, and grew
        again before anybody looked, readers that continue after that see marks of former epochs, or
        none. Spec: K23.

        Args:
            offered: The scopes in which it offers interest.
        """
        if not self.caught_up or not self.is_open or self.is_down:
            return False
        if self.led >= 0 and not all(scope in self.scopes for scope in offered):
            return True
        readers = self.scopes.values()
        is_newest = all(one.mark is None or one.mark.epoch >= self.led for one in readers)
        return not (is_newest and all(one.is_settled for one in readers))

    @property
    def is_proven(self) -> bool:
        """Whether its control topic is read to the end, and matches its marks."""
        return self.caught_up and all(scope.proven for scope in self.scopes.values())

    @property
    def is_settled(self) -> bool:
        """Whether everything it offers is proven, or it is frozen or disabled. Spec: K23."""
        return self.frozen or self.is_disabled or self.is_proven

    @property
    def is_known(self) -> bool:
        """Whether everything it offers is known, as far as possible now. Spec: K27, K28.

        For a neighbour that is heard only the proof counts: a start goes on without it, but
            whatever
        waits until both ends of a link know one another does not.
        """
        return self.is_settled and (self.is_disabled or self.is_proven or not self.caught_up)

    @property
    def is_silent(self) -> bool:
        """Whether nothing that it acknowledges would be heard now. Spec: K24."""
        return self.is_down or self.is_disabled

    def left_of(self, interest: Interest) -> Interest | None:
        """Return the part of its interest that is in force just now. Spec: K19, K27."""
        if self.gate is not None:
            return None
        return while_down(interest) if self.is_down else interest

    @property
    def may_talk(self) -> bool:
        """Whether the tree layer may use the link, even if no data flow. Spec: tree_layer 13."""
        return not (self.is_disabled or self.gate is not None or self.is_down)

    def status(self, stops: Sequence[Stop]) -> LinkStatus:
        """Return the link's state as people see it, given its stops."""
        reason = "; ".join(map(str, stops))
        word = CONDUCT[self.mode].word
        if self.gate is not None and not self.is_disabled:
            reason = self.gate.reason
        elif stops and not self.is_disabled:
            word = LinkWord.STOPPED
        elif self.is_down and not self.is_disabled:
            word = CONDUCT[LinkMode.DOWN].word
            reason = FROZEN if self.frozen and not self.caught_up else ""
        return LinkStatus(self.link.neighbour, self.link.zone, word, reason)


def while_down(interest: Interest) -> Interest | None:
    """Return what is left of interest while its neighbour is down. Spec: K19."""
    return (
        Interest(
            durable=True, live=False, static=interest.static, clients_offset=interest.clients_offset
        )
        if interest.durable
        else None
    )
