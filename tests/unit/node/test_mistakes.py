"""What is said of a link whose other end lacks it. Spec: K27."""

from __future__ import annotations

import pytest

from mesh.model.links import HeldLink, NodeLinks
from mesh.node.mistakes import not_held

TO_C = HeldLink("c", "Z", "multi-hop", peer="uc")


def record(node: str, uuid: str, *links: HeldLink) -> NodeLinks:
    return NodeLinks(
        node=node, uuid=uuid, cluster_id="k", digest=uuid, number=0, links=links, gates=[]
    )


def to_a(peer: str) -> HeldLink:
    return HeldLink("a", "Z", "multi-hop", peer=peer)


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ((), "c holds no link to a: add it to the topology of c, or remove it from that of a"),
        ((to_a("ua2"),), "c has its link to another node a (ua2), and this one is ua: "),
        ((to_a(""),), "c does not know yet which of several nodes a its link leads to: "),
    ],
)
def test_why_the_other_end_lacks_a_link_is_said_as_it_is(
    links: tuple[HeldLink, ...], told: str
) -> None:
    """There is nothing to add to a topology where only the name is not resolved."""
    records = {
        "ua": record("a", "ua", TO_C),
        "ua2": record("a", "ua2", TO_C),
        "uc": record("c", "uc", *links),
    }
    found = not_held(records, "ua", (), TO_C)
    assert found is not None
    assert found.startswith(told)


@pytest.mark.parametrize("peer", ["", "ua"])
def test_a_link_that_the_other_end_holds_has_no_fault(peer: str) -> None:
    records = {"ua": record("a", "ua", TO_C), "uc": record("c", "uc", to_a(peer))}
    assert not_held(records, "ua", (), TO_C) is None
