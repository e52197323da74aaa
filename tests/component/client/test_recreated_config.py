"""A client goes by what `mesh.config` says now, also where it is another topic. Spec: R14, K28."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.client import MeshClient, PausedError
from mesh.client.recent import SAME_MS
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Pause
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_pause
from mesh.wire.keys import SubjectPauseKey, subject_pause_key
from tests.component.in_memory_mesh import CHAIN, Mesh


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    mesh = Mesh(topology_from_mapping(CHAIN))
    yield mesh
    mesh.close()


def pause(mesh: Mesh, *filters: str) -> None:
    """Have operators pause subjects at a."""
    for filter_ in filters:
        key = subject_pause_key(SubjectPauseKey("a", filter_))
        write_config(mesh.world.kafka["left"], mesh.topology.prefix, key, encode_pause(Pause()))


def paused(client: MeshClient, *subjects: str) -> list[str]:
    """Return the subjects of which a client may not publish."""
    found = []
    for subject in subjects:
        try:
            client.publish(subject, b"")
        except PausedError:
            found.append(subject)
    return found


@pytest.mark.parametrize("backup", [[], ["y"], ["y", "z/1", "z/2", "z/3"]])
def test_what_a_restored_backup_does_not_pause_is_published(mesh: Mesh, backup: list[str]) -> None:
    """The backup may be shorter than what was read, or longer: then only its id tells."""
    pause(mesh, "x", "z/1")
    client = mesh.client("a")
    assert paused(client, "x", "y", "z/1") == ["x", "z/1"]
    mesh.world.kafka["left"].recreate("mesh.config")
    pause(mesh, *backup)
    mesh.pause(SAME_MS / 1000 + 1)
    assert paused(client, "x", "y", "z/1", "z/3") == [one for one in backup if one != "z/2"]


def test_what_was_paused_stays_so_while_there_is_no_such_topic(mesh: Mesh) -> None:
    pause(mesh, "x")
    client = mesh.client("a")
    assert paused(client, "x") == ["x"]
    mesh.world.kafka["left"].delete_topic("mesh.config")
    mesh.pause(SAME_MS / 1000 + 1)
    assert paused(client, "x") == ["x"]
