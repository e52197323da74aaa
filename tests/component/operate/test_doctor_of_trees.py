"""The doctor looks at the tree layer: each trouble planted alone, and found. Spec: tree_layer 12."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.model.trees import Address, tree_id
from mesh.operate.doctor import Category, Result, examine
from mesh.operate.documents.status import status_document
from mesh.trees.settings import Settings
from mesh.worker.http.figures import figures_of
from mesh.worker.http.metrics import WorkerMetrics
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate.examined import examination, failed, unwell


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(topology_from_mapping(CHAIN), trees=Settings())
    made.pause(5.0)
    yield made
    made.close()


def test_a_tree_layer_that_works_is_well(mesh: Mesh) -> None:
    checks = list(examine(examination(mesh), [Category.TREES]))
    assert len(checks) == 6
    assert all(one.result is Result.OK for one in checks)


def test_a_mesh_without_tree_layer_is_asked_nothing() -> None:
    plain = Mesh(topology_from_mapping(CHAIN))
    plain.pause(5.0)
    assert list(examine(examination(plain), [Category.TREES])) == []
    plain.close()


def test_a_link_without_hello_is_named(mesh: Mesh) -> None:
    """Its topic cannot be read: the mesh link is up, and nobody can speak over the tree link."""
    reader = mesh.world.workers["b"].readers["left"].name
    mesh.world.kafka["left"].blocked.add((reader, "mesh.a.to.b.t"))
    mesh.pause(20.0)
    found = failed(mesh, Category.TREES)
    assert found["the tree layer of a speaks with its neighbours"] == "no HELLO of b is answered"
    assert "the tree layer of c speaks with its neighbours" not in found


def test_frames_that_were_refused_are_told(mesh: Mesh) -> None:
    mesh.world.kafka["left"].writer("stranger").produce("mesh.a.to.b.t", b"x", b"ping", 0)
    mesh.pause(5.0)
    [found] = unwell(mesh, Category.TREES)
    assert found.result is Result.WARNING
    assert found.error == "1 were refused since its leader began"
    assert "b" in found.description


def test_two_holders_of_one_role_are_named(mesh: Mesh) -> None:
    """Requests that nobody took out: the node of one of them did not do its work."""
    one, other = (mesh.client(node).roles("app").open() for node in ("a", "c"))
    one.add("desk", "lead", exclusive=True)
    assert failed(mesh, Category.TREES) == {}
    request = RoleRequest(Address(tree_id("desk"), "lead"), is_exclusive=True)
    key = RoleKey("other", "desk", "lead")
    checks = examination(mesh)
    other._connected().write_role(key, request)
    other.flush()
    [found] = [one for one in examine(checks, [Category.TREES]) if one.result is not Result.OK]
    assert found.description == "each exclusive role has one holder"
    assert "app at a and other at c" in found.error
    mesh.pause(5.0)
    assert failed(mesh, Category.TREES) == {}


def test_status_and_metrics_tell_of_it(mesh: Mesh) -> None:
    """Parts, the colour of each node, and figures without names of roles."""
    host = mesh.client("c").roles("app").open()
    host.add("desk", "pricing")
    mesh.pause(3.0)
    seen = examination(mesh)
    told = status_document(seen, 0)
    colours = {node["node"]: node["colour"] for node in told["nodes"]}
    assert len(set(colours.values())) == 1
    assert all(colours.values())
    assert told["parts"] == [["a", "b", "c"]]
    figures = figures_of(mesh.world.workers["c"])
    metrics = WorkerMetrics("c", lambda: figures, lambda: 0.0)
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.name.startswith("mesh_tree")
    }
    at = ("node", "c")
    assert values[("mesh_tree_links_up", at)] == 1
    assert values[("mesh_tree_applications", at)] == 1
    assert values[("mesh_tree_kept", at, ("state", "roles"))] == 1
    assert values[("mesh_tree_frames_total", ("kind", "publish"), at)] == 1
    assert not any("pricing" in str(key) for key in values)
