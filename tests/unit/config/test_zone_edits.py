"""One zone is edited, and everything else that a topology says stays. Spec: DESIGN 3, UM-8."""

from __future__ import annotations

import pytest

from mesh.config.legal import legal_topology_from
from mesh.config.located import dotted
from mesh.config.topology_file import topology_from_mapping
from mesh.config.zone_edits import (
    Spec,
    retitled,
    with_links,
    with_nodes,
    with_zone,
    without_links,
    without_nodes,
    without_zone,
)
from mesh.core.live_change_limits import unchangeable
from mesh.errors import ConfigError
from mesh.model.topology import Topology

SPEC = {
    "prefix": "p.",
    "keep": "2h",
    "kafka": {"k": {"bootstrap.servers": "k:1", "sasl.password": "${env:SECRET}"}},
    "nodes": {name: {"lanes": 2} for name in "abcd"},
    "zones": {
        "A": {"kind": "one-hop", "nodes": ["a", "b"], "title": "T", "exclusive": True},
        "L": {"kind": "one-hop", "nodes": ["c"]},
    },
    "limits": [{"link": ["a", "b"], "bytesPerSecond": 5}],
}
BEFORE = topology_from_mapping(SPEC, name="m")


def after(spec: Spec) -> Topology:
    return legal_topology_from(spec, dotted, name="m")


def test_the_rest_of_a_topology_stays_as_it_is() -> None:
    """There and back again is where it was."""
    there = after(with_nodes(BEFORE, "A", ["d"]))
    assert (there.zones["A"].nodes, there.zones["L"]) == (("a", "b", "d"), BEFORE.zones["L"])
    assert after(without_nodes(there, "A", ["d"])) == BEFORE
    linked = after(with_links(BEFORE, "A", [("d", "b")]))
    assert [link.ends for link in linked.zones["A"].links] == [("a", "b"), ("b", "d")]
    assert after(without_links(linked, "A", [("b", "d")])) == BEFORE
    made = after(with_zone(BEFORE, "X", {"kind": "external"}))
    assert after(without_zone(made, "X")) == BEFORE
    assert after(retitled(after(retitled(BEFORE, "A", "S")), "A", "T")) == BEFORE


def test_a_limit_is_not_lost_with_its_link() -> None:
    """It would be missing when the link comes back."""
    for spec in (without_zone(BEFORE, "A"), without_nodes(BEFORE, "A", ["b"])):
        with pytest.raises(ConfigError, match="a and b are not linked; remove the limit"):
            after(spec)


def test_no_member_is_lost_because_links_are_listed() -> None:
    with pytest.raises(ConfigError, match="has member c, which would have no link"):
        with_links(BEFORE, "L", [("a", "d")])
    assert after(with_links(BEFORE, "L", [("c", "d")])).zones["L"].nodes == ("c", "d")


def test_only_a_zone_without_links_may_become_another_kind() -> None:
    """Spec: EMS-13."""

    def refused(**kinds: str) -> list[str]:
        zones = {name: {**SPEC["zones"][name], "kind": kind} for name, kind in kinds.items()}  # type: ignore[index]
        changed = topology_from_mapping({**SPEC, "zones": {**SPEC["zones"], **zones}})  # type: ignore[dict-item]
        return [problem.where for problem in unchangeable(BEFORE, changed, dotted)]

    assert refused(L="cluster") == []
    assert refused(A="multi-hop", L="multi-hop") == ["zones.A.kind"]
