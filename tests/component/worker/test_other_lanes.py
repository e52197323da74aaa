"""A node keeps the lanes that it was made with: what each stands at is kept by its number. K14."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import StartError
from tests.component.worker.conftest import CHAIN, SmallMesh, subject


def spec(lanes: int) -> dict[str, object]:
    return {**CHAIN, "nodes": {"a": {}, "b": {}, "c": {"lanes": lanes}}}


@pytest.mark.parametrize(("made", "other"), [(1, 2), (2, 1), (2, 4)])
def test_with_others_it_does_not_begin(made: int, other: int) -> None:
    """Some partitions would be read by nobody, others once more from where they begin."""
    mesh = SmallMesh(spec(made))
    for partition in range(4):
        mesh.publish(b"%d" % partition, [subject("x")], partition=partition)
    mesh.run()
    mesh.world.kill("c")
    mesh.world.adopt(topology_from_mapping(spec(other)))
    with pytest.raises(StartError, match=rf"cannot have {other} lanes?: .* write `lanes: {made}`"):
        mesh.world.start("c")
    mesh.world.adopt(topology_from_mapping(spec(made)))
    mesh.world.start("c")
    mesh.run()
    assert sorted(one.value() for one in mesh.delivered()) == [b"0", b"1", b"2", b"3"]


def test_a_partition_more_of_the_lanes_topic_is_no_lane() -> None:
    """Somebody added one to a node that runs. Spec: K14."""
    mesh = SmallMesh()
    mesh.kafka.grow("mesh.c.lanes", 2)
    mesh.run(20_000)
    mesh.world.kill("c")
    mesh.world.start("c")
    mesh.world.start("c", 1)
    mesh.run(20_000)
    workers = [mesh.world.workers[name] for name in ("c", "c#1")]
    assert sorted(number for worker in workers for number in worker.lanes.owned) == [0]
    assert all(worker.is_ready for worker in workers)
    mesh.publish(b"1", [subject("x")], partition=1)
    mesh.run()
    assert [one.value() for one in mesh.delivered()] == [b"1"]
