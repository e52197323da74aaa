"""Who is behind a link, and what stands to be sent there whoever subscribes. Spec: DESIGN 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.model.topology import Topology
from streaming.audits.paths import LinkPlan


@dataclass(frozen=True, slots=True)
class Behind:
    """What one topology says.

    Attributes:
        nodes: (sender, receiver) -> the nodes that messages can come to over that link, sorted;
            none of a join, whose messages need not be wanted.
        standing: Node -> filters that it wants because the topology says so, or because a join
            takes from it what they select.
    """

    nodes: Mapping[tuple[str, str], Sequence[str]]
    standing: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, topology: Topology, plan: LinkPlan) -> Behind:
        """Return what a topology and its links say."""
        standing: dict[str, list[str]] = {}
        for control in topology.interest:
            if control.kind.value == "static":
                standing.setdefault(control.node, []).append(control.filter)
        for join in topology.joins.values():
            standing.setdefault(join.source, []).append(join.filter)
        return cls({link: plan.reach(*link) for link in plan.crossings}, standing)
