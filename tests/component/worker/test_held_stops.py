"""A source that stops while a target is held: the target misses nothing in silence. R6, K20."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.held import is_held, refuse
from tests.component.worker.stops import INGRESS, accept, announcements, stops

OUTBOX = "mesh.a.to.b.g"


def publish(mesh: SmallMesh, *numbers: int) -> None:
    for number in numbers:
        mesh.publish(b"%d" % number, [subject("x")], partition=0)


def values(mesh: SmallMesh, topic: str) -> list[int | None]:
    found = [record.value() for record in mesh.read(topic)]
    return [None if value is None else int(value) for value in found]


@pytest.fixture
def held(mesh: SmallMesh) -> SmallMesh:
    """The outbox of a to b lacks 2, 3 and 4, which the endpoint `a/t` has."""
    mesh.subscribe("a", "t", ">")
    mesh.run()
    publish(mesh, 0, 1)
    mesh.run()
    refuse(mesh, OUTBOX, is_refusing=True)
    publish(mesh, 2, 3, 4)
    mesh.run(10_000)
    assert is_held(mesh, "a", OUTBOX)
    mesh.world.kill("a")
    return mesh


def go_on(mesh: SmallMesh) -> list[tuple[int, int | None]]:
    """Accept the loss, then have the outbox take records again; return what was announced."""
    mesh.world.start("a")
    mesh.run(10_000)
    [stop] = stops(mesh, "a").values()
    accept(mesh, "a", stop)
    publish(mesh, 8)
    mesh.run(5_000)
    assert list(stops(mesh, "a").values()) == [stop]  # who is left out could not be told
    refuse(mesh, OUTBOX, is_refusing=False)
    mesh.run(40_000)
    assert (stops(mesh, "a"), is_held(mesh, "a", OUTBOX)) == ({}, False)
    publish(mesh, 9)
    mesh.run(5_000)
    return [(one["first"], one["last"]) for one in announcements(mesh)]


def test_what_a_truncated_log_still_has_comes(held: SmallMesh) -> None:
    """Offset 4 is lost and given out again: both is told before the new one comes."""
    held.kafka.truncate(TopicPartition(INGRESS, 0), 1)
    assert go_on(held) == [(4, 4)]
    assert values(held, "mesh.c.ep.s") == [0, 1, 2, 3, None, 8, 9]
    assert values(held, "mesh.a.ep.t") == [0, 1, 2, 3, 4, None, 8, 9]


def test_what_is_deleted_is_told_to_each_as_far_as_it_lacks_it(held: SmallMesh) -> None:
    publish(held, 5, 6, 7)
    held.kafka.admin().delete_before({TopicPartition(INGRESS, 0): 7})
    assert go_on(held) == [(2, 4), (5, 6)]
    assert values(held, "mesh.c.ep.s") == [0, 1, None, None, 7, 8, 9]
    assert values(held, "mesh.a.ep.t") == [0, 1, 2, 3, 4, None, 7, 8, 9]


def test_what_was_in_a_topic_that_is_recreated_is_told(held: SmallMesh) -> None:
    held.kafka.recreate(INGRESS)
    assert go_on(held) == [(2, 4), (5, None)]
    assert values(held, "mesh.c.ep.s") == [0, 1, None, None, 8, 9]
    assert values(held, "mesh.a.ep.t") == [0, 1, 2, 3, 4, None, 8, 9]


def test_what_comes_where_a_frame_stood_that_nobody_could_read(mesh: SmallMesh) -> None:
    """A log that was cut off gives its offset out again. Spec: K20, R6."""
    onward = mesh.names.outbox("b", "c", MessageClass.GUARANTEED)
    publish(mesh, 0)
    mesh.run()
    mesh.write(OUTBOX, b"of a stranger", key=b"?")
    mesh.run()
    mesh.kafka.truncate(TopicPartition(OUTBOX, 0), 1)
    mesh.run()
    [stop] = stops(mesh, "b").values()
    accept(mesh, "b", stop)
    refuse(mesh, onward, is_refusing=True)
    publish(mesh, 1, 2)
    mesh.run(10_000)
    refuse(mesh, onward, is_refusing=False)
    mesh.run(40_000)
    publish(mesh, 3)
    mesh.run(5_000)
    assert [one for one in values(mesh, "mesh.c.ep.s") if one is not None] == [0, 1, 2, 3]
    assert not is_held(mesh, "b", onward)
