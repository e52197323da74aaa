"""Whether the tree layer names the same parts of the mesh as the auditor: the colours tell.

Both follow from who hears whom, each in its own way: the tree layer counts pings, the auditor what
neighbours have read of heartbeats. Neither sees a cut at once, so only a difference that lasts is
a fault. A node that has died is a colour less and no split, and one without a colour has no tree
layer or has nothing to lose: while there is any such, nothing is compared.
Spec: tree_layer 7.1, 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import Finding
from streaming.audits.splits import Splits

LASTS_S = 30.0
"""How long the two may differ: each needs some twelve seconds for a cut, and colours spread."""

Parts = tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Colours:
    """What the nodes say of their parts.

    Attributes:
        of: The newest colour of each node.
        differs: The auditor's parts and those of the colours while they differ, else nothing.
        since_s: Since when, on the auditor's monotonic clock.
        is_told: That this difference lasts has been found.
        found: Findings so far; tells two equal ones apart.
    """

    of: dict[str, str] = field(default_factory=dict)
    differs: tuple[Parts, ...] = ()
    since_s: float = 0.0
    is_told: bool = False
    found: int = 0

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.since_s += ahead_s

    def judge(self, splits: Splits, now_s: float) -> Iterator[Finding]:
        """Yield a finding once the two have differed in one way for too long."""
        differs = self._compare(splits, now_s)
        if differs != self.differs or now_s < self.since_s:  # a restart may set the clock back
            self.differs, self.since_s, self.is_told = differs, now_s, False
        if not differs or self.is_told or now_s - self.since_s < LASTS_S:
            return
        self.is_told = True
        self.found += 1
        heard, coloured = map(_text, differs)
        yield Finding(
            kind=FindingKind.COLOURS_DIFFER,
            text=f"the colours of the nodes say {coloured}; by who reads whom it is {heard}",
            ids=tuple(",".join(part) for part in differs[1]),
            link=", ".join("-".join(link) for link in sorted(splits.cut)),
            anchor=str(self.found),
        )

    def _compare(self, splits: Splits, now_s: float) -> tuple[Parts, ...]:
        """Return both views if they can be compared and are not the same."""
        if splits.is_changing or not all(splits.is_heard(node, now_s) for node in splits.nodes):
            return ()
        if not all(self.of.get(node) for node in splits.nodes):
            return ()
        heard = tuple(tuple(part) for part in splits.beating_parts(splits.cut, now_s))
        coloured = _by_colour(splits.nodes, self.of)
        return () if heard == coloured else (heard, coloured)


def _by_colour(nodes: Sequence[str], colours: Mapping[str, str]) -> Parts:
    parts: dict[str, list[str]] = {}
    for node in nodes:
        parts.setdefault(colours[node], []).append(node)
    return tuple(sorted(tuple(part) for part in parts.values()))


def _text(parts: Parts) -> str:
    return " | ".join(",".join(part) for part in parts)
