"""Where floods go, and what else the profiles decide differently. This is HARD, which ships.

A publish or a recovery that trusts a table dies unnoticed where that table is wrong, so here both
go over every link, and a second copy changes no table. Spec: tree_layer 5.2, 5.7, 5.8, 5.12.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from mesh.model.tree_frames import RouteBreak, Send
from mesh.model.trees import Address, InstanceId
from mesh.trees.node import TreeState
from mesh.trees.records import Recovery


class Onward(NamedTuple):
    """The links that a flood takes from here, and what it says there about spewing."""

    links: tuple[str, ...]
    spew: int


class Flooding:
    """What the mechanisms ask where profiles differ. It keeps no state.

    Attributes:
        trusts_empty_maps: A map without routes may be certain. H1.
    """

    trusts_empty_maps: ClassVar[bool] = False

    def publish_onward(
        self,
        node: TreeState,  # noqa: ARG002
        address: Address,  # noqa: ARG002
        iid: InstanceId,  # noqa: ARG002
        ways: Iterable[str],
        spew: int,
    ) -> Onward:
        """Return where a publish of an instance goes, out of the links that it may take."""
        return Onward(tuple(ways), spew)

    def recovery_onward(
        self,
        node: TreeState,  # noqa: ARG002
        address: Address,  # noqa: ARG002
        ways: Iterable[str],
        spew: int,
    ) -> Onward:
        """Return where a recovery of a role goes, out of the links that it may take."""
        return Onward(tuple(ways), spew)

    def took_part(self, node: TreeState, own: Recovery) -> None:
        """A recovery that began elsewhere was completed here: that proves nothing here. H6."""

    def came_twice(self, node: TreeState, link: str, said: Send) -> None:
        """A second copy of a message came: it is answered, and tables stay."""

    def heard_of_cycle(self, node: TreeState, link: str, said: RouteBreak) -> None:  # noqa: ARG002
        """A neighbour says that routes go round, which they never do here. H2."""
        node.count("cycles told in profile HARD")
