"""What the lanes of a worker have done since it began, in sums: for those who watch it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.model.state import Ledger

NAMES_MAX, OTHERS = 100, "others"
"""How many links and endpoints are counted apart: new names of endpoints may come for ever."""


@dataclass(slots=True)
class Accounts:
    """Sums of committed ledgers: whatever is counted here is in Kafka.

    Attributes:
        commits: Batches.
        read: Messages by topic.
        forwarded: Messages by (neighbour, class).
        frames: Records that carried them.
        not_forwarded: Messages by (neighbour, reason, class).
        delivered: Messages to endpoints by class.
        dropped: Messages by reason that went nowhere, or not to every target.
        needless: Copies by neighbour or endpoint that only a wider filter than it asked for
            selects: no more than these are needless. Spec: DESIGN 3.
    """

    commits: int = 0
    read: Counter[str] = field(default_factory=Counter)
    forwarded: Counter[tuple[str, str]] = field(default_factory=Counter)
    frames: Counter[tuple[str, str]] = field(default_factory=Counter)
    not_forwarded: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    needless: Counter[str] = field(default_factory=Counter)

    def add(self, ledger: Ledger, needless: Mapping[str, int]) -> None:
        """Add what one committed batch did."""
        for name, copies in needless.items():
            is_known = name in self.needless or len(self.needless) < NAMES_MAX
            self.needless[name if is_known else OTHERS] += copies
        self.commits += 1
        for source in ledger.sources:
            self.read[source.topic] += source.messages
        for sent in ledger.sent:
            key = (sent.neighbour, str(sent.message_class))
            self.forwarded[key] += sent.messages
            self.frames[key] += sent.frames
        for kept in ledger.not_forwarded:
            reason = (kept.neighbour, str(kept.reason), str(kept.message_class))
            self.not_forwarded[reason] += kept.messages
        for delivered in ledger.delivered:
            self.delivered[str(delivered.message_class)] += max(0, delivered.messages)
        for dropped in ledger.dropped:
            self.dropped[dropped.reason] += dropped.messages
