"""What a node says once, and a stranger has written over, is said again: others go by it later.

Compaction leaves nothing of what was written over. Spec: K4, K16, K23, R9, R12.
"""

from __future__ import annotations

import pytest

from mesh.node.neighbour import Neighbour
from mesh.wire.keys import identity_key
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said

TWO_LANES = {**CHAIN, "nodes": {"a": {"lanes": 2, "partitions": 2}, "b": {}, "c": {}}}
IDENTITY, LINKS, SUBSCRIBED = identity_key(), b"links ", b"subscribed"


def write_over(mesh: SmallMesh, node: str, begin: bytes, value: bytes | None) -> None:
    """Have a stranger write over all that a node says under keys that begin so."""
    topic = mesh.names.control(node)
    for key in {record.key(): None for record in mesh.read(topic)}:
        if key.startswith(begin):
            mesh.write(topic, value, key=key)


@pytest.mark.parametrize("value", [None, b"garbage"], ids=["tombstone", "garbage"])
@pytest.mark.parametrize("begin", [IDENTITY, LINKS], ids=["identity", "links"])
def test_a_worker_that_starts_learns_who_its_node_is(begin: bytes, value: bytes | None) -> None:
    """Else it would serve nothing, and nobody would serve the lane that it was given. K14."""
    mesh = SmallMesh(TWO_LANES)
    mesh.world.start("a", 1)
    mesh.run(15_000)
    write_over(mesh, "a", begin, value)
    mesh.run(5_000)
    mesh.kafka.compact(mesh.names.control("a"))
    mesh.world.kill("a", 1)
    mesh.run(1_000)
    mesh.world.start("a", 1)
    mesh.run(15_000)
    mate = mesh.world.workers["a#1"]
    assert mate.given == {1}
    assert mate.is_ready
    mesh.publish(b"1", [subject("x")], partition=1)
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]


@pytest.mark.parametrize("begin", [b"advert ", LINKS], ids=["offers", "links"])
def test_what_was_written_over_while_nobody_led_is_said_again(begin: bytes) -> None:
    """The next leader finds the good record before the other one; compaction does not leave it."""
    mesh = SmallMesh()
    mesh.world.kill("c")
    write_over(mesh, "c", begin, b"garbage")
    said = len(mesh.read(mesh.names.control("c")))
    mesh.world.start("c")
    mesh.run(10_000)
    again = mesh.read(mesh.names.control("c"))[said:]
    assert [one for one in again if one.key().startswith(begin) and one.value() != b"garbage"]
    mesh.kafka.compact(mesh.names.control("c"))
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run(10_000)
    assert _of_c(mesh).is_proven
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"1"]


def _of_c(mesh: SmallMesh) -> Neighbour:
    machine = mesh.world.workers["b"].machine
    assert machine is not None
    return machine.learner.neighbours["c"]


def test_how_far_subscriptions_are_known_stands_where_clients_look(
    said: Said, mesh: SmallMesh
) -> None:
    """A client that starts later waits for that alone. Spec: K24."""
    before = _newest(mesh, SUBSCRIBED)
    for value in (None, b"garbage"):
        write_over(mesh, "c", SUBSCRIBED, value)
        mesh.run(1_000)
        assert _newest(mesh, SUBSCRIBED) == value  # it might be the leader's own, read late
        mesh.run(6_000)
        assert _newest(mesh, SUBSCRIBED) == before
    told = {"log_level": "warning", "what": "subscribed", "text": "written again"}
    assert said.of("control.foreign") == [told] * 2


def _newest(mesh: SmallMesh, key: bytes) -> bytes | None:
    records = mesh.read(mesh.names.control("c"))
    return [record.value() for record in records if record.key() == key][-1]
