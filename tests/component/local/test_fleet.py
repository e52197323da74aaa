"""Kafka clusters that a change brings to a fleet that runs. Spec: lab.md 1 (`apply`), K27."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import TransportUnavailableError
from mesh.local.brokers import KafkaClusters
from mesh.local.fleet import Fleet
from mesh.local.stopping import StoppedError, Stopping
from mesh.local.up import stoppable
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology, with_addresses
from mesh.transport.memory import MemoryAdmin, MemoryKafka
from mesh.transport.port import TopicSpec


def mesh(*kafka: str) -> Topology:
    nodes = {f"n-{name}": {"kafka": name} for name in kafka}
    return topology_from_mapping({"kafka": {name: {} for name in kafka}, "nodes": nodes})


def test_what_a_change_brings_is_started_once_and_its_address_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what is put in force, because workers that run cannot know it otherwise."""
    started: list[Mapping[str, int]] = []

    def start(names: Mapping[str, int], *_args: object, **_options: object) -> object:
        started.append(names)
        return {name: SimpleNamespace(bootstrap_servers=f"{name}.test:1") for name in names}

    monkeypatch.setattr("mesh.local.fleet.start_brokers", start)
    addresses = {"east": "east.test:1"}
    file = tmp_path / "mesh.yaml"
    before = mesh("east")
    fleet = Fleet(with_addresses(before, addresses), file, tmp_path, addresses, KafkaClusters({}))
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
    tries: list[int] = []

    def publish(*_args: object) -> int:
        tries.append(len(tries))
        if len(tries) < 3:
            raise TransportUnavailableError("not yet")
        return 1

    monkeypatch.setattr("mesh.local.fleet.publish", publish)
    monkeypatch.setattr("mesh.local.fleet.FOUNDING_DEADLINE_S", patience_s)
    addresses = {"east": "127.0.0.1:1"}
    topology = mesh("east")
    fleet = Fleet(
        with_addresses(topology, addresses), tmp_path, tmp_path, addresses, KafkaClusters({})
    )
    if patience_s:
        fleet.publish(topology)
        assert len(tries) == 3
    else:
        with pytest.raises(TransportUnavailableError, match="not yet"):
            fleet.publish(topology)
        assert len(tries) == 1


class Busy(MemoryKafka):
    """A Kafka cluster whose broker comes to the topics that it is asked for at the third time."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked = 0

    def admin(self) -> MemoryAdmin:
        return BusyAdmin(self)


class BusyAdmin(MemoryAdmin):
    def create(self, topics: Sequence[TopicSpec]) -> None:
        self._broker.asked += 1
        if self._broker.asked < 3:
            raise TransportUnavailableError("not yet")
        super().create(topics)


def fleet_on(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Fleet:
    """Return a fleet whose one Kafka cluster, which somebody gave, is this one."""
    monkeypatch.setattr(Fleet, "kafka", lambda *_: kafka)
    given = {"east": "127.0.0.1:1"}
    return Fleet(with_addresses(mesh("east"), given), folder, folder, given, KafkaClusters({}))


def test_a_broker_that_makes_topics_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, said = Busy("east"), list[str]()
    fleet_on(kafka, monkeypatch, tmp_path).provision(said.append)
    ingress = TopicNames().ingress("n-east", MessageClass.GUARANTEED)
    assert ingress in kafka.admin().describe([ingress])
    assert sum("trying again: not yet" in line for line in said) == 2


def test_a_given_one_that_does_not_even_say_who_it_is_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, said = Busy("east"), list[str]()
    kafka.available = False
    with pytest.raises(TransportUnavailableError):
        fleet_on(kafka, monkeypatch, tmp_path).provision(said.append)
    assert kafka.asked == 1


def test_who_waits_for_a_broker_s_first_transaction_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes to an end in good order there, and not after a minute."""
    stopping, said = Stopping(), list[str]()

    def publish(*_args: object) -> int:
        stopping.ask()
        raise TransportUnavailableError("not yet")

    monkeypatch.setattr("mesh.local.fleet.publish", publish)
    monkeypatch.setattr(Fleet, "provision", lambda *_: None)
    topology = with_addresses(mesh("east"), {"east": "127.0.0.1:1"})
    with pytest.raises(StoppedError):
        Fleet.start(topology, tmp_path, tmp_path, progress=stoppable(said.append, stopping))
    assert stopping.is_noticed
