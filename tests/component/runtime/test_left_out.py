"""A control topic that refuses stops what is told by it, and nothing else. Spec: K23, K24."""

from __future__ import annotations

import pytest

from tests.component.runtime.conftest import SmallMesh, subject

LINK = "mesh.b.to.a.c"


def begun(mesh: SmallMesh, ms: int) -> int:
    """Return how many transactions begin in so long."""
    before = mesh.kafka._transactions_begun
    mesh.run(ms)
    return mesh.kafka._transactions_begun - before


def test_a_link_whose_control_topic_refuses_keeps_nothing_from_the_others(mesh: SmallMesh) -> None:
    """The leader goes on without it: what b wants is known to c, and b is heard there."""
    usual = begun(mesh, 30_000)
    mesh.kafka.denied[LINK] = "no right"
    mesh.run(5_000)
    mesh.subscribe("b", "late", "q")
    mesh.run(20_000)
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.b.ep.late")] == [b"1"]
    assert begun(mesh, 30_000) < 1.2 * usual  # it is tried seldom


def test_what_was_left_out_is_told_once_its_topic_takes_records(mesh: SmallMesh) -> None:
    """What a wants meanwhile is acknowledged then: it knows that b has heard of it. Spec: K24."""
    mesh.kafka.denied[LINK] = "no right"
    mesh.run(5_000)
    mesh.subscribe("a", "early", "q")
    mesh.run(10_000)
    heard = mesh.world.workers["a"]._listener.link_states
    before = heard["b"].beat
    mesh.run(5_000)
    assert heard["b"].beat == before
    del mesh.kafka.denied[LINK]
    mesh.run(30_000)
    assert heard["b"].beat > before
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.a.ep.early")] == [b"1"]


@pytest.mark.parametrize("topic", ["mesh.a.control", "mesh.a.control.log", "mesh.a.learned"])
def test_a_leader_that_can_write_nothing_rests_between_its_tries(
    mesh: SmallMesh, topic: str
) -> None:
    usual = begun(mesh, 30_000)
    mesh.kafka.denied[topic] = "no right"
    mesh.run(5_000)
    mesh.subscribe("a", "early", "q")
    assert begun(mesh, 30_000) < usual + 2 * 30_000 // 500
    del mesh.kafka.denied[topic]
    mesh.run(5_000)
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.a.ep.early")] == [b"1"]
