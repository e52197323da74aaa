"""The topology in force is a numbered record in every Kafka cluster; the highest number wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.core.lineage import first_lineage
from mesh.errors import ProtocolError, TransportUnavailableError
from mesh.model.control import Lineage, LinkNumbers
from mesh.model.topology import Topology, with_addresses
from mesh.operate.changes.founding import OtherInForceError, publish
from mesh.operate.changes.in_force import TopologyInForce, read_in_force, read_records
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.transport.node_topics import config_topic
from mesh.transport.port import KafkaCluster
from mesh.wire.control import Config, encode_config
from mesh.wire.keys import config_key
from tests.component.in_memory_mesh import Mesh


def in_force(mesh: Mesh) -> tuple[int, Topology] | None:
    found, _ = read_in_force(mesh.world.kafka, mesh.topology.prefix)
    return None if found is None else (found.number, found.topology)


def test_it_is_written_everywhere_and_read_back(mesh: Mesh) -> None:
    """Spec: kafka.md 1."""
    assert in_force(mesh) is None
    assert publish(mesh.topology, mesh.world.kafka) == 1
    records = read_records(mesh.world.kafka, "mesh.")
    config = Config(1, published_text(mesh.topology), first_lineage(mesh.topology))
    assert records.found == dict.fromkeys(["left", "right"], config)
    assert in_force(mesh) == (1, mesh.topology)


def test_starting_the_same_mesh_again_changes_nothing(mesh: Mesh) -> None:
    for _ in range(2):
        assert publish(mesh.topology, mesh.world.kafka) == 1
    log = mesh.world.kafka["left"].topics["mesh.config"].logs[0]
    assert len([entry for entry in log.entries if entry is not None]) == 1


def test_another_topology_is_never_written_over_what_is_in_force(mesh: Mesh) -> None:
    """Nodes that run would go on by the former, those that start by this. Spec: K28."""
    publish(mesh.topology, mesh.world.kafka)
    other = replace(mesh.topology, keep_s=7.0)
    with pytest.raises(OtherInForceError, match=r"version 1 .* differs in setting keep: start"):
        publish(other, mesh.world.kafka)
    assert in_force(mesh) == (1, mesh.topology)
    elsewhere = with_addresses(mesh.topology, {"left": "left.test:1", "right": "right.test:1"})
    assert publish(elsewhere, mesh.world.kafka) == 1
    assert in_force(mesh) == (1, mesh.topology)


class Meanwhile(MemoryFaults):
    """Has somebody else do something before the call of a number."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self.calls, self._number, self._do = 0, number, do

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        self.calls += 1
        if self.calls == self._number:
            self._do()
        return None


@pytest.mark.parametrize("swapped", [{"k": "k"}, {"k": "l", "l": "k"}])
def test_of_two_who_start_a_mesh_from_different_files_one_comes_first(
    swapped: Mapping[str, str],
) -> None:
    """Wherever the one is when the other comes, whatever each calls its Kafka clusters. K28."""
    spec = {"kafka": {name: {} for name in swapped}, "nodes": {"a": {"kafka": "k"}}, "zones": {}}
    mine, theirs = topology_from_mapping(spec), topology_from_mapping({**spec, "keep": "7s"})
    for number in range(1, 100):
        kafka = {name: MemoryKafka(name, now_ms=lambda: 0) for name in swapped}
        for cluster in kafka.values():
            cluster.admin().create([config_topic(mine)])
        came: list[Topology] = []

        def start(topology: Topology, kafka: Mapping[str, KafkaCluster], came: list) -> None:
            with suppress(OtherInForceError):
                publish(topology, kafka)
                came.append(topology)

        others = {name: kafka[other] for name, other in swapped.items()}
        meanwhile = Meanwhile(number, partial(start, theirs, others, came))
        for cluster in kafka.values():
            cluster.faults = meanwhile
        start(mine, kafka, came)
        if meanwhile.calls < number:
            break
        texts = {found.topology for found in read_records(kafka, "mesh.").found.values()}
        assert texts == {published_text(one) for one in came}
        assert len(came) == 1
    assert number > 6


def test_a_topology_that_follows_keeps_its_domain_and_says_which_links_are_new(mesh: Mesh) -> None:
    """Links that stay what they are keep their numbers, be it 0. Spec: K10."""
    publish(mesh.topology, mesh.world.kafka)
    found, _ = read_in_force(mesh.world.kafka, mesh.topology.prefix)
    assert found is not None
    zone = mesh.topology.zones["Z"]
    fewer = replace(mesh.topology, zones={"Z": replace(zone, links=zone.links[:1])})
    second = TopologyInForce(number=2, topology=fewer, lineage=found.lineage_of(fewer, 2))
    domain = first_lineage(mesh.topology).domain
    assert second.lineage == Lineage(domain)
    assert second.lineage_of(mesh.topology, 3) == Lineage(domain, (LinkNumbers("b", "c", 3, 2),))


def test_the_highest_number_wins_and_what_lacks_it_is_given_it(mesh: Mesh) -> None:
    """A writer that died between two Kafka clusters. Spec: kafka.md 1."""
    publish(mesh.topology, mesh.world.kafka)
    other = replace(mesh.topology, keep_s=7.0)
    writer = mesh.world.kafka["right"].writer("operator")
    writer.produce("mesh.config", encode_config(2, published_text(other)), config_key(), 0)
    assert in_force(mesh) == (2, other)
    assert publish(other, mesh.world.kafka) == 2
    assert {found.number for found in read_records(mesh.world.kafka, "mesh.").found.values()} == {2}


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
