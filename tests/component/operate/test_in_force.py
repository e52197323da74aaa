"""The topology in force is a numbered record in every Kafka cluster; the highest number wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.client.in_force import publish, read_in_force, read_records
from mesh.codec.control import encode_config
from mesh.codec.keys import config_key
from mesh.config.published import published_text
from mesh.errors import ProtocolError, TransportUnavailableError
from mesh.model.topology import Topology, with_addresses
from mesh.runtime.topics.provision import config_topic
from tests.component.in_memory_mesh import Mesh


def in_force(mesh: Mesh) -> tuple[int, Topology] | None:
    found, _ = read_in_force(mesh.world.kafka, mesh.topology.prefix)
    return None if found is None else (found.number, found.topology)


def test_it_is_written_everywhere_and_read_back(mesh: Mesh) -> None:
    """Spec: kafka.md 1."""
    assert in_force(mesh) is None
    assert publish(mesh.topology, mesh.world.kafka) == 1
    records = read_records(mesh.world.kafka, "mesh.")
    assert records.found == dict.fromkeys(["left", "right"], (1, published_text(mesh.topology)))
    assert in_force(mesh) == (1, mesh.topology)


def test_starting_the_same_mesh_again_changes_nothing(mesh: Mesh) -> None:
    for _ in range(2):
        assert publish(mesh.topology, mesh.world.kafka) == 1
    log = mesh.world.kafka["left"].topics["mesh.config"].logs[0]
    assert len([entry for entry in log.entries if entry is not None]) == 1
    other = replace(mesh.topology, keep_s=7.0)
    assert publish(other, mesh.world.kafka) == 2
    assert in_force(mesh) == (2, other)
    assert publish(mesh.topology, mesh.world.kafka) == 3


def test_the_highest_number_wins_and_what_lacks_it_is_given_it(mesh: Mesh) -> None:
    """A writer that died between two Kafka clusters. Spec: kafka.md 1."""
    publish(mesh.topology, mesh.world.kafka)
    other = replace(mesh.topology, keep_s=7.0)
    writer = mesh.world.kafka["right"].writer("operator")
    writer.produce("mesh.config", encode_config(2, published_text(other)), config_key(), 0)
    assert in_force(mesh) == (2, other)
    assert publish(other, mesh.world.kafka) == 2
    assert {number for number, _ in read_records(mesh.world.kafka, "mesh.").found.values()} == {2}


def test_other_records_of_operators_are_passed_over(mesh: Mesh) -> None:
    writer = mesh.world.kafka["left"].writer("operator")
    writer.produce("mesh.config", b"x", b"pause a b *", 0)
    assert in_force(mesh) is None


def test_a_newer_record_is_refused_not_guessed(mesh: Mesh) -> None:
    writer = mesh.world.kafka["left"].writer("operator")
    writer.produce("mesh.config", b"\xff\xff", config_key(), 0)
    with pytest.raises(ProtocolError):
        in_force(mesh)


def test_kafka_clusters_that_do_not_answer_are_named(mesh: Mesh) -> None:
    publish(mesh.topology, mesh.world.kafka)
    mesh.world.kafka["left"].available = False
    found, records = read_in_force(mesh.world.kafka, "mesh.")
    assert found is not None
    assert found.topology == mesh.topology
    assert list(records.silent) == ["left"]
    with pytest.raises(TransportUnavailableError):
        publish(mesh.topology, mesh.world.kafka)
    mesh.world.kafka["right"].available = False
    with pytest.raises(TransportUnavailableError):
        read_in_force(mesh.world.kafka, "mesh.")


def test_addresses_of_one_run_are_no_part_of_it(mesh: Mesh) -> None:
    """Who reaches embedded Kafka at other ports reads the same topology."""
    publish(mesh.topology, mesh.world.kafka)
    addressed = with_addresses(mesh.topology, {"left": "h:1"})
    assert in_force(mesh) != (1, addressed)
    assert config_topic(addressed) == config_topic(mesh.topology)
