"""Who wants what in the demo, and how much of what was published each of them must get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.lab.checker.reach import copies_from
from mesh.model.frames import MessageClass
from mesh.model.subject import matches
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class DemoEndpoint:
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

ENDPOINTS: Sequence[DemoEndpoint] = (
    DemoEndpoint("tk1", "kennedy", ("flights/JFK/>",)),
    DemoEndpoint("tk2", "united", ("flights/*/UA/*",)),
    DemoEndpoint("tk3", "pacific", ("flights/*/*/LAX", "flights/*/*/SFO", "flights/*/*/HNL")),
    DemoEndpoint("ny1", "delta", ("flights/*/DL/*",)),
    DemoEndpoint("ny2", "newark", ("flights/EWR/>",)),
    DemoEndpoint("ny3", "atlanta", ("flights/*/*/ATL",)),
    DemoEndpoint("pa1", "laguardia", ("flights/LGA/>",)),
    DemoEndpoint("pa2", "all", ("flights/>",)),
    DemoEndpoint("pa3", "american", ("flights/*/AA/*", "flights/*/US/*")),
    DemoEndpoint("sg1", "cancelled", ("alerts/cancelled/>",)),
    DemoEndpoint("sg2", "board", ("board/*/ORD", "board/*/ATL"), _DIRECT),
    DemoEndpoint("ld1", "alerts", ("alerts/>",)),
    DemoEndpoint("ld2", "late", ("alerts/late/EWR/>",)),
    DemoEndpoint("ld2", "board", ("board/>",), _DIRECT),
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
    sources = dict.fromkeys(node for node, _, _ in published)
    reached = {node: copies_from(topology, node) for node in sources}
    counts: dict[str, Counter[MessageClass]] = {endpoint.name: Counter() for endpoint in ENDPOINTS}
    for (node, message_class, subject), count in published.items():
        for endpoint in ENDPOINTS:
            is_wanted = any(matches(filter_, subject) for filter_ in endpoint.filters)
            if is_wanted and endpoint.node in reached[node]:
                counts[endpoint.name][message_class] += count
    return counts
