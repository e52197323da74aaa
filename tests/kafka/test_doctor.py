"""`mesh doctor` on real brokers: a hanging transaction, a setting changed behind its back."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.lab.fleet import Fleet
from mesh.transport.kafka import RealKafka
from tests.conftest import ClustersOf

pytestmark = pytest.mark.kafka


@dataclass(frozen=True, slots=True)
class Pair:
    """Two nodes that serve, on a Kafka cluster each."""

    file: Path
    prefix: str
    left: str
    fleet: Fleet

    def doctor(self, *arguments: str, code: int) -> Any:
        command = [sys.executable, "-m", "mesh", "doctor", *arguments, "-f", str(self.file)]
        ended = subprocess.run(
            [*command, "-o", "json"], capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        return json.loads(ended.stdout)

    def unwell(self, *arguments: str, code: int) -> dict[str, dict[str, Any]]:
        """Return what is not well, by description."""
        return {
            check["description"]: check
            for group in self.doctor(*arguments, code=code)["categories"]
            for check in group["checks"]
            if check["result"] != "ok"
        }


@pytest.fixture(scope="module")
def pair(kafka_clusters: ClustersOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    left, right = kafka_clusters(2)
    prefix = f"d{uuid.uuid4().hex[:8]}."
    topology = topology_from_mapping(
        {
            "prefix": prefix,
            "kafka": {
                "left": {"bootstrap.servers": left},
                "right": {"bootstrap.servers": right},
            },
            "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
        },
        name="pair",
    )
    folder = tmp_path_factory.mktemp("doctor")
    write_topology(topology, folder / "mesh.yaml")
    fleet = Fleet.start(topology, folder / "mesh.yaml", folder)
    mesh = Pair(folder / "mesh.yaml", prefix, left, fleet)
    try:
        before = mesh.doctor("--pre", code=0)
        assert [one["name"] for one in before["categories"]] == ["kafka", "rights", "topics"]
        for node in topology.nodes:
            fleet.start_node(node)
        mesh.doctor("--wait", "60", code=0)
        yield mesh
    finally:
        fleet.stop()


def test_a_well_pair_has_only_what_one_broker_cannot_do(pair: Pair) -> None:
    """Clocks are compared, too: heartbeats arrive while the doctor looks."""
    found = pair.doctor(code=0)
    unwell = [
        check["description"]
        for group in found["categories"]
        for check in group["checks"]
        if check["result"] != "ok"
    ]
    assert unwell == [
        "brokers of left are set to keep what the mesh promises",
        "brokers of right are set to keep what the mesh promises",
    ]
    clocks = next(one for one in found["categories"] if one["name"] == "clocks")
    assert all(abs(check["figures"]["skew_ms"]) < 5_000 for check in clocks["checks"])


def test_a_producer_that_never_ends_its_transaction_is_found(pair: Pair) -> None:
    """Spec: R2, R16."""
    topic = f"{pair.prefix}a.in.g"
    producer = Producer(
        {"bootstrap.servers": pair.left, "transactional.id": topic, "log_level": "0"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(2):
        producer.produce(topic, b"x", partition=1, headers=[("mesh-subject", b"acme/x")])
    assert producer.flush(30) == 0
    chosen = ("--category", "transactions")
    [found] = pair.unwell(*chosen, code=0).values()
    assert found["result"] == "warning"
    assert found["error"] == (
        f"{topic}[1] stands still at offset 0 and hides 2 records, for 2 s or longer"
    )
    assert "--patience 16" in found["hint"]
    producer.abort_transaction(30)
    assert pair.unwell(*chosen, code=0) == {}


def test_a_changed_setting_is_found_and_mended(pair: Pair) -> None:
    kafka = RealKafka("left", {"bootstrap.servers": pair.left})
    topic = f"{pair.prefix}a.to.b.g"
    try:
        kafka.admin().change(topic, {"retention.ms": "60000"})
        description = "topics of a exist on left with their settings"
        found = pair.unwell("--category", "topics", code=10)
        assert found[description]["error"] == f"{topic} has retention.ms=60000 instead of -1"
        tried = pair.doctor("--category", "topics", "--fix", "--dry-run", code=10)
        assert [one["outcome"] for one in tried["repairs"]] == ["would be done"]
        mended = pair.doctor("--category", "topics", "--fix", "--wait", "10", code=0)
        assert [(one["topic"], one["before"], one["after"]) for one in mended["repairs"]] == [
            (topic, {"retention.ms": "60000"}, {"retention.ms": "-1"})
        ]
        assert kafka.admin().settings([topic])[topic]["retention.ms"] == "-1"
    finally:
        kafka.close()
