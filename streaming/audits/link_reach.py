"""Which nodes messages can reach over a link, and what these want without a subscription.

Spec: DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.model.topology import Topology
from streaming.audits.paths import LinkPlan


@dataclass(frozen=True, slots=True)
class LinkReach:
    """What one topology says of its links.

    Attributes:
        nodes: (sender, receiver) -> the nodes that messages can come to over that link, sorted;
            none of a join, whose messages need not be wanted.
        static_interest: Node -> filters that it wants because the topology says so, or because a
            join takes from it what they select.
    """

    nodes: Mapping[tuple[str, str], Sequence[str]]
    static_interest: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, topology: Topology, plan: LinkPlan) -> LinkReach:
        """Return the reach of every link of a topology."""
        static_interest: dict[str, list[str]] = {}
        for control in topology.interest:
            if control.kind.value == "static":
                static_interest.setdefault(control.node, []).append(control.filter)
        for join in topology.joins.values():
            static_interest.setdefault(join.source, []).append(join.filter)
        return cls({link: plan.reach(*link) for link in plan.crossings}, static_interest)
