"""Who wants what in the demo, and how much of what was published each of them must get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.core.walks import walks_from
from mesh.model.frames import MessageClass
from mesh.model.subject import matches
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class DemoWish:
    """One endpoint with its filters.

    Attributes:
        node, endpoint: Whose it is.
        filters: What it attracts.
        message_class: Of the endpoint.
    """

    node: str
    endpoint: str
    filters: tuple[str, ...]
    message_class: MessageClass = MessageClass.GUARANTEED

    @property
    def name(self) -> str:
        """Return `node/endpoint`."""
        return f"{self.node}/{self.endpoint}"

    @property
    def is_direct(self) -> bool:
        """Whether the endpoint is of the direct class."""
        return self.message_class is MessageClass.DIRECT


_DIRECT = MessageClass.DIRECT

WISHES: Sequence[DemoWish] = (
    DemoWish("tk1", "kennedy", ("flights/JFK/>",)),
    DemoWish("tk2", "united", ("flights/*/UA/*",)),
    DemoWish("tk3", "pacific", ("flights/*/*/LAX", "flights/*/*/SFO", "flights/*/*/HNL")),
    DemoWish("ny1", "delta", ("flights/*/DL/*",)),
    DemoWish("ny2", "newark", ("flights/EWR/>",)),
    DemoWish("ny3", "atlanta", ("flights/*/*/ATL",)),
    DemoWish("pa1", "laguardia", ("flights/LGA/>",)),
    DemoWish("pa2", "all", ("flights/>",)),
    DemoWish("pa3", "american", ("flights/*/AA/*", "flights/*/US/*")),
    DemoWish("sg1", "cancelled", ("alerts/cancelled/>",)),
    DemoWish("sg2", "board", ("board/*/ORD", "board/*/ATL"), _DIRECT),
    DemoWish("ld1", "alerts", ("alerts/>",)),
    DemoWish("ld2", "late", ("alerts/late/EWR/>",)),
    DemoWish("ld2", "board", ("board/>",), _DIRECT),
)
"""Somebody wants something at every node: all of it, an airport, a carrier, a destination."""

Published = Mapping[tuple[str, MessageClass, str], int]
"""(node, class, subject) -> messages published there."""


def expected_counts(
    topology: Topology, published: Published
) -> Mapping[str, Mapping[MessageClass, int]]:
    """Return how many messages of each class every endpoint of the demo must get.

    From the feed, the filters and the ways through the topology alone: nothing is asked of the
    mesh.
    """
    reached = {
        node: {node, *walks_from(topology, node)}
        for node in {node: None for node, _, _ in published}
    }
    counts: dict[str, Counter[MessageClass]] = {wish.name: Counter() for wish in WISHES}
    for (node, message_class, subject), count in published.items():
        for wish in WISHES:
            is_wanted = any(matches(filter_, subject) for filter_ in wish.filters)
            if is_wanted and wish.node in reached[node]:
                counts[wish.name][message_class] += count
    return counts
