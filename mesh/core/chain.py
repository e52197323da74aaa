"""The chain: what tells duplicate, gap and order on a link, per outbox partition and source.

Spec: K11.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mesh.model.frames import NONE_OFFSET, Chain, SourcePartition


class Verdict(StrEnum):
    """What becomes of an arrived frame."""

    ACCEPT = "accept"
    PARTIAL = "partial"
    DUPLICATE = "duplicate"
    GAP = "gap"
    WAITING = "waiting"


@dataclass(slots=True)
class Chains:
    """What has been accepted on one outbox partition.

    Attributes:
        last: Last accepted offset per sender's source.
        broken: Sources with a gap: nothing but repairs of them is accepted until a frame fits.
        given_up: Sources whose gap no repair can close: the next frame is accepted as it is.
        is_forgiven: An operator accepted a frame that cannot be read. Whose it was is unknown, so
            the next hole, of whatever source, is asked for by nobody.
    """

    last: dict[SourcePartition, int] = field(default_factory=dict)
    broken: set[SourcePartition] = field(default_factory=set)
    given_up: set[SourcePartition] = field(default_factory=set)
    is_forgiven: bool = False

    def judge(self, chain: Chain, *, is_repair: bool = False, is_gap: bool = False) -> Verdict:
        """Say what becomes of a frame, and remember it.

        ACCEPT and PARTIAL move `last`; PARTIAL means that messages up to the former `last`
        are repeats. GAP is returned once when a break is found (ask for a repair), WAITING
        for what comes after it until the repair arrives. Repairs do not end the waiting: what
        the lane itself wrote in between comes again in them.

        Args:
            chain: What the frame says.
            is_repair: It repeats something. Spec: K20.
            is_gap: It announces a loss, after which offsets may come again.

        Spec: K11.
        """
        last = self.last.get(chain.source, NONE_OFFSET)
        is_announced = is_gap and chain.previous == last
        if last >= chain.last and not is_announced:
            return Verdict.DUPLICATE
        if chain.previous > last and chain.source not in self.given_up:
            if chain.source in self.broken:
                return Verdict.WAITING
            if not self.is_forgiven:
                self.broken.add(chain.source)
                return Verdict.GAP
            self.is_forgiven = False
        self.given_up.discard(chain.source)
        if not is_repair:
            self.broken.discard(chain.source)
        self.last[chain.source] = chain.last
        return Verdict.ACCEPT if chain.first > last or is_announced else Verdict.PARTIAL

    def end_repair(self, chain: Chain) -> bool:
        """Take the frame that ends a repair: what the lane writes after it is accepted again.

        Returns:
            Whether the repair was complete; if not, another one is needed. Spec: K20.
        """
        last = self.last.get(chain.source, NONE_OFFSET)
        if chain.previous > last:
            return False
        self.last[chain.source] = max(last, chain.last)
        self.broken.discard(chain.source)
        return True

    def jump(self, chain: Chain, *, is_gap: bool = False) -> None:
        """Accept a frame of the direct class whatever is missing before it. Spec: DESIGN 6.

        After an announced loss offsets may come again.
        """
        last = NONE_OFFSET if is_gap else self.last.get(chain.source, NONE_OFFSET)
        self.last[chain.source] = max(last, chain.last)
