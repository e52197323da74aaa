"""Who is up: by a beat of its own, or by how far it lies behind a fresh beat beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.operate.status import FRESH_MS, OBSERVE_S, observe
from tests.component.in_memory_mesh import Mesh

TOGETHER = topology_from_mapping(
    {
        "kafka": {"one": None, "two": None},
        "nodes": {"a": {"kafka": "one"}, "b": {"kafka": "one"}, "c": {"kafka": "two"}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    }
)


def seen(mesh: Mesh, *, hears_each: bool) -> tuple[Mapping[str, bool], int]:
    """Return who is up, and how long it took to find out, in ms."""
    view = mesh.view()
    began = mesh.now_ms()
    view.refresh()
    found = observe(view, mesh.time, hears_each=hears_each)
    view.close()
    return found, mesh.now_ms() - began


def test_one_beat_tells_the_time_of_its_kafka_cluster(mesh_of: Callable[[Topology], Mesh]) -> None:
    """Who beat shortly before another is up, and is not waited for."""
    mesh = mesh_of(TOGETHER)
    mesh.pause(3.0)
    found, took_ms = seen(mesh, hears_each=False)
    assert found == {"a": True, "b": True, "c": True}
    assert took_ms <= 1_200


def test_who_is_long_gone_is_down_soon(mesh_of: Callable[[Topology], Mesh]) -> None:
    """It lies far behind a neighbour on the same Kafka cluster: nobody waits five seconds."""
    mesh = mesh_of(TOGETHER)
    mesh.pause(3.0)
    mesh.world.kill("a")
    mesh.pause(OBSERVE_S + 3.0)
    found, took_ms = seen(mesh, hears_each=False)
    assert found == {"a": False, "b": True, "c": True}
    assert took_ms < 2_000


def test_who_just_died_is_down_once_it_misses_beats(mesh_of: Callable[[Topology], Mesh]) -> None:
    """The quick look believes a fresh beat; the exact one hears each."""
    mesh = mesh_of(TOGETHER)
    mesh.pause(3.0)
    mesh.world.kill("a")
    assert seen(mesh, hears_each=True)[0] == {"a": False, "b": True, "c": True}
    mesh.pause(FRESH_MS / 1000)
    assert seen(mesh, hears_each=False)[0] == {"a": False, "b": True, "c": True}


def test_where_nobody_beats_all_are_down(mesh_of: Callable[[Topology], Mesh]) -> None:
    """Beats of another Kafka cluster say nothing about this one: its clock is another."""
    mesh = mesh_of(TOGETHER)
    mesh.pause(3.0)
    mesh.world.kill("c")
    mesh.pause(OBSERVE_S + 3.0)
    assert seen(mesh, hears_each=False)[0] == {"a": True, "b": True, "c": False}
