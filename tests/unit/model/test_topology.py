"""Topologies as values."""

from __future__ import annotations

import pytest

from mesh.model.topology import DeclaredKafka, Link, Node, Topology, Zone, ZoneKind


def small() -> Topology:
    """Three nodes fully linked, and one more behind the first."""
    return Topology(
        name="small",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={name: Node(name=name, kafka="k") for name in "dcba"},
        zones={
            "Z": Zone.full_mesh("Z", ZoneKind.ONE_HOP, ["c", "b", "a"]),
            "M": Zone.of_links("M", ZoneKind.MULTI_HOP, [("d", "a")]),
        },
    )


def test_link_is_the_same_from_both_ends() -> None:
    """A link has no direction and no node twice."""
    assert Link.between("Z", "b", "a") == Link.between("Z", "a", "b")
    assert Link("Z", ("a", "b")).other("a") == "b"
    with pytest.raises(ValueError, match="not an end"):
        Link("Z", ("a", "b")).other("c")
    for ends in (("a", "a"), ("b", "a")):
        with pytest.raises(ValueError, match="two nodes in order"):
            Link("Z", ends)


def test_topology_lists_links_in_order() -> None:
    """Order comes from names alone, never from the file."""
    topology = small()
    assert [str(link) for link in topology.links] == ["a-d (M)", "a-b (Z)", "a-c (Z)", "b-c (Z)"]
    assert [str(link) for link in topology.links_of("a")] == ["a-d (M)", "a-b (Z)", "a-c (Z)"]
    assert topology.neighbours("a") == ["b", "c", "d"]
    assert topology.kind_of(topology.links[0]) is ZoneKind.MULTI_HOP


def test_topologies_compare_by_content() -> None:
    """Two readings of one file are equal."""
    assert small() == small()


def test_kafka_options_are_not_shown() -> None:
    """Options may hold passwords, so no repr shows them."""
    kafka = DeclaredKafka(name="k", options={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(kafka)
    assert kafka.is_embedded
    assert not DeclaredKafka(name="k", options={"bootstrap.servers": "a:1"}).is_embedded


def test_zone_may_be_empty() -> None:
    """The last member may go and the zone stays. Spec: UM-8."""
    assert Zone.full_mesh("Z", ZoneKind.ONE_HOP, []).links == ()
