"""Kafka clusters that a change brings to a fleet that runs. Spec: lab.md 1 (`apply`), K27."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import TransportUnavailableError
from mesh.local.brokers import KafkaClusters
from mesh.local.fleet import Fleet
from mesh.local.jars import silent
from mesh.local.stopping import StoppedError, Stopping
from mesh.local.up import stoppable
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology, with_addresses
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_clients import MemoryWriter
from tests.component.admin_faults import AdminFaults


def mesh(*kafka: str) -> Topology:
    nodes = {f"n-{name}": {"kafka": name} for name in kafka}
    return topology_from_mapping({"kafka": {name: {} for name in kafka}, "nodes": nodes})


class Late(MemoryKafka):
    """A Kafka cluster that opens the third writer that it is asked for.

    Attributes:
        writers_asked: How often it was asked.
        as_asked: Called whenever somebody wants to write.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.writers_asked = 0
        self.as_asked: Callable[[], None] = lambda: None

    def writer(self, name: str, transactional_id: str | None = None, **more: Any) -> MemoryWriter:
        self.writers_asked += 1
        self.as_asked()
        if self.writers_asked < 3:
            raise TransportUnavailableError("not yet")
        return super().writer(name, transactional_id, **more)


def late_with_topics() -> tuple[MemoryKafka, AdminFaults]:
    """Return a Kafka cluster that makes topics when it is asked for the third time."""
    kafka = MemoryKafka("east")
    faults = AdminFaults(times=2, create=TransportUnavailableError("not yet"))
    kafka.faults = faults
    return kafka, faults


def fleet_on(kafka: MemoryKafka, folder: Path) -> Fleet:
    """Return a fleet whose one Kafka cluster, which somebody gave, is this one."""
    given = {"east": "127.0.0.1:1"}
    topology = with_addresses(mesh("east"), given)
    none = KafkaClusters({})
    return Fleet(topology, folder, folder, given, none, connect=lambda *_, **__: kafka)


def test_what_a_change_brings_is_started_once_and_its_address_is_told(tmp_path: Path) -> None:
    """In what is put in force, because workers that run cannot know it otherwise."""
    started: list[Mapping[str, int]] = []

    def launch(names: Mapping[str, int], *_args: object, **_options: object) -> Any:
        started.append(names)
        return {name: SimpleNamespace(bootstrap_servers=f"{name}.test:1") for name in names}

    addresses = {"east": "east.test:1"}
    file = tmp_path / "mesh.yaml"
    before = mesh("east")
    addressed = with_addresses(before, addresses)
    fleet = Fleet(addressed, file, tmp_path, addresses, KafkaClusters({}), launch=launch)
    write_topology(before, file)

    found = fleet.bring(mesh("east", "west"))
    assert started == [{"west": 1}]
    assert found.kafka["east"].is_embedded
    assert found.kafka["west"].options["bootstrap.servers"] == "west.test:1"
    assert fleet.options("west")["bootstrap.servers"] == "west.test:1"
    assert set(fleet.brokers) == {"west"}
    assert "n-west" not in fleet.topology.nodes

    fleet.adopt(found)
    assert load_topology(file).kafka["west"].options["bootstrap.servers"] == "west.test:1"
    assert "west=west.test:1" in fleet.command("n-west", 0)
    again = fleet.bring(mesh("east", "west"))
    assert (again, len(started)) == (found, 1)


@pytest.mark.parametrize("patience_s", [60.0, 0.0])
def test_a_broker_that_makes_its_own_topics_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr("mesh.local.fleet.FOUNDING_DEADLINE_S", patience_s)
    kafka = Late("east")
    fleet = fleet_on(kafka, tmp_path)
    fleet.provision(silent)
    if patience_s:
        fleet.publish(mesh("east"))
        assert kafka.writers_asked == 3
    else:
        with pytest.raises(TransportUnavailableError, match="not yet"):
            fleet.publish(mesh("east"))
        assert kafka.writers_asked == 1


def test_a_broker_that_makes_topics_late_is_waited_for(tmp_path: Path) -> None:
    (kafka, _), said = late_with_topics(), list[str]()
    fleet_on(kafka, tmp_path).provision(said.append)
    ingress = TopicNames().ingress("n-east", MessageClass.GUARANTEED)
    assert ingress in kafka.admin().describe([ingress])
    assert sum("trying again: not yet" in line for line in said) == 2


def test_a_given_one_that_does_not_even_say_who_it_is_is_told_at_once(tmp_path: Path) -> None:
    (kafka, faults), said = late_with_topics(), list[str]()
    kafka.available = False
    with pytest.raises(TransportUnavailableError):
        fleet_on(kafka, tmp_path).provision(said.append)
    assert len(faults.about("create")) == 1


def test_who_waits_for_a_broker_s_first_transaction_can_be_stopped(tmp_path: Path) -> None:
    """Ctrl-C comes to an end in good order there, and not after a minute."""
    stopping, said = Stopping(), list[str]()
    kafka = Late("east")
    kafka.as_asked = stopping.ask
    topology = with_addresses(mesh("east"), {"east": "127.0.0.1:1"})
    progress = stoppable(said.append, stopping)
    with pytest.raises(StoppedError):
        Fleet.start(topology, tmp_path, tmp_path, progress=progress, connect=lambda *_, **__: kafka)
    assert stopping.is_noticed
