"""`mesh.config` comes back from a backup that is older than what nodes have followed. Spec: K28."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Change, Stage
from mesh.model.topology import Topology
from mesh.operate.doctor import Category
from mesh.operate.status import node_statuses
from mesh.view.change_records import write_change
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.operate.examined import failed

NODES = "ab"


def meshed(*, linked: bool, lanes: int = 1) -> Topology:
    """Return two nodes with a link, or without."""
    nodes = {"a": {"kafka": "k", "lanes": lanes}, "b": {"kafka": "far"}}
    spec = {"kafka": {"k": {}, "far": {}}, "nodes": nodes}
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}} if linked else {}
    return topology_from_mapping({**spec, "zones": zones})


LINKED, APART = meshed(linked=True), meshed(linked=False)


@pytest.fixture(params=[[LINKED, APART], [APART]], ids=["as it is", "as it was"])
def restored(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    """Two nodes that have been linked by their newest topology; the backup has the first."""
    mesh = changed(*request.param, LINKED)
    mesh.pause(2)
    restore(mesh)
    yield mesh
    mesh.close()


def changed(first: Topology, *others: Topology) -> Mesh:
    """Return a mesh that works by the last of these, which `b` has a message by."""
    mesh = Mesh(first, runs=False)
    put_in_force(1, first, mesh.world.kafka)
    for node in NODES:
        mesh.world.start(node)
    for topology in others:
        mesh.change(topology)
    mesh.subscribe("b", "e", ">")
    mesh.publish("a", "x", b"1")
    return mesh


def restore(mesh: Mesh) -> None:
    """Have `mesh.config` say what it said at first."""
    for kafka in mesh.world.kafka.values():
        kafka.recreate("mesh.config")
    put_in_force(1, mesh.topology, mesh.world.kafka)


def lost(mesh: Mesh) -> list[bool]:
    """Return whether each node says that a version is lost."""
    view = mesh.view()
    view.refresh()
    beats = [view.nodes[node].heartbeat for node in NODES]
    view.close()
    return [beat is not None and beat.lost_topology > 1 for beat in beats]


def unrecorded(mesh: Mesh) -> Mapping[str, int]:
    """Return what `mesh status` says of nodes whose other workers may wait."""
    view = mesh.view()
    view.refresh()
    statuses = node_statuses(mesh.seen(view))
    view.close()
    assert all(one.is_well == (not one.unrecorded_topology) for one in statuses)
    return {one.node: one.unrecorded_topology for one in statuses if one.unrecorded_topology}


def delivered(mesh: Mesh) -> list[bytes | None]:
    logs = mesh.world.kafka["far"].topics["mesh.b.ep.e"].logs
    return sorted(one.value() for log in logs for one in log.entries if one is not None)


def test_who_runs_on_follows_nothing_older(restored: Mesh) -> None:
    mesh = restored
    mesh.pause(5)
    mesh.publish("a", "x", b"2")
    mesh.pause(3)
    assert (delivered(mesh), lost(mesh)) == ([b"1", b"2"], [False, False])


@pytest.mark.parametrize("again", ["a", "ab"])
def test_who_starts_again_waits_for_what_was_in_force(restored: Mesh, again: str) -> None:
    """By what the backup says messages would go nowhere, or by two ways; nobody guesses.

    Where that was the same topology there was nothing to apply, and it waited for good.
    """
    mesh = restored
    for node in again:
        mesh.world.kill(node)
        mesh.world.start(node)
    mesh.pause(20)
    mesh.publish("a", "x", b"2")
    mesh.pause(3)
    assert delivered(mesh) == [b"1"]
    assert lost(mesh) == [node in again for node in NODES]
    mesh.change(LINKED)
    mesh.pause(5)
    mesh.publish("a", "x", b"3")
    mesh.pause(3)
    assert (delivered(mesh), lost(mesh)) == ([b"1", b"2", b"3"], [False, False])


def test_a_worker_that_does_not_lead_waits_and_goes_on_as_well() -> None:
    """Heartbeats said nothing of its lanes: there was nothing to apply, and it waited for good."""
    apart, linked = meshed(linked=False, lanes=2), meshed(linked=True, lanes=2)
    mesh = changed(linked, apart, linked)
    mesh.world.start("a", 1)
    mesh.pause(10)
    restore(mesh)
    mesh.world.kill("a", 1)
    mesh.world.start("a", 1)
    mesh.pause(20)
    others = [f"{number}".encode() for number in range(2, 10)]
    for payload in others:
        mesh.publish("a", f"x/{payload.decode()}", payload)
    mesh.pause(3)
    assert len(delivered(mesh)) < 1 + len(others)
    assert unrecorded(mesh) == {"a": 3, "b": 3}
    told = failed(mesh, Category.NODES)
    assert "lanes of a have worked by version 3" in told["mesh.config has the topology of a"]
    mesh.change(linked)
    mesh.pause(5)
    assert failed(mesh, Category.NODES) == {}
    assert unrecorded(mesh) == {}
    assert delivered(mesh) == [b"1", *others]
    mesh.close()


def test_where_nothing_was_lost_nothing_is_changed() -> None:
    """A change that was aborted gave lanes no topology, though they have followed it."""
    mesh = changed(LINKED, APART, LINKED)
    for stage in (Stage.HOLD, Stage.ABORT):
        change = Change(4, stage, published_text(APART), tuple(NODES))
        write_change(change, mesh.world.kafka, LINKED.prefix)
        mesh.pause(5)
    assert mesh.change(LINKED) == 3
    mesh.close()
