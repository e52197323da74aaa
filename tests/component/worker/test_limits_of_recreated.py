"""What is known of how much waits in an endpoint says nothing of another topic of its name. R14."""

from __future__ import annotations

import pytest

from mesh.model.words import EndpointWord
from mesh.transport.port import Passed, TopicPartition
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.limited import (
    AT,
    FULL,
    LIMIT,
    SIZE,
    limited,
    publish,
    pushed_out,
    read_all,
    there,
)


def statuses(mesh: SmallMesh) -> list[str]:
    machine = mesh.world.workers["c"].machine
    assert machine is not None
    return [one.state for one in machine.learner.faults.endpoints.values()]


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("when_full", ["stop", "dead-letter"])
def test_what_was_written_to_the_former_one_does_not_wait(
    when_full: str, *, is_at_once: bool
) -> None:
    """It was counted since the lane was taken, read or not."""
    mesh = limited(when_full, bytes=LIMIT)
    publish(mesh, 0, 8)
    read_all(mesh)
    mesh.run(10_000)
    if is_at_once:
        mesh.kafka.recreate(FULL)
    else:
        mesh.kafka.delete_topic(FULL)  # its node makes it for the next message
    publish(mesh, 8, 12)
    mesh.run(10_000)
    assert EndpointWord.FULL not in statuses(mesh)
    assert pushed_out(mesh) == []
    assert there(mesh, FULL) == [8, 9, 10, 11]
    publish(mesh, 12, 60)  # what waits there counts
    mesh.run(10_000)
    assert len(there(mesh, FULL)) < 40
    assert bool(pushed_out(mesh)) is (when_full == "dead-letter")


@pytest.mark.parametrize("when_full", ["stop", "dead-letter"])
def test_what_a_log_has_lost_does_not_wait(when_full: str) -> None:
    """Nor does what had been read before."""
    mesh = limited(when_full, bytes=LIMIT)
    for number in range(0, 24, 4):
        publish(mesh, number, number + 4)
        read_all(mesh)
        mesh.run(5_000)
    publish(mesh, 24, 30)
    mesh.kafka.truncate(AT, 4)
    mesh.run(10_000)
    assert EndpointWord.FULL not in statuses(mesh)
    assert pushed_out(mesh) == []
    assert there(mesh, FULL) == list(range(26))


def test_nothing_goes_by_offsets_of_the_former_one() -> None:
    """It was recreated after a look had found it too full, and before the oldest went."""
    mesh = limited("dead-letter", bytes=LIMIT)
    publish(mesh, 0, 10)
    for number in range(10, 20):
        mesh.write("mesh.a.in.g", b"%04d" % number + b"x" * SIZE, headers=[subject("x")])
    assert mesh.world.run_until(lambda: displacing_begins(mesh), 10_000)
    mesh.kafka.recreate(FULL)
    for number in range(100, 140):
        mesh.write(FULL, b"%04d" % number)
    mesh.run(30_000)
    assert pushed_out(mesh) == []
    assert there(mesh, FULL) == list(range(100, 140))


def displacing_begins(mesh: SmallMesh) -> bool:
    lanes = mesh.world.workers["c"].lanes
    return lanes is not None and bool(lanes.overfull)


def test_nothing_is_older_than_its_topic() -> None:
    """The new one has outgrown the former before anybody looked where it ends."""
    mesh = limited("dead-letter", age="20s")
    publish(mesh, 0, 5)
    mesh.run(14_000)
    mesh.kafka.recreate(FULL)
    for number in range(100, 120):
        mesh.write(FULL, b"%04d" % number)
    mesh.run(10_000)
    assert pushed_out(mesh) == []
    mesh.run(20_000)
    assert pushed_out(mesh) == list(range(100, 120))
    assert AT.topic == FULL


@pytest.mark.parametrize("is_queue", [False, True])
def test_what_came_where_a_log_lost_its_end_is_given_up_by_letters_alone(*, is_queue: bool) -> None:
    """A group had passed what stood there before, and is away. Spec: R6, R14."""
    limits = [{"endpoint": "q", "age": "15s", "whenFull": "dead-letter"}]
    mesh = SmallMesh({**CHAIN, "limits": limits})
    topic = mesh.names.endpoint("c", "q")
    mesh.subscribe("c", "q", ">", b'{"kind": "queue"}' if is_queue else b"{}")
    mesh.run()
    publish(mesh, 0, 6)
    at = TopicPartition(topic, 0)
    end = mesh.kafka.admin().stable_ends([at])[at]
    group = topic if is_queue else "slow"
    mesh.kafka.pass_on(group, {at: Passed(end, leader_epoch=mesh.read(topic)[-1].leader_epoch())})
    mesh.kafka.truncate(at, 4)
    publish(mesh, 6, 12)
    mesh.run(30_000)
    assert pushed_out(mesh) == list(range(6, 12))
