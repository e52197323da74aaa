"""Is this mesh well? Grouped checks, each with what to do. Spec: ecosystem guide 2, R15."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.operate.doctor.checks import Category, Check, Result
from mesh.operate.doctor.clocks import check_clocks
from mesh.operate.doctor.delivery import check_delivery
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.interest import check_interest
from mesh.operate.doctor.kafka import check_kafka
from mesh.operate.doctor.lanes import check_lanes
from mesh.operate.doctor.links import check_links
from mesh.operate.doctor.nodes import check_nodes
from mesh.operate.doctor.rights import check_rights
from mesh.operate.doctor.topics import check_topics
from mesh.operate.doctor.transactions import check_transactions
from mesh.operate.doctor.trees import check_trees

__all__ = [
    "BEFORE_START",
    "Category",
    "Check",
    "Examination",
    "Result",
    "examine",
]

_CHECKS = {
    Category.KAFKA: check_kafka,
    Category.RIGHTS: check_rights,
    Category.TOPICS: check_topics,
    Category.TRANSACTIONS: check_transactions,
    Category.NODES: check_nodes,
    Category.LINKS: check_links,
    Category.LANES: check_lanes,
    Category.INTEREST: check_interest,
    Category.DELIVERY: check_delivery,
    Category.TREES: check_trees,
    Category.CLOCKS: check_clocks,
}

BEFORE_START = (Category.KAFKA, Category.RIGHTS, Category.TOPICS)
"""What must hold before a node is started."""


def examine(at: Examination, categories: Sequence[Category]) -> Iterator[Check]:
    """Yield the checks of some categories, in the order in which they depend on each other."""
    for category, checks in _CHECKS.items():
        if category in categories:
            yield from checks(at)
