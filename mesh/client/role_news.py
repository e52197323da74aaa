"""What an application hears besides messages: about itself, and on request about the mesh.

Spec: tree_layer 7.4, 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mesh.errors import SubjectError
from mesh.model.tree_apps import (
    ColourChanged,
    NewsKind,
    NewsWanted,
    NodesFound,
    NodesLost,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleTaken,
    TreeBuilt,
    Unpartitioned,
)

OfTheMesh = PartitionSuspected | Unpartitioned | NodesLost | NodesFound | ColourChanged | TreeBuilt
"""Links lost and heals; on request also nodes that become unreachable or reachable, colours,
trees."""

News = RoleTaken | RoleLost | Refused | OfTheMesh
"""All news: roles granted and lost, refusals, and news of the mesh."""


@dataclass(slots=True)
class WantedNews:
    """The news that one application has requested."""

    app: str
    _of: dict[NewsKind, None] = field(default_factory=dict)

    def begin(self, news: Iterable[NewsKind | str]) -> Iterator[NewsWanted]:
        """Yield what to tell its node."""
        for of in [_news(one) for one in news]:
            self._of[of] = None
            yield NewsWanted(self.app, of)

    def end(self, news: Iterable[NewsKind | str]) -> Iterator[NewsWanted]:
        """Yield what to tell its node."""
        for of in [_news(one) for one in news]:
            self._of.pop(of, None)
            yield NewsWanted(self.app, of, ends=True)

    def again(self) -> Iterator[NewsWanted]:
        """Yield it again, for a node that has forgotten it."""
        for of in self._of:
            yield NewsWanted(self.app, of)


def _news(name: NewsKind | str) -> NewsKind:
    try:
        return NewsKind(name)
    except ValueError as error:
        text = f"there is no news of {name!r}; write one of {', '.join(NewsKind)}"
        raise SubjectError(text) from error
