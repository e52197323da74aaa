"""Operators want what `mesh.config` says now, also where it is another topic. Spec: K28."""

from __future__ import annotations

import pytest

from mesh.model.control import Pause
from mesh.transport.port import TopicSpec
from mesh.view.disabling import ends_of, write_disabled
from mesh.wire.control import encode_pause
from mesh.wire.keys import SubjectPauseKey, subject_pause_key
from mesh.worker.topics.own_topics import LOOK_MS
from tests.component.worker.conftest import SmallMesh, subject


def pause(mesh: SmallMesh, *filters: str) -> None:
    """Have operators pause subjects at a."""
    for filter_ in filters:
        key = subject_pause_key(SubjectPauseKey("a", filter_))
        mesh.write(mesh.names.config(), encode_pause(Pause()), key=key)


def publish(mesh: SmallMesh, *addresses: str) -> None:
    """Publish a message for each, with itself as payload, in partitions of their own."""
    for partition, address in enumerate(addresses):
        mesh.publish(address.encode(), [subject(address)], partition=partition)
    mesh.run()


def delivered(mesh: SmallMesh) -> set[bytes | None]:
    return {record.value() for record in mesh.delivered()}


@pytest.mark.parametrize("backup", [[], ["y"], ["y", "z/1", "z/2", "z/3"]])
def test_who_runs_on_wants_what_a_restored_backup_says(mesh: SmallMesh, backup: list[str]) -> None:
    """As who starts by it: else workers of one node part, and `mesh status` tells of no pause.

    The backup may be shorter than what was read, or longer: then only its id tells that it is one.
    """
    pause(mesh, "x", "z/1")
    publish(mesh, "x", "y")
    assert delivered(mesh) == {b"y"}
    mesh.kafka.recreate(mesh.names.config())
    pause(mesh, *backup)
    mesh.run(2 * LOOK_MS)
    publish(mesh, "v", "w", "y")
    expected = {b"x", b"y", b"v", b"w"}
    assert delivered(mesh) == expected
    assert [one.value() for one in mesh.delivered()].count(b"y") == (1 if backup else 2)


def test_a_link_that_the_backup_does_not_disable_is_enabled(mesh: SmallMesh) -> None:
    topology, kafka = mesh.world.topology, mesh.world.kafka
    assert write_disabled(topology, kafka, ends_of("a", "b"), Pause(), {}) == {}
    mesh.run()
    publish(mesh, "x")
    assert delivered(mesh) == set()
    mesh.kafka.recreate(mesh.names.config())
    mesh.run(2 * LOOK_MS)
    assert delivered(mesh) == {b"x"}


def test_what_was_paused_stays_so_while_there_is_no_such_topic(mesh: SmallMesh) -> None:
    """Somebody who restores it deletes it first: meanwhile it says nothing."""
    pause(mesh, "v", "w", "x")
    publish(mesh, "x")
    config = mesh.names.config()
    former = mesh.kafka.topics[config]
    mesh.kafka.delete_topic(config)
    mesh.run(2 * LOOK_MS)
    assert delivered(mesh) == set()
    mesh.kafka.create_topic(TopicSpec(name=config, partitions=1, settings=former.settings))
    pause(mesh, "v", "w", "x")
    mesh.run(2 * LOOK_MS)
    assert delivered(mesh) == set()
