"""`mesh node forget`: what is kept of former neighbours ends where a node cannot see it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from tests.component.cli.conftest import Chain, Run, chain_of
from tests.component.in_memory_mesh import Mesh, put_in_force

OUTBOXES = ("mesh.b.to.a.g", "mesh.b.to.a.d")

SPEC: Mapping[str, object] = {
    "kafka": {"left": None, "right": None},
    "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "right"}, "c": {"kafka": "left"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chain]:
    """Node a, which took messages of b, and has started again since it has no link to it."""
    for mesh, file in chain_of(SPEC, monkeypatch, tmp_path):
        put_in_force(1, mesh.topology, mesh.world.kafka)
        mesh.subscribe("a", "e", ">")
        for _ in range(5):
            mesh.publish("b", "x")
        mesh.pause(3)
        zones = {"Z": {"kind": "multi-hop", "links": [["a", "c"]]}}
        after = topology_from_mapping({**SPEC, "zones": zones})
        mesh.change(after)
        mesh.world.kill("a")
        mesh.world.topology = after  # as a file that was updated
        mesh.world.start("a")
        mesh.pause(15)
        yield mesh, file


def delete_outboxes(mesh: Mesh) -> None:
    for topic in OUTBOXES:
        mesh.world.kafka["right"].delete_topic(topic)


def kept(mesh: Mesh) -> int:
    """Return how many records of a's progress name an outbox of b."""
    newest: dict[bytes, bytes | None] = {}
    for log in mesh.world.kafka["left"].topics["mesh.a.progress"].logs:
        newest |= {one.key() or b"": one.value() for one in log.entries if one is not None}
    return len([key for key, value in newest.items() if value and b"mesh.b.to.a" in key])


def test_a_deleted_neighbour_is_forgotten_on_command(run: Run, left: Chain) -> None:
    """No worker of a reads its Kafka cluster any more, so none finds out by itself."""
    mesh, file = left
    delete_outboxes(mesh)
    mesh.pause(70)
    assert kept(mesh) > 0
    shown = run("node", "forget", "a", "-f", file, "-o", "json")
    [one] = shown.data["former"]
    assert (one["former"], one["kafka"], one["records"]) == ("b", "right", kept(mesh))
    done = run("node", "forget", "a", "b", "-f", file, "-o", "json")
    assert (done.code, done.data["state"]) == (0, "forgotten"), done.err
    assert kept(mesh) == 0
    assert "keeps nothing" in run("node", "forget", "a", "-f", file).out


def test_it_is_forgotten_whoever_takes_the_lane_meanwhile(run: Run, left: Chain) -> None:
    mesh, file = left
    delete_outboxes(mesh)
    mesh.world.kill("a")
    late = run("node", "forget", "a", "b", "--wait", "1", "-f", file)
    assert (late.code, kept(mesh) > 0) == (10, True)
    mesh.world.start("a")
    mesh.pause(15)
    assert kept(mesh) > 0, "the consent ends with the command"
    assert run("node", "forget", "a", "b", "-f", file).code == 0
    assert kept(mesh) == 0


def test_one_that_may_come_back_is_kept(run: Run, left: Chain) -> None:
    """What is in its outboxes still would come twice."""
    mesh, file = left
    ended = run("node", "forget", "a", "b", "--deleted", "-f", file)
    assert (ended.code, "delete them first" in ended.err) == (2, True)
    mesh.world.kafka["right"].available = False
    ended = run("node", "forget", "a", "b", "-f", file)
    assert (ended.code, "give --deleted if they are" in ended.err) == (2, True)
    assert kept(mesh) > 0
    assert run("node", "forget", "a", "b", "--deleted", "-f", file).code == 0
    assert kept(mesh) == 0


def test_wrong_names_are_told(run: Run, left: Chain) -> None:
    _, file = left
    assert "has a link to c" in run("node", "forget", "a", "c", "-f", file).err
    assert "did you mean b?" in run("node", "forget", "a", "bb", "-f", file).err
    assert "did you mean" in run("node", "forget", "aa", "-f", file).err
