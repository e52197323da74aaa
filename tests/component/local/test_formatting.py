"""Folders of brokers: formatted by Kafka's own tool once for a set of jars, and then alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.local.broker_jvm import BrokerJvm
from mesh.local.embedded import EmbeddedKafka
from mesh.local.jars import KafkaSoftware

FIRST = "bootstrap.checkpoint"


@pytest.fixture
def software(tmp_path: Path) -> KafkaSoftware:
    (tmp_path / "jars").mkdir()
    return KafkaSoftware(java=tmp_path / "java", jars=tmp_path / "jars")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The storage tool: writes what it would, and is noted."""
    ran: list[str] = []

    def begin_format(jvm: BrokerJvm, kafka_cluster_id: str) -> str:
        jvm.data.mkdir(parents=True)
        (jvm.data / FIRST).write_bytes(b"first")
        (jvm.data / "meta.properties").write_text(f"cluster.id={kafka_cluster_id}\n")
        ran.append(jvm.name)
        return "a process"

    monkeypatch.setattr(BrokerJvm, "begin_format", begin_format)
    return ran


def prepared(folder: Path, software: KafkaSoftware, **more: object) -> EmbeddedKafka:
    kafka = EmbeddedKafka(folder.name, folder, software, **more)
    kafka.prepare()
    kafka.keep_format()
    return kafka


def told(kafka: EmbeddedKafka, broker: int = 1) -> dict[str, str]:
    text = (kafka.data(broker) / "meta.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_tool_runs_once(tmp_path: Path, software: KafkaSoftware, tool: list[str]) -> None:
    """Brokers after it have what it made, and identities of their own."""
    first = prepared(tmp_path / "one", software)
    trio = prepared(tmp_path / "trio", software, brokers=3)
    assert len(tool) == 1
    assert told(first)["cluster.id"] == first.kafka_cluster_id
    found = [told(trio, broker) for broker in (1, 2, 3)]
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert (
        {one["cluster.id"] for one in found} == {trio.kafka_cluster_id} != {first.kafka_cluster_id}
    )
    assert len({one["directory.id"] for one in found}) == 3
    assert all((trio.data(broker) / FIRST).read_bytes() == b"first" for broker in (1, 2, 3))
    again = EmbeddedKafka("trio", tmp_path / "trio", software, brokers=3)
    assert again.prepare() == []
    assert again.kafka_cluster_id == trio.kafka_cluster_id


def test_the_tool_judges_settings_each_time(
    tmp_path: Path, software: KafkaSoftware, tool: list[str]
) -> None:
    """What it makes with them is for nobody else."""
    for name in ("one", "two"):
        prepared(tmp_path / name, software, settings={"num.io.threads": "0"})
    prepared(tmp_path / "stock", software)
    assert len(tool) == 3


def test_a_folder_of_jars_that_cannot_be_written_costs_the_tool(
    tmp_path: Path, software: KafkaSoftware, tool: list[str]
) -> None:
    software.jars.rmdir()
    for name in ("one", "two"):
        prepared(tmp_path / name, software)
    assert len(tool) == 2


def test_data_of_a_former_version_are_no_pattern(
    tmp_path: Path, software: KafkaSoftware, tool: list[str]
) -> None:
    """They were formatted by other jars."""
    data = tmp_path / "old" / "broker-1" / "data"
    data.mkdir(parents=True)
    (data / FIRST).write_bytes(b"of old")
    (data / "meta.properties").write_text("cluster.id=old\n")
    assert prepared(tmp_path / "old", software).kafka_cluster_id == "old"
    assert not (software.jars / FIRST).exists()


def session_s(kafka: EmbeddedKafka, folder: Path, broker: int = 1) -> float:
    """Return how long a broker that is silent is held for alive, by the settings of a new start."""
    kafka.prepare()
    text = (folder / f"broker-{broker}" / "server.properties").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines())
    return int(settings["broker.session.timeout.ms"]) / 1_000


def test_a_lone_broker_is_patient_unless_it_comes_back_from_a_kill(
    tmp_path: Path, software: KafkaSoftware, tool: list[str]
) -> None:
    """Nobody takes its place on a busy machine, but after a kill it would wait for its own end."""
    folder = tmp_path / "one"
    kafka = prepared(folder, software)
    assert session_s(kafka, folder) == 60
    (kafka.data() / "__cluster_metadata-0").mkdir()
    assert session_s(kafka, folder) == 4
    (kafka.data() / ".kafka_cleanshutdown").touch()
    assert session_s(kafka, folder) == 60
    trio = prepared(tmp_path / "trio", software, brokers=3)
    assert session_s(trio, tmp_path / "trio", broker=2) == 4
