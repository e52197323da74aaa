"""Whose words on links stand on a node's control topic, and for how long."""

from __future__ import annotations

from dataclasses import replace

from mesh.model.effects import DropLinks, WriteLinks
from mesh.model.links import NodeLinks
from mesh.node.link_gossip import RENEW_MS, UNUSED_MS, LinkGossip

OWN = NodeLinks(node="a", uuid="ua", cluster_id="k", digest="d", sequence=1)
OTHER = NodeLinks(node="b", uuid="ub", cluster_id="k", digest="e", sequence=4)


def step(gossip: LinkGossip, other: int, *near: str, at: int) -> list[object]:
    """Return what is written, as (uuid, sequence), or dropped, with b at a sequence."""
    records = {"ua": OWN, "ub": replace(OTHER, sequence=other)}
    return [
        (done.record.uuid, done.record.sequence) if isinstance(done, WriteLinks) else done
        for done in gossip.step(records, near, at)
    ]


def test_words_of_others_are_handed_on_only_where_somebody_is_apart() -> None:
    """Spec: K26, K27."""
    gossip = LinkGossip("ua")
    assert step(gossip, 4, at=0) == [("ua", 1)]
    assert step(gossip, 4, "ua", "ub", at=10) == [("ub", 4)]
    assert step(gossip, 4, "ua", "ub", at=20) == []
    assert step(gossip, 5, "ua", "ub", at=30) == [("ub", 5)]


def test_what_was_handed_on_is_renewed_now_and_then_and_dropped_in_the_end() -> None:
    """Else who starts later would hear what nobody says any more. Spec: K26, K27."""
    gossip = LinkGossip("ua", {"ua": 1, "ub": 4})
    at = RENEW_MS
    assert step(gossip, 5, at=at) == [("ub", 5)]
    assert step(gossip, 6, at=at + 1) == []
    assert gossip.is_behind
    assert step(gossip, 6, at=at + RENEW_MS) == [("ub", 6)]
    assert not gossip.is_behind
    assert not gossip.is_due(at + UNUSED_MS - 1)
    assert gossip.is_due(at + UNUSED_MS)
    assert step(gossip, 6, at=at + UNUSED_MS) == [DropLinks("ub")]
    assert step(gossip, 7, at=at + 2 * UNUSED_MS) == []
