"""One partition without a leader, or one topic that may not be described, is one: who starts beside
it hears all others, reads all others, and is heard.

Spec: DESIGN 4.6, K21, K23.
"""

from __future__ import annotations

import pytest

from mesh.errors import TransportError
from mesh.model.frames import MessageClass
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition, TopicSpec
from tests.component.worker.conftest import CHAIN, SmallMesh, subject


def without_leader(mesh: SmallMesh, topic: str, partition: int = 0) -> None:
    mesh.kafka.leaderless.add(TopicPartition(topic, partition))
    mesh.kafka.changes += 1


def restart(mesh: SmallMesh, node: str = "b") -> None:
    mesh.world.kill(node)
    mesh.world.start(node)
    mesh.run(12_000)  # less than a node waits for a silent neighbour


def delivered(mesh: SmallMesh) -> list[bytes | None]:
    return sorted(filter(None, (one.value() for one in mesh.delivered())))


@pytest.mark.parametrize("what", ["no leader", "not described"])
@pytest.mark.parametrize("topic", ["mesh.a.to.b.c", "mesh.a.control", "mesh.b.to.a.c"])
def test_who_starts_beside_a_control_topic_that_is_away_hears_the_others(
    mesh: SmallMesh, topic: str, what: str
) -> None:
    """What c wants is known to b at once, though a cannot be heard there."""
    mesh.subscribe("c", "s", ">", None)  # which would attract all there is
    mesh.run()
    if what == "no leader":
        without_leader(mesh, topic)
    else:
        mesh.kafka.hidden.add(topic)
    restart(mesh)
    mesh.subscribe("c", "late", "q")
    mesh.run(6_000)
    mesh.write("mesh.b.in.g", b"1", headers=[subject("q")])
    mesh.run(6_000)
    assert [one.value() for one in mesh.read("mesh.c.ep.late")] == [b"1"]
    mesh.kafka.leaderless.clear()
    mesh.kafka.hidden.clear()
    mesh.kafka.changes += 1
    mesh.run(40_000)
    mesh.publish(b"2", [subject("q")])
    mesh.run(6_000)
    assert [one.value() for one in mesh.read("mesh.c.ep.late")] == [b"1", b"2"]


@pytest.mark.parametrize("source", ["mesh.a.to.b.g", "mesh.a.in.g"])
def test_who_takes_a_lane_reads_what_has_a_leader(mesh: SmallMesh, source: str) -> None:
    """The other partitions of the same topic too; the rest comes when there is a leader."""
    reader = "b" if source.endswith("to.b.g") else "a"
    mesh.world.kill(reader)
    for partition in range(4):
        mesh.publish(b"%d" % partition, [subject("x")], partition=partition)
    mesh.run(2_000)
    without_leader(mesh, source, 1)
    mesh.world.start(reader)
    mesh.run(12_000)
    assert delivered(mesh) == [b"0", b"2", b"3"]
    mesh.kafka.leaderless.clear()
    mesh.kafka.changes += 1
    mesh.run(20_000)
    assert delivered(mesh) == [b"0", b"1", b"2", b"3"]


def test_what_was_passed_is_deleted_beside_a_partition_without_a_leader() -> None:
    """Else one such partition would fill the disks of all other topics."""
    mesh = SmallMesh({**CHAIN, "keep": "60s"})
    ingress = mesh.names.ingress("a", MessageClass.GUARANTEED)
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    without_leader(mesh, mesh.names.ingress("a", MessageClass.GUARANTEED), 1)
    keep_ms = int(mesh.world.topology.keep_s * 1000)
    mesh.run(keep_ms + 130_000)
    assert mesh.kafka.topics[ingress].logs[0].start > 0


def test_brokers_that_tell_of_some_say_so() -> None:
    """As real ones do: of each partition its leader is asked."""
    kafka = MemoryKafka("k")
    admin = kafka.admin()
    admin.create([TopicSpec(name="x", partitions=2, settings={})])
    kafka.leaderless.add(TopicPartition("x", 1))
    with pytest.raises(TransportError, match="no leader") as raised:
        admin.ends([TopicPartition("x", 0), TopicPartition("x", 1)])
    assert raised.value.answers_to(admin.ends) == {TopicPartition("x", 0): 0}
