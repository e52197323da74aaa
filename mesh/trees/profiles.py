"""Which profile a node goes by. Nobody else names one."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.trees.flooding import Flooding
from mesh.trees.node import TreeState
from mesh.trees.patent import PatentFlooding
from mesh.trees.settings import Profile

_FLOODING: Mapping[Profile, Flooding] = {
    Profile.HARD: Flooding(),
    Profile.PATENT: PatentFlooding(),
}


def flooding(node: TreeState) -> Flooding:
    """Return how floods go at this node."""
    return _FLOODING[node.settings.profile]
