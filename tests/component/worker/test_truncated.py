"""Logs that lost their end, whose announcement vanishes too: offsets come again, positions do not.

Spec: K10, K11, R6.
"""

from __future__ import annotations

import pytest

from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.stops import accept, announcements, stops
from tests.component.worker.test_losses_that_meet import values

FIRST, SECOND, INGRESS = "mesh.a.to.b.g", "mesh.b.to.c.g", "mesh.a.in.g"


def publish(mesh: SmallMesh, *numbers: int) -> None:
    for number in numbers:
        mesh.publish(b"%d" % number, [subject("x")])
        mesh.run(500)  # a frame each


def end(mesh: SmallMesh, topic: str) -> int:
    return mesh.kafka.topics[topic].logs[0].end


def vanish(mesh: SmallMesh, topic: str, kept: int) -> None:
    """Have an outbox lose what stands behind an offset."""
    while end(mesh, topic) > kept:
        mesh.kafka.truncate(TopicPartition(topic, 0), 1)


def cut_off(mesh: SmallMesh, node: str, topic: str, records: int) -> None:
    """Have a log lose its newest records, and an operator accept that."""
    mesh.kafka.truncate(TopicPartition(topic, 0), records)
    mesh.run(6_000)
    [stop] = stops(mesh, node).values()
    accept(mesh, node, stop)


def lost(mesh: SmallMesh) -> list[tuple[int, int, int]]:
    """Return (generation, first, last) of what the endpoint is told to be lost of the ingress."""
    told = announcements(mesh)
    return [(one["generation"], one["first"], one["last"]) for one in told]


@pytest.mark.parametrize("restarted", ["", "a", "b"])
def test_what_was_published_under_offsets_that_came_again_is_asked_for(
    mesh: SmallMesh, restarted: str
) -> None:
    """The announcement of the loss vanishes before b has read it, with what stands behind it.

    Who repairs, or asks for it, may have taken the lane since. Spec: K12.
    """
    publish(mesh, 0, 1, 2, 3)
    mesh.run()
    mesh.world.cut("b", ["a"])
    read = end(mesh, FIRST)
    cut_off(mesh, "a", INGRESS, 2)
    publish(mesh, 4, 5)
    vanish(mesh, FIRST, read)
    if restarted:
        mesh.world.kill(restarted)
        mesh.world.start(restarted)
    mesh.world.cut("b", [])
    mesh.run(3_000)
    publish(mesh, 6)
    mesh.run(30_000)
    assert values(mesh) == [0, 1, 2, 3, None, 4, 5, 6]
    assert lost(mesh) == [(0, 2, 3)]


def test_so_is_what_was_not_sent_before_the_loss(mesh: SmallMesh) -> None:
    """Of both generations something is missing, the announcement between them, and the next one."""
    publish(mesh, 0)
    mesh.run()
    mesh.world.cut("b", ["a"])
    read = end(mesh, FIRST)
    publish(mesh, 1, 2, 3)
    cut_off(mesh, "a", INGRESS, 1)
    publish(mesh, 4, 5)
    cut_off(mesh, "a", INGRESS, 1)
    publish(mesh, 6)
    vanish(mesh, FIRST, read)
    mesh.world.cut("b", [])
    mesh.run(3_000)
    publish(mesh, 7)
    mesh.run(30_000)
    assert values(mesh) == [0, 1, 2, None, 4, None, 6, 7]
    assert lost(mesh) == [(0, 3, 3), (1, 4, 4)]


def test_an_outbox_that_lost_its_end_is_a_source_like_any_other(mesh: SmallMesh) -> None:
    """What b was sent under offsets that came again reaches c, though b's word of it vanishes."""
    publish(mesh, 0, 1, 2, 3)
    mesh.run()
    mesh.world.cut("c", ["b"])
    read = end(mesh, SECOND)
    cut_off(mesh, "b", FIRST, 2)
    publish(mesh, 4, 5)
    mesh.run(10_000)
    vanish(mesh, SECOND, read)
    mesh.world.cut("c", [])
    mesh.run(3_000)
    publish(mesh, 6)
    mesh.run(30_000)
    assert [one for one in values(mesh) if one is not None] == [0, 1, 2, 3, 4, 5, 6]
