"""The judgement on links that nodes tell of: the same whoever judges, and by identity alone."""

from __future__ import annotations

import itertools

import pytest

from mesh.core.held_links import component, facts_digest
from mesh.core.lineage import topology_digest
from mesh.core.loops import judgement
from mesh.model.joins import Join
from mesh.model.links import HeldLink, NodeLinks
from tests.sim.apart import file, multi_hop


def record(node: str, *links: HeldLink, uuid: str = "", number: int = 1) -> NodeLinks:
    return NodeLinks(
        node=node, uuid=uuid or f"u-{node}", cluster_id="k", digest="d", number=number, links=links
    )


def to(neighbour: str, zone: str = "Z", kind: str = "multi-hop", **more: object) -> HeldLink:
    return HeldLink(neighbour, zone, kind, **{"peer": f"u-{neighbour}", **more})


def records(*all_: NodeLinks) -> dict[str, NodeLinks]:
    return {one.uuid: one for one in all_}


def refused(*all_: NodeLinks) -> set[frozenset[str]]:
    """Return the links that are refused, as pairs of uuid and neighbour."""
    return {frozenset(end) for end in judgement(records(*all_)).reasons}


TRIANGLE = (
    record("a", to("b"), to("c")),
    record("b", to("a"), to("c")),
    record("c", to("a"), to("b")),
)


def test_whoever_hears_first_judges_alike() -> None:
    """Spec: K27."""
    for order in itertools.permutations(TRIANGLE):
        found = judgement({one.uuid: one for one in order}).reasons
        assert set(found) == {("u-b", "c"), ("u-c", "b")}
        assert len(set(found.values())) == 1


def test_the_creation_version_comes_before_the_name() -> None:
    """It counts from the end that was later. Spec: K27."""
    late = (
        record("a", to("b", version=2), to("c")),
        record("b", to("a", version=7), to("c", version=6)),
        record("c", to("a"), to("b", version=6)),
    )
    assert set(judgement(records(*late)).reasons) == {("u-a", "b"), ("u-b", "a")}


def test_a_link_of_one_end_is_no_link() -> None:
    """Spec: K27."""
    assert not refused(TRIANGLE[0], TRIANGLE[1], record("c", to("a")))
    assert component(records(TRIANGLE[0], record("b"), record("c", to("a"))), "u-b") == ["u-b"]


def test_the_ends_must_hold_the_same_link() -> None:
    """One clear line names both. Spec: K27, EMS-13."""
    found = judgement(records(record("a", to("b")), record("b", to("a", kind="one-hop")))).reasons
    assert found[("u-a", "b")] == found[("u-b", "a")]
    assert found[("u-a", "b")] == (
        "its ends hold different links: a has multi-hop in zone Z, b has one-hop in zone Z; "
        "give both the same zone and kind"
    )
    assert refused(record("a", to("b", "Y")), record("b", to("a")))


def test_a_zone_has_one_kind_everywhere() -> None:
    """What runs is not touched: the later link is refused. Spec: EMS-13."""
    found = judgement(
        records(
            record("a", to("b")),
            record("b", to("a"), to("c", "Y")),
            record("c", to("b", "Y"), to("d", "Z", "one-hop")),
            record("d", to("c", "Z", "one-hop")),
        )
    ).reasons
    assert set(found) == {("u-c", "d"), ("u-d", "c")}
    assert found[("u-c", "d")].startswith("zone Z is multi-hop at link a-b and one-hop here;")


def test_a_join_is_a_zone_of_its_own() -> None:
    """Two joins of one name between other nodes are not one. Spec: EMS-13, UM-8."""

    def joined(source: str, target: str, neighbour: str) -> HeldLink:
        join = Join(zone="J", source=source, target=target)
        return to(neighbour, "J", "join", joins=(join,))

    found = judgement(
        records(
            record("a", joined("a", "b", "b")),
            record("b", joined("a", "b", "a"), joined("b", "c", "c")),
            record("c", joined("b", "c", "b")),
        )
    ).reasons
    assert set(found) == {("u-b", "c"), ("u-c", "b")}


def namesakes(**versions: int) -> tuple[NodeLinks, ...]:
    """`a` and `c` each have a `b` of their own, and a link between them."""
    to_b, to_each_other = versions.get("b", 0), versions.get("c", 0)
    return (
        record("a", to("b", peer="u1"), to("c", version=to_each_other)),
        record("c", to("B", peer="u2", version=to_b), to("a", version=to_each_other)),
        record("b", to("a"), uuid="u1"),
        record("B", to("c", version=to_b), uuid="u2"),
    )


def test_two_nodes_of_one_name_are_two_nodes() -> None:
    """That is no loop, but they cannot be in one mesh: paths name nodes. Spec: EMS-16, DESIGN 3."""
    assert component(records(*namesakes()), "u1") == ["u-a", "u-c", "u1", "u2"]
    found = judgement(records(*namesakes(c=1)))
    assert set(found.reasons) == {("u-a", "c"), ("u-c", "a")}
    assert [pair.keys for pair in found.losers] == [(("u-a", "c"), ("u-c", "a"))]
    assert found.reasons["u-a", "c"].startswith("B(u2) and b(u1) would be two nodes of one name")
    assert not refused(*namesakes()[::2])


def test_of_the_links_between_namesakes_the_newest_loses() -> None:
    """It need not be the one that joins two meshes. Spec: K27."""
    assert refused(*namesakes(b=2, c=1)) == {frozenset({"u-c", "B"}), frozenset({"u2", "c"})}


def test_one_node_under_two_names_is_one_node() -> None:
    """`a` calls it b, `c` calls it x; the loop is one all the same. Spec: EMS-16."""
    three = (
        record("a", to("b", peer="u1"), to("c")),
        record("c", to("x", peer="u1"), to("a")),
        record("b", to("a"), to("c"), uuid="u1"),
    )
    assert set(judgement(records(*three)).reasons) == {("u1", "c"), ("u-c", "x")}


@pytest.mark.parametrize("name", ["a", "z"])
def test_a_name_of_two_nodes_means_neither_from_whichever_end(name: str) -> None:
    """As long as `m` knows nothing of its neighbour but the name. Spec: K27, EMS-16."""
    three = (
        record(name, to("m"), uuid="u1"),
        record(name, to("m"), uuid="u2"),
        record("m", to(name, peer="")),
    )
    assert [component(records(*three), uuid) for uuid in ("u1", "u2", "u-m")] == [
        ["u1"],
        ["u2"],
        ["u-m"],
    ]
    assert not refused(*three)
    assert component(records(*three[1:]), "u-m") == ["u-m", "u2"]


def test_only_links_make_topologies_differ() -> None:
    """Spec: K27."""
    assert topology_digest(file("ab", Z=multi_hop("ab"))) == topology_digest(
        file("abc", Z=multi_hop("ab"))
    )
    assert topology_digest(file("abc", Z=multi_hop("ab"))) != topology_digest(
        file("abc", Z=multi_hop("ac"))
    )


def test_facts_differ_with_their_numbers() -> None:
    """Spec: K27."""
    one, other = records(record("a"), record("b")), records(record("a"), record("b", number=2))
    assert facts_digest(one, ["u-a", "u-b"]) == facts_digest(one, ["u-b", "u-a"])
    assert facts_digest(one, ["u-a", "u-b"]) != facts_digest(other, ["u-a", "u-b"])
