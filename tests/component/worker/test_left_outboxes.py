"""What a lane keeps of a former neighbour ends with that neighbour's topics. Spec: K12."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.worker.conftest import CHAIN

OUTBOXES = ("mesh.a.to.b.g", "mesh.a.to.b.d")


def _kept(mesh: Mesh) -> set[bytes]:
    """Return the first words of the keys under which b keeps something of a's outboxes."""
    newest: dict[bytes, bytes | None] = {}
    for log in mesh.world.kafka["k"].topics["mesh.b.progress"].logs:
        newest |= {one.key() or b"": one.value() for one in log.entries if one is not None}
    kept = [key.split() for key, value in newest.items() if value is not None]
    return {words[0] for words in kept if len(words) > 1 and words[1].decode() in OUTBOXES}


def _left(*, direct: bool = False) -> Mesh:
    """Return a mesh whose node b has taken messages of a, and has no link to it any more."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "s", ">")
    for _ in range(5):
        mesh.publish("a", "x", b"1")
        if direct:
            mesh.client("a").publish("x", b"2", message_class=MessageClass.DIRECT)
    mesh.client("a").flush()
    mesh.pause(3)
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "c"], ["b", "c"]]}}
    mesh.change(topology_from_mapping({**CHAIN, "zones": zones}))
    return mesh


@pytest.mark.parametrize("may_look", [True, False])
def test_it_ends_once_they_are_deleted(*, may_look: bool) -> None:
    """Names of nodes come and go; who may not see whether a topic is there keeps all of it."""
    mesh = _left()
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.pause(65)
    assert {b"source", b"accepted"} <= _kept(mesh), "the link may come back"
    kafka = mesh.world.kafka["k"]
    kafka.hidden |= set() if may_look else set(OUTBOXES)
    for topic in OUTBOXES:
        kafka.delete_topic(topic)
    mesh.pause(65)
    assert bool(_kept(mesh)) != may_look
    mesh.close()


@pytest.mark.parametrize("order", [OUTBOXES, OUTBOXES[::-1]])
def test_both_end_whichever_is_deleted_first(order: tuple[str, str]) -> None:
    """One of direct messages is looked for beside the other; alone it would stay for ever."""
    mesh = _left(direct=True)
    mesh.pause(5)
    for topic in order:
        assert _kept(mesh)
        mesh.world.kafka["k"].delete_topic(topic)
        mesh.pause(65)
    assert _kept(mesh) == set()
    mesh.close()
