"""Who wants which role, as the `roles` topics tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import TreeStatus
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.model.trees import Address, tree_id
from mesh.operate.documents.roles import roles_document
from mesh.operate.documents.status import parts_of
from mesh.operate.status import node_statuses
from mesh.wire.tree_apps import encode_lease, encode_request, lease_key, role_key
from tests.component.in_memory_mesh import CHAIN, Mesh

KEY = RoleKey("desk", "trading", "pricing")
ALONE = encode_request(RoleRequest(Address(tree_id("trading"), "pricing"), is_exclusive=True))


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(topology_from_mapping(CHAIN))
    made.pause(3)
    yield made
    made.close()


def _write(mesh: Mesh, node: str, key: bytes, value: bytes | None) -> None:
    kafka = mesh.world.kafka[mesh.topology.nodes[node].kafka]
    writer = kafka.writer("app")
    writer.produce(TopicNames("mesh.").roles(node), value, key, 0)
    writer.flush()


def _told(mesh: Mesh) -> dict[str, Any]:
    view = mesh.view()
    view.refresh()
    told = roles_document(mesh.seen(view))
    view.close()
    return told


def test_a_role_is_told_with_its_lease_until_it_is_given_up(mesh: Mesh) -> None:
    """Who takes it, whether alone, and whether the application still lives."""
    _write(mesh, "c", lease_key("desk"), encode_lease(10_000))
    _write(mesh, "c", role_key(KEY), ALONE)
    _write(mesh, "c", b"what is this", b"x")
    mesh.pause(2)
    (one,) = _told(mesh)["roles"]
    assert (one["tree"], one["role"], one["node"], one["app"]) == (
        "trading",
        "pricing",
        "c",
        "desk",
    )
    assert one["exclusive"]
    assert one["lease_holds"]
    mesh.pause(20)
    assert [one["lease_holds"] for one in _told(mesh)["roles"]] == [False]
    _write(mesh, "c", role_key(KEY), None)
    assert _told(mesh)["roles"] == []


def test_who_never_names_a_lease_has_the_usual_one(mesh: Mesh) -> None:
    """One `kcat` line takes a role: it lives for ten seconds from its last word."""
    _write(mesh, "c", role_key(KEY), ALONE)
    mesh.pause(2)
    assert [one["lease_holds"] for one in _told(mesh)["roles"]] == [True]
    mesh.pause(20)
    assert [one["lease_holds"] for one in _told(mesh)["roles"]] == [False]
    _write(mesh, "c", role_key(KEY), ALONE)
    mesh.pause(2)
    _write(mesh, "c", lease_key("desk"), None)
    assert [one["lease_holds"] for one in _told(mesh)["roles"]] == [False]


def test_what_a_silent_kafka_cluster_holds_is_not_known(mesh: Mesh) -> None:
    """It is said of which nodes; the others are told."""
    for node in ("a", "c"):
        _write(mesh, node, role_key(KEY), ALONE)
    mesh.world.kafka["right"].available = False
    told = _told(mesh)
    assert [one["node"] for one in told["roles"]] == ["a"]
    assert told["unknown"] == ["b", "c"]


@pytest.mark.parametrize(
    ("of_c", "parts"), [(("b",), [["a", "b", "c"]]), ((), [["a", "c"], ["b"]])]
)
def test_who_has_yet_to_tell_of_a_new_colour_is_in_the_part_of_its_neighbour(
    mesh: Mesh, of_c: tuple[str, ...], parts: list[list[str]]
) -> None:
    """b has lost a link just now; c has its new colour by now, and tells of it within a second."""
    view = mesh.view()
    view.refresh()
    told = {"a": ("1-0", ()), "b": ("2-0", ("c",)), "c": ("1-0", of_c)}
    for node, (colour, links) in told.items():
        beat = view.nodes[node].heartbeat
        assert beat is not None
        view.nodes[node].heartbeat = replace(beat, colour=colour, trees=TreeStatus(links, 0))
    nodes = node_statuses(mesh.seen(view, dict.fromkeys(told, True)))
    assert parts_of(view, nodes) == parts
    view.close()
