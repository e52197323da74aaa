"""What an application hears beside messages: about itself, and about the mesh if it asks.

Spec: tree_layer 7.4, 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mesh.errors import SubjectError
from mesh.model.tree_apps import (
    ColourChanged,
    FoundTold,
    NewsOf,
    NewsWanted,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleTaken,
    SplitTold,
    TreeBuilt,
    Unpartitioned,
)

OfTheMesh = PartitionSuspected | Unpartitioned | SplitTold | FoundTold | ColourChanged | TreeBuilt
"""Links lost and heals; and if it asks: who can no longer be reached and who can again, colours,
trees."""

News = RoleTaken | RoleLost | Refused | OfTheMesh
"""All of it: roles granted and lost, and what was refused, beside that."""


@dataclass(slots=True)
class Wanted:
    """What one application has asked to hear of."""

    app: str
    _of: dict[NewsOf, None] = field(default_factory=dict)

    def begin(self, news: Iterable[NewsOf | str]) -> Iterator[NewsWanted]:
        """Yield what its node must hear."""
        for of in [_news(one) for one in news]:
            self._of[of] = None
            yield NewsWanted(self.app, of)

    def end(self, news: Iterable[NewsOf | str]) -> Iterator[NewsWanted]:
        """Yield what its node must hear."""
        for of in [_news(one) for one in news]:
            self._of.pop(of, None)
            yield NewsWanted(self.app, of, ends=True)

    def again(self) -> Iterator[NewsWanted]:
        """Yield it again for a node that has forgotten it."""
        for of in self._of:
            yield NewsWanted(self.app, of)


def _news(name: NewsOf | str) -> NewsOf:
    try:
        return NewsOf(name)
    except ValueError as error:
        text = f"there is no news of {name!r}; write one of {', '.join(NewsOf)}"
        raise SubjectError(text) from error
