"""Frames say by which topology their messages were taken, also when they are made a second time."""

from __future__ import annotations

from dataclasses import replace

from mesh.codec.control import encode_change
from mesh.codec.frames import decode_header
from mesh.codec.keys import change_key
from mesh.config.published import published_text
from mesh.core.links import first_lineage, lineage_after
from mesh.model.control import Change, Stage
from mesh.model.frames import Era
from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

FIRST, SECOND = "mesh.a.to.b.g", "mesh.b.to.c.g"


def eras(mesh: SmallMesh, topic: str) -> list[tuple[Era, ...]]:
    return [decode_header(record.key() or b"").origin.eras for record in mesh.read(topic)]


def change(mesh: SmallMesh, number: int) -> None:
    """Put the same links in force under another number, past the stage in which nodes hold."""
    before = mesh.world.topology
    after = replace(before, keep_s=before.keep_s + number)
    lineage = lineage_after(first_lineage(before), before, after, number)
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        word = Change(number, stage, published_text(after), (), lineage)
        mesh.write(mesh.names.config(), encode_change(word), key=change_key())
        mesh.run(2_000)


def test_every_hop_says_by_which_topology_the_origin_worked(mesh: SmallMesh) -> None:
    """Spec: K10."""
    domain = first_lineage(mesh.world.topology).domain
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    change(mesh, 3)
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    expected = [(Era(domain, 0),), (Era(domain, 3),)]
    assert eras(mesh, FIRST) == eras(mesh, SECOND) == expected


def test_a_repair_stamps_what_was_stamped_before(mesh: SmallMesh) -> None:
    """Read again after a change, by another owner of the lane, a record keeps its era. K10, K20."""
    domain = first_lineage(mesh.world.topology).domain
    mesh.world.workers["b"].cut(["a"])
    mesh.run(300)
    for value in (b"0", b"1"):
        mesh.publish(value, [subject("x")])
        mesh.run(1_500)
    mesh.kafka.truncate(TopicPartition(FIRST, 0), 1)
    change(mesh, 3)
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(3_000)
    mesh.world.workers["b"].cut([])
    mesh.run(2_000)
    mesh.publish(b"2", [subject("x")])
    mesh.run(20_000)
    assert [record.value() for record in mesh.delivered()] == [b"0", b"1", b"2"]
    [first, *_] = [
        header.origin
        for record in mesh.read(FIRST)
        if (header := decode_header(record.key() or b"")).flags and header.origin.count
    ]
    assert (first.first, first.eras) == (1, (Era(domain, 0),))
