"""Nodes start again after `mesh.config` has lost what was in force, or the change that brought it.

Their lanes have followed that change. A lane that waits for it then would wait for good. Spec: K28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.core.lineage import first_lineage
from mesh.model.control import Stage
from mesh.model.topology import Topology
from mesh.operate.changes.founding import publish
from mesh.operate.status import node_statuses
from mesh.view.mesh_view import MeshView, RunningMesh
from mesh.wire.control import encode_config
from mesh.wire.keys import change_key, config_key
from tests.said import Said
from tests.sim.changing import ChangedMesh


def before_and_after(lanes: int = 1) -> tuple[Topology, Topology]:
    """Return two nodes without and with a link."""
    nodes = {"a": {"kafka": "k", "lanes": lanes}, "b": {"kafka": "far", "lanes": lanes}}
    spec = {"kafka": {"k": {}, "far": {}}, "nodes": nodes}
    linked = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}
    return tuple(topology_from_mapping({**spec, "zones": zones}) for zones in ({}, linked))


BEFORE, AFTER = before_and_after()
CONFIG = "mesh.config"


def changed(before: Topology = BEFORE, after: Topology = AFTER) -> ChangedMesh:
    """Return two nodes that a change has linked; their files say so too."""
    mesh = ChangedMesh(before, seed=3)
    mesh.change_to(after, "ab")
    mesh.settle()
    mesh.world.adopt(after)
    return mesh


@pytest.fixture
def mesh() -> ChangedMesh:
    return changed()


def lose(mesh: ChangedMesh, kafka: Sequence[str], *keys: bytes) -> None:
    """Have somebody take these records back, and compaction leave nothing else of them."""
    for name in kafka:
        writer = mesh.world.kafka[name].writer("somebody")
        for key in keys:
            writer.produce(CONFIG, None, key, 0)
        assert writer.flush() == 0
        mesh.world.kafka[name].compact(CONFIG)


def start_over(mesh: ChangedMesh) -> None:
    for node in "ab":
        mesh.world.kill(node)
        mesh.world.start(node)
    mesh.run(20_000)


def newest_come(mesh: ChangedMesh) -> bool:
    """Publish at both nodes, and say whether both have everything that was ever published."""
    mesh.run(200, load=True)
    mesh.run(10_000)
    wanted = {value for sent in mesh.published.values() for value, *_ in sent[-3:]}
    return all(wanted <= {one.value() for one in mesh.delivered(node)} for node in "ab")


def lacking(mesh: ChangedMesh) -> Mapping[str, tuple[str, int, bool]]:
    """What people are told: the state of each node, what it has lost, and whether it is ready."""
    view = MeshView(AFTER, mesh.world.kafka, mesh.world.clock.now_ms)
    view.refresh()
    beats = dict.fromkeys("ab", True)
    seen = RunningMesh(topology=AFTER, kafka=mesh.world.kafka, view=view, beats=beats)
    return {
        one.node: (one.state, one.lost_topology, mesh.world.workers[one.node].is_ready)
        for one in node_statuses(seen)
    }


@pytest.mark.parametrize("keys", [[change_key()], [change_key(), config_key()]])
@pytest.mark.parametrize("kafka", [["k", "far"], ["far"]])
def test_nobody_waits_for_a_change_that_is_gone(
    said: Said, mesh: ChangedMesh, kafka: list[str], keys: list[bytes]
) -> None:
    """What is in force stands there, or was taken back, so that nodes go by their files."""
    lose(mesh, kafka, *keys)
    start_over(mesh)
    gone = said.of("change.gone")
    assert {(one["log_level"], one["lane"]) for one in gone} == {("warning", 0)}
    assert all(one["known"] > one["told"] for one in gone)
    assert newest_come(mesh)
    mesh.assert_exact()


def test_nobody_guesses_what_was_in_force(said: Said, mesh: ChangedMesh) -> None:
    """A file may be older: until somebody says what is in force, all waits, and people are told."""
    for name in ("k", "far"):
        mesh.world.kafka[name].recreate(CONFIG)
    start_over(mesh)
    assert not newest_come(mesh)
    assert len(said.of("topology.gone")) == len("ab")
    assert lacking(mesh) == {"a": ("starting", 1, False), "b": ("starting", 1, False)}
    for node in "ab":
        mesh.write(node, CONFIG, encode_config(1, published_text(AFTER)), config_key())
    start_over(mesh)
    assert newest_come(mesh)
    assert lacking(mesh) == {"a": ("up", 0, True), "b": ("up", 0, True)}
    mesh.assert_exact()


@pytest.mark.parametrize("are_restarted", [False, True])
@pytest.mark.parametrize("stages", [[Stage.HOLD], [Stage.HOLD, Stage.ABORT]])
def test_a_change_that_has_only_begun_ends_no_wait(
    stages: Sequence[Stage], *, are_restarted: bool
) -> None:
    """It brings no topology, and the files of nodes are older than what they worked by."""
    mesh = changed()
    mesh.world.adopt(BEFORE)
    for name in ("k", "far"):
        mesh.world.kafka[name].recreate(CONFIG)
    start_over(mesh)
    mesh.number += 1
    for stage in stages:
        mesh.say(stage, AFTER, "ab")
        mesh.run(5_000)
    if are_restarted:
        start_over(mesh)
    assert not newest_come(mesh)
    assert lacking(mesh) == {"a": ("starting", 1, False), "b": ("starting", 1, False)}
    mesh.say(Stage.ABORT, AFTER)
    mesh.number = mesh.in_force = publish(AFTER, mesh.world.kafka)
    mesh.lineage = first_lineage(AFTER)
    if are_restarted:
        start_over(mesh)
    mesh.run(20_000)
    assert newest_come(mesh)
    assert lacking(mesh) == {"a": ("up", 0, True), "b": ("up", 0, True)}
    mesh.change_to(BEFORE, "ab")
    mesh.settle()
    mesh.assert_exact()


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_node_that_starts_by_an_older_file_takes_back_nothing(lanes: int) -> None:
    """Its neighbour goes on, and would send nothing more."""
    before, after = before_and_after(lanes)
    mesh = changed(before, after)
    mesh.world.adopt(before)
    mesh.world.kafka["k"].recreate(CONFIG)
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(15_000, load=True)
    assert publish(after, mesh.world.kafka) == 1
    mesh.run(20_000)
    assert newest_come(mesh)
    mesh.assert_exact()


def test_what_is_in_force_is_followed_where_a_later_change_was_aborted_meanwhile() -> None:
    """One Kafka cluster has lost it, and gets the record that the other one has still."""
    mesh = changed()
    mesh.world.adopt(BEFORE)
    mesh.world.kafka["k"].recreate(CONFIG)
    start_over(mesh)
    mesh.number += 1
    for stage in (Stage.HOLD, Stage.ABORT):
        mesh.say(stage, BEFORE, "ab")
        mesh.run(5_000)
    assert not newest_come(mesh)
    assert lacking(mesh) == {"a": ("starting", 1, False), "b": ("up", 0, True)}
    assert publish(AFTER, mesh.world.kafka) == 1
    mesh.run(20_000)
    assert newest_come(mesh)
    mesh.change_to(BEFORE, "ab")
    mesh.settle()
    mesh.assert_exact()


def test_a_change_that_nodes_switch_to_ends_the_wait() -> None:
    """Whoever applied it has said by that what is in force from now on."""
    mesh = changed()
    mesh.world.adopt(BEFORE)
    for name in ("k", "far"):
        mesh.world.kafka[name].recreate(CONFIG)
    start_over(mesh)
    mesh.lineage, mesh.in_force = first_lineage(BEFORE), 0
    mesh.change_to(AFTER, "ab")
    assert newest_come(mesh)
    assert lacking(mesh) == {"a": ("up", 0, True), "b": ("up", 0, True)}
    mesh.assert_exact()


@pytest.mark.parametrize("are_restarted", [False, True])
def test_numbers_go_on_where_all_was_lost(*, are_restarted: bool) -> None:
    """Nodes, and lanes that were taken since, follow no change below what they have followed."""
    mesh = changed()
    for topology in (BEFORE, AFTER):
        mesh.change_to(topology, "ab")
    mesh.settle()
    for name in ("k", "far"):
        mesh.world.kafka[name].recreate(CONFIG)
    if are_restarted:
        start_over(mesh)
    mesh.number = mesh.in_force = publish(AFTER, mesh.world.kafka)
    mesh.lineage = first_lineage(AFTER)
    if are_restarted:
        start_over(mesh)
    for topology in (BEFORE, AFTER):
        mesh.change_to(topology, "ab")
    assert newest_come(mesh)
    mesh.assert_exact()
