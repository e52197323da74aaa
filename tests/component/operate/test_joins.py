"""A join seen from the outside: explained, listed, examined, waited for. Spec: UM-5."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.operate.links.flows import link_flows
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import examination, failed
from tests.component.operate.explained import told

JOINED = {
    "kafka": {"left": None, "right": None},
    "nodes": {
        "a": {"kafka": "left"},
        "b": {"kafka": "left"},
        "d": {"kafka": "right"},
        "f": {"kafka": "right"},
    },
    "zones": {
        "A": {"kind": "one-hop", "nodes": ["a", "b"]},
        "B": {"kind": "one-hop", "nodes": ["d", "f"]},
        "DB": {"kind": "join", "from": "d", "to": "b", "filter": "acme/>"},
    },
}


@pytest.fixture
def joined(mesh_of: Callable[[Topology], Mesh]) -> Mesh:
    """A mesh whose zone B is joined to A, and a subscription behind the join."""
    mesh = mesh_of(topology_from_mapping(JOINED))
    mesh.subscribe("a", "e", ">")
    return mesh


def test_a_message_that_a_join_selects_is_explained(joined: Mesh) -> None:
    found = told(joined, "acme/x", "f")
    assert [(one.source, one.target, one.zone) for one in found.crossed] == [
        ("f", "d", "B"),
        ("d", "b", "DB"),
        ("b", "a", "A"),
    ]


def test_one_that_it_does_not_select_fails_at_its_filter(joined: Mesh) -> None:
    """Also where the message does not even come to the join. Spec: lab.md 2 (`filter`)."""
    found = told(joined, "news", "f")
    [away] = [one for one in found.not_reached if one.node == "a"]
    assert (away.reason, away.link) == ("filter", ("d", "b"))


def test_nothing_comes_against_a_join(joined: Mesh) -> None:
    found = told(joined, "acme/x", "b")
    assert [one.reason for one in found.not_reached if one.node == "f"] == ["no_way"]
    assert [(one.node, one.neighbour, one.reason) for one in found.refused] == [
        ("b", "d", "no_interest"),
        ("a", "b", "arrival_link"),
    ]


def test_links_show_the_direction_of_a_join_and_the_doctor_is_content(joined: Mesh) -> None:
    joined.publish("f", "acme/x")
    joined.pause(3.0)
    at = examination(joined)
    flows = link_flows(at)
    [flow] = [one for one in flows if one.kind == "join"]
    assert (flow.source, flow.target, flow.zone, flow.state) == ("d", "b", "DB", "up")
    assert (flow.backlog_frames, flow.backlog_messages) == (0, 0)
    assert failed(joined) == {}


def test_who_publishes_waits_until_those_behind_a_join_are_known(joined: Mesh) -> None:
    """The version of a's subscription is in force where messages come from. Spec: K24, K25."""
    view = joined.view()
    view.refresh()
    uuid = joined.world.workers["a"].machine.uuid  # type: ignore[union-attr]
    table = joined.world.workers["f"].machine.router.table  # type: ignore[union-attr]
    [(member, kept)] = table.members(f"$node/{uuid}")
    assert (member.name, kept.clients_offset) == ("d", view.nodes["a"].clients_offset)
    view.close()
