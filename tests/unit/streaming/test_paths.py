"""Zone rules as the auditor walks them, against the words of the design. Spec: DESIGN 3."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.findings import FindingKind
from mesh.model.topology import Topology
from streaming.audits.names import Names
from streaming.audits.paths import LinkPlan
from streaming.audits.strangers import StrangeFrames
from streaming.tables.rows import SourceKey
from tests.sim.meshes import naive_ways, random_legal_topology
from tests.unit.streaming.test_eras import frame


def plan_of(**zones: object) -> LinkPlan:
    nodes = {node: {} for node in "abcd"}
    return LinkPlan.of(topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones}))


def zone(kind: str, **more: object) -> dict[str, object]:
    return {"kind": kind, **more}


@pytest.mark.parametrize(
    ("zones", "path", "told"),
    [
        ({"Z": zone("one-hop", nodes=["a", "b", "c"])}, "abc", "within the one-hop zone Z"),
        ({"Z": zone("cluster", nodes=["a", "b", "c"])}, "abc", "within the cluster zone Z"),
        (
            {
                "X": zone("external", links=[["a", "b"]]),
                "M": zone("multi-hop", links=[["b", "c"]]),
                "Y": zone("external", links=[["c", "d"]]),
            },
            "abcd",
            "a second external link, in zone Y",
        ),
        (
            {
                "X": zone("external", links=[["a", "b"]]),
                "Y": zone("external", links=[["b", "c"]]),
            },
            "abc",
            "a second external link",
        ),
        (
            {
                "AB": zone("join", **{"from": "a", "to": "b", "hops": 1}),
                "BC": zone("join", **{"from": "b", "to": "c", "hops": 9}),
                "CD": zone("join", **{"from": "c", "to": "d", "hops": 9}),
            },
            "abcd",
            "3 joins in a row, of which one allows 2",
        ),
        ({"AB": zone("join", **{"from": "a", "to": "b"})}, "ba", "no link joins them"),
        ({"Z": zone("multi-hop", links=[["a", "b"]])}, "abd", "from b to d: no link joins them"),
    ],
)
def test_a_path_that_breaks_a_rule_of_a_zone_is_unplanned(zones, path, told) -> None:
    """The rule that is broken is told, and where. Spec: EMS-0, DMR-4, DMR-13, UM-10."""
    kind, text = plan_of(**zones).fault_of_path(path) or (None, "")
    assert kind is FindingKind.UNPLANNED_PATH
    assert told in text


def test_what_changes_zone_begins_anew_and_a_join_as_if_published_there() -> None:
    """Hops restart; the mark of an external link stays. Spec: EMS-5, UM-5."""
    plan = plan_of(
        Y=zone("one-hop", nodes=["a", "b"]),
        Z=zone("one-hop", nodes=["b", "c"]),
        CD=zone("join", **{"from": "c", "to": "d"}),
    )
    assert plan.fault_of_path("abcd") is None
    assert plan.fault_of_path("abc", zone="Z") is None
    assert "no link of zone Y joins them" in (plan.fault_of_path("abc", zone="Y") or ("", ""))[1]


def test_guaranteed_messages_cross_no_direct_only_zone() -> None:
    """Spec: DMR-11."""
    plan = plan_of(C=zone("cluster", nodes=["a", "b"], directOnly=True))
    assert plan.fault_of_path("ab") is None
    assert "direct-only" in (plan.fault_of_path("ab", is_guaranteed=True) or ("", ""))[1]


def simple_paths(plan: LinkPlan, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield every way over links that visits no node twice."""
    for source, target in plan.crossings:
        if source == path[-1] and target not in path:
            yield (*path, target)
            yield from simple_paths(plan, (*path, target))


@pytest.mark.parametrize("seed", range(60))
def test_exactly_the_walks_of_the_design_are_planned(seed: int) -> None:
    """Of all ways over the links of random meshes. Spec: DESIGN 3."""
    topology: Topology = random_legal_topology(random.Random(f"paths {seed}"), joined=seed % 2 == 0)
    plan = LinkPlan.of(topology)
    for origin in topology.nodes:
        planned = {
            path for path in simple_paths(plan, (origin,)) if plan.fault_of_path(path) is None
        }
        assert planned == {way.nodes for way in naive_ways(topology, origin)}


@pytest.mark.parametrize(
    ("node", "messages", "kinds"),
    [
        ("b", 0, []),
        ("a", 0, ["forged-origin", "unplanned-path"]),
        ("b", 1, ["forged-origin", "unplanned-path"]),
    ],
)
def test_what_holds_no_message_begins_where_the_outbox_is_read_that_it_names(
    node: str, messages: int, kinds: list[str]
) -> None:
    """Who announces a loss, or ends a repair, names what it reads itself. Spec: K11, K20."""
    names = Names({"aa": "mesh.a.to.b.g"})
    row = replace(
        frame("b>c", (node, "b") if node != "b" else ("b",), None),
        source=SourceKey("aa", 0),
        messages=messages,
        node=node,
    )
    plan = plan_of(Z=zone("multi-hop", links=[["a", "b"], ["b", "c"]]))
    found = [*StrangeFrames("mesh.").absorb([row], names, 0.0), plan.frame_fault(row, names)]
    assert [one.kind.value for one in found if one is not None] == kinds
