"""Controls of interest seen from the outside: explained, listed, examined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.walks import walks_from
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.node.converged_interest import converged_interest
from mesh.node.explanation import explain
from mesh.operate.doctor import Category
from mesh.operate.endpoints.topics import missing_endpoints, with_missing
from mesh.operate.status import NodeStatus, node_statuses
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate.examined import examination, failed
from tests.component.operate.explained import told

CONTROLS = [
    {"node": "c", "local": "acme/private/>"},
    {"node": "b", "static": "acme/prices"},
]
CONTROLLED = topology_from_mapping({**CHAIN, "interest": CONTROLS})
SENTENCE = "acme/private/> is local at c, so it crosses no link of c"


@pytest.fixture
def controlled(mesh_of: Callable[[Topology], Mesh]) -> Mesh:
    return mesh_of(CONTROLLED)


def statuses(mesh: Mesh) -> Sequence[NodeStatus]:
    at = examination(mesh)
    return with_missing(node_statuses(at), missing_endpoints(at))


def test_explain_names_the_control_that_keeps_a_subject_local(controlled: Mesh) -> None:
    """At the link, and for the node that it does not reach. Spec: EMS-11, lab.md 2 (`filter`)."""
    controlled.subscribe("c", "e", "acme/>")
    found = told(controlled, "acme/private/x", "a")
    assert [one.node for one in found.reached] == ["a", "b"]
    [away] = found.not_reached
    assert (away.reason, away.link, away.text) == ("filter", ("b", "c"), SENTENCE)
    refused = {(one.node, one.neighbour): (one.reason, one.text) for one in found.refused}
    assert refused["b", "c"] == ("filter", SENTENCE)
    assert refused["b", "a"] == ("arrival_link", "the message came over this link")


def test_explain_names_it_where_nothing_was_offered_either(controlled: Mesh) -> None:
    """What lies wholly within is wanted by nobody it could come to. Spec: EMS-11."""
    controlled.subscribe("c", "e", "acme/private/*")
    found = told(controlled, "acme/private/x", "a")
    assert [one.node for one in found.reached] == ["a"]
    [_, away] = found.not_reached
    assert (away.node, away.reason, away.text, away.wants) == ("c", "filter", SENTENCE, True)


def test_what_is_local_elsewhere_goes_on(controlled: Mesh) -> None:
    controlled.subscribe("b", "e", "acme/>")
    assert [one.node for one in told(controlled, "acme/private/x", "a").reached] == ["a", "b"]


def test_explain_says_that_a_subscription_attracts_nothing(mesh: Mesh) -> None:
    """It is no laggard, as another one would be. Spec: DMR-12."""
    mesh.subscribe("c", "e", "acme/>", noexport=True)
    away = told(mesh, "acme/x", "a").not_reached[-1]
    assert (away.node, away.wants, away.reason) == ("c", True, "no_interest")
    assert away.text == "what wants it at c is noexport, so it attracts nothing"


def test_a_noexport_endpoint_gets_what_another_one_attracts(mesh: Mesh) -> None:
    """Spec: DMR-12."""
    mesh.subscribe("c", "quiet", "acme/>", noexport=True)
    mesh.publish("a", "acme/1", b"1")
    mesh.subscribe("c", "loud", "acme/*")
    mesh.publish("a", "acme/2", b"2")
    mesh.pause(3.0)
    got = [one.payload for one in mesh.client("c").deliveries("quiet").read(0.1)]
    assert got == [b"2"]


def test_what_is_supposed_follows_the_controls() -> None:
    """`explain --proposed` and `--subscribe`. Spec: UM-1, EMS-11."""
    known = converged_interest(CONTROLLED, {})
    assert {f for entries in known["b"].offers.values() for f in entries} == {"acme/prices"}
    assert all(one.static for entries in known["b"].offers.values() for one in entries.values())
    assert not any(known["c"].offers.values())
    found = explain(CONTROLLED, known, "acme/prices", "a", MessageClass.GUARANTEED)
    assert [(one.node, one.endpoints) for one in found.reached] == [("a", ()), ("b", ())]


def test_walks_and_legality_know_nothing_of_controls() -> None:
    plain = replace(CONTROLLED, interest=())
    assert walks_from(CONTROLLED, "a") == walks_from(plain, "a")


def test_a_node_without_client_advertises_nothing_and_a_static_one_does(controlled: Mesh) -> None:
    """Spec: UM-1."""
    controlled.pause(3.0)
    offered = {
        node: {filter_ for entries in seen.offers.values() for filter_ in entries}
        for node, seen in examination(controlled).view.nodes.items()
    }
    clients = {node: {f for f in fs if f[0] != "$"} for node, fs in offered.items()}
    assert clients == {"a": set(), "b": {"acme/prices"}, "c": set()}


def test_a_missing_channel_is_a_visible_error(mesh: Mesh) -> None:
    """In status and doctor, until its node recreates it. Spec: UM-10."""
    mesh.subscribe("c", "e", "acme/>")
    assert [one.is_well for one in statuses(mesh)] == [True] * 3
    assert not failed(mesh, Category.TOPICS)
    mesh.world.kafka["right"].delete_topic("mesh.c.ep.e")
    [missing] = statuses(mesh)[2].endpoints_full
    assert (missing.endpoint, missing.state) == ("e", "missing")
    assert missing.reason == "mesh.c.ep.e does not exist; what was in it is lost"
    assert not statuses(mesh)[2].is_well
    assert list(failed(mesh, Category.TOPICS).values()) == ["mesh.c.ep.e does not exist"]
    mesh.publish("a", "acme/x", b"1")
    mesh.pause(10.0)
    assert all(one.is_well for one in statuses(mesh))
    assert [one.payload for one in mesh.client("c").deliveries("e").read(0.1)] == [b"1"]


def test_a_channel_that_cannot_be_written_is_a_visible_error(mesh: Mesh) -> None:
    """In status and doctor, and over when it can. Spec: UM-10, K20."""
    mesh.subscribe("c", "e", "acme/>")
    topic = mesh.world.kafka["right"].topics["mesh.c.ep.e"]
    allowed, topic.message_bytes_max = topic.message_bytes_max, 1
    mesh.publish("a", "acme/x", b"1")
    mesh.pause(10.0)
    [held] = statuses(mesh)[2].endpoints_full
    assert (held.endpoint, held.state) == ("e", "held")
    assert held.reason.startswith("mesh.c.ep.e cannot be written")
    told = {"c can write all its targets": f"held: {held.reason}"}
    assert failed(mesh, Category.DELIVERY) == told
    topic.message_bytes_max = allowed
    mesh.pause(20.0)
    assert all(one.is_well for one in statuses(mesh))


def test_a_direct_channel_that_cannot_be_written_is_told_too(mesh: Mesh) -> None:
    """Nothing is owed to it, so no progress tells of it: the heartbeat does. Spec: D2, K20."""
    client = mesh.client("c")
    client.subscribe("live", "acme/>", message_class=MessageClass.DIRECT)
    mesh.pause(3.0)
    place = TopicPartition("mesh.c.ep.live", 0)
    kafka = mesh.world.kafka["right"]
    kafka.leaderless.add(place)
    mesh.pause(10.0)
    [held] = statuses(mesh)[2].endpoints_full
    assert (held.endpoint, held.state) == ("live", "held")
    assert "has no leader; what comes for it meanwhile is discarded" in held.reason
    told = failed(mesh, Category.DELIVERY)["c can write all its targets"]
    assert told == f"held: {held.reason}"
    kafka.leaderless.clear()
    mesh.pause(10.0)
    assert all(one.is_well for one in statuses(mesh))
