"""Which applications asked to be told of splits, colours and trees. Spec: tree_layer 7.4, 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.tree_apps import ColourChanged, ColourReason, NewsKind, NewsWanted, TreeBuilt
from mesh.model.trees import Extent
from mesh.trees.machine import TreeNode


@dataclass(slots=True)
class Listeners:
    """Who listens to what, in the order in which they asked."""

    _apps: dict[NewsKind, dict[str, None]] = field(
        default_factory=lambda: {of: {} for of in NewsKind}
    )

    def take(self, wanted: NewsWanted) -> None:
        """Follow what an application wants."""
        if wanted.ends:
            self._apps[wanted.of].pop(wanted.app, None)
        else:
            self._apps[wanted.of][wanted.app] = None

    def part(self, app: str) -> None:
        """Leave an application out."""
        for apps in self._apps.values():
            apps.pop(app, None)

    def of(self, what: NewsKind) -> Sequence[str]:
        """Return who listens."""
        return list(self._apps[what])


def present(node: TreeNode, of: NewsKind) -> Sequence[ColourChanged | TreeBuilt]:
    """Return how colours or trees stand, for who begins to listen."""
    if of is NewsKind.TREES:
        return [TreeBuilt(tree) for tree in node.trees]
    if of is NewsKind.COLOURS:
        colours = {Extent.CLOUD: node.colour, Extent.REALM: node.realm_colour}
        return [
            ColourChanged(scope, None, colour, ColourReason.ASKED)
            for scope, colour in colours.items()
            if colour is not None
        ]
    return ()
