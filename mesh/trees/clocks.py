"""How far others may take a node's clock: all clocks of a mesh follow the highest, and they end.

One record with a number near the end would have nobody choose another colour ever again, and
neighbours refuse each other's frames. So a clock that is far ahead is a leap, and leaps have a
limit: nodes that were apart for long may be millions apart, and nobody comes from there to the end.
Spec: tree_layer 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mesh.model.tree_frames import (
    Body,
    Bulk,
    Bye,
    ColourSpread,
    Edge,
    GetTrees,
    Heal,
    HealNotice,
    Hello,
    Ping,
    Pong,
    Publish,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRequest,
    Reopen,
    Reply,
    RouteBreak,
    Send,
    Trees,
)
from mesh.model.trees import clock_of

STEP = 1 << 16
"""How far ahead is still no leap: an application may name an instance that far ahead."""

CREDIT = 1 << 26
"""How far leaps together may take the clock of a node that knows somebody."""

PER_S = 100
"""How much of `CREDIT` comes back in a second; it divides 1,000, so each takes whole ms."""

SEQ_END = 1 << 40
"""No instance comes so far. Whoever takes one over counts on from its seq, and what is beyond the
end of all seqs is read by nobody."""


@dataclass(slots=True)
class LogicalClock:
    """The clock of a node: above every clock, colour and instance that it has heard of.

    Attributes:
        value: Where it stands.
        credit: How far words of others may still take it.
        credited_ms: When that was reckoned.
    """

    value: int = 0
    credit: int = 1 << 30
    credited_ms: int = 0

    def advance(self) -> int:
        """Go on by one; return a value that nobody has been told of."""
        self.value += 1
        return self.value

    def follow(self, value: int) -> None:
        """Stand no lower than what somebody else has said."""
        self.value = max(self.value, value)

    def believes(self, body: Body, now_ms: int) -> bool:
        """Return whether what a frame says of clocks can be; a leap is followed at once."""
        if isinstance(body, Reply) and body.grant is not None and body.grant.seq >= SEQ_END:
            return False
        return all(self._spend(value, now_ms) for value in _clocks(body))

    def know_somebody(self) -> None:
        """End the time in which a node knows nothing of how far the mesh has come."""
        self.credit = min(self.credit, CREDIT)

    def _spend(self, value: int, now_ms: int) -> bool:
        ahead = value - self.value
        if ahead <= STEP:
            return True
        self._give_back(now_ms)
        if ahead > self.credit:
            return False
        self.credit -= ahead
        self.value = value
        return True

    def _give_back(self, now_ms: int) -> None:
        """Give back what time has brought; a part of a step counts towards the next one."""
        if self.credit >= CREDIT:
            self.credited_ms = now_ms
            return
        back = (now_ms - self.credited_ms) * PER_S // 1000
        self.credit = min(CREDIT, self.credit + back)
        self.credited_ms += back * 1000 // PER_S


def _clocks(body: Body) -> Iterator[int]:
    match body:
        case Publish() | RecoveryAnswer():
            yield clock_of(body.iid)
        case Bulk():
            yield from (clock_of(one.iid) for one in body.publishes)
        case Hello():
            colours = (body.colour, body.realm_colour)
            yield from (body.clock, *(one.clock for one in colours if one is not None))
        case ColourSpread() | Heal() | HealNotice():
            yield body.colour.clock
        case Trees():
            yield 0 if body.colour is None else body.colour.clock
            yield from (clock_of(one.iid) for role in body.roles for one in role.instances)
        case Reply(grant=grant):
            if grant is not None:
                yield clock_of(grant.iid)
        case Bye() | Ping() | Pong() | Edge() | RouteBreak() | GetTrees():
            pass
        case RecoveryRequest() | RecoveryDone() | Send() | Reopen():
            pass  # of instances that their reader knows already, if of any
