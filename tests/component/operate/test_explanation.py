"""`explain` says beforehand exactly what the nodes then do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.model.reasons import Reason
from mesh.model.topology import Topology
from mesh.node.converged_interest import converged_interest
from mesh.node.explanation import Reached, explain
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.explained import told

EXAMPLES = Path(__file__).parents[3] / "examples" / "topologies"


@pytest.mark.parametrize(
    "name",
    ["fig36", "clusters-two-gateways", "clusters-no-transit", "mixed", "star-one-hop"],
)
def test_what_is_explained_is_what_happens(mesh_of: Callable[[Topology], Mesh], name: str) -> None:
    mesh = mesh_of(load_topology(EXAMPLES / f"{name}.yaml"))
    nodes = sorted(mesh.topology.nodes)
    wanting = nodes[1::2]
    for node in wanting:
        mesh.subscribe(node, "e", "acme/*")
    for source in (nodes[0], nodes[-1]):
        foretold = told(mesh, "acme/x", source)
        expected = {one.node: one.path for one in foretold.reached if one.endpoints}
        mesh.publish(source, "acme/x", source.encode())
        mesh.pause(5.0)
        found = {}
        for node in wanting:
            for message in mesh.client(node).deliveries("e").read(0.1):
                if message.payload == source.encode():
                    found[node] = message.path
        assert found == expected
        assert {one.node for one in foretold.reached} | {
            one.node for one in foretold.not_reached
        } == set(nodes)


def test_every_link_has_one_answer(mesh: Mesh) -> None:
    mesh.subscribe("b", "e", "acme/>")
    found = told(mesh, "acme/x", "a")
    assert [(one.source, one.target) for one in found.crossed] == [("a", "b")]
    assert [(one.node, one.neighbour, one.reason) for one in found.refused] == [
        ("b", "a", "arrival_link"),
        ("b", "c", "no_interest"),
    ]
    [missed] = found.not_reached
    assert (missed.node, missed.reason, missed.link) == ("c", "no_interest", ("b", "c"))


def test_guaranteed_messages_wait_before_a_dead_node_and_direct_ones_do_not_go(
    mesh: Mesh,
) -> None:
    mesh.subscribe("c", "e", "acme/>")
    mesh.world.kill("c")
    mesh.pause(12.0)
    waiting = told(mesh, "acme/x", "a")
    assert waiting.reached[-1] == Reached("c", ("e",), ("a", "b", "c"), waits=True)
    direct = told(mesh, "acme/x", "a", MessageClass.DIRECT)
    assert [one.node for one in direct.reached] == ["a"]
    beside = told(mesh, "acme/x", "b", MessageClass.DIRECT)
    assert [one.node for one in beside.reached] == ["b"]
    assert ("c", Reason.NODE_DOWN) in [(one.neighbour, one.reason) for one in beside.refused]
    mesh.world.start("c")
    mesh.pause(5.0)
    assert told(mesh, "acme/x", "a").reached[-1].waits is False


def test_what_only_a_direct_endpoint_wants_does_not_wait_before_a_dead_node(mesh: Mesh) -> None:
    """Spec: K19: wherever it is asked, also at the node before it."""
    mesh.subscribe("c", "e", "acme/>", message_class=MessageClass.DIRECT)
    mesh.world.kill("c")
    mesh.pause(12.0)
    for source in "ab":
        found = told(mesh, "acme/x", source)
        assert [one.node for one in found.reached] == [source]
        missed = found.not_reached[-1]
        assert (missed.node, missed.reason, missed.wants) == ("c", Reason.NODE_DOWN, True)


def test_interest_that_has_not_travelled_is_told_apart(mesh: Mesh) -> None:
    mesh.subscribe("c", "e", "warm")
    mesh.world.cut("b", ["c"])
    mesh.client("c").subscribe("e", "acme/>")
    mesh.pause(3.0)
    [_, missed] = told(mesh, "acme/x", "a").not_reached
    assert (missed.node, missed.reason, missed.wants) == ("c", "not_resynced", True)


def test_nodes_without_a_way_are_said_to_have_none(
    mesh_of: Callable[[Topology], Mesh],
) -> None:
    mesh = mesh_of(load_topology(EXAMPLES / "square-one-hop.yaml"))
    nodes = sorted(mesh.topology.nodes)
    for node in nodes[1:]:
        mesh.subscribe(node, "e", ">")
    reasons = {one.node: one.reason for one in told(mesh, "x", nodes[0]).not_reached}
    assert set(reasons.values()) == {"no_way"}


def test_the_selector_that_refuses_is_named() -> None:
    """Spec: EMS-14."""
    order, acme = 'headers["kind"] == "order"', 'subject.startsWith("acme/")'
    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {}, "b": {}},
            "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
            "selectors": [
                {"link": ["a", "b"], "from": "a", "when": when} for when in (acme, order)
            ],
        }
    )
    known = converged_interest(topology, {"b": {("e", ">"): Subscription()}})
    guaranteed = MessageClass.GUARANTEED
    (refusal,) = explain(topology, known, "acme/x", "a", guaranteed, {"kind": "quote"}).refused
    assert (refusal.neighbour, refusal.reason, refusal.selector) == ("b", "filter", order)
    (refusal,) = explain(topology, known, "other", "a", guaranteed, {"kind": "order"}).refused
    assert refusal.selector == acme
    found = explain(topology, known, "acme/x", "a", guaranteed, {"kind": "order"})
    assert [one.target for one in found.crossed] == ["b"]
