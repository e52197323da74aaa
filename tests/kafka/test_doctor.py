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
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.brokers import start_brokers
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.transport.kafka import RealKafka
from mesh.transport.node_topics import node_topics
from tests.conftest import ClustersOf
from tests.patience import PATIENCE_S, WAITING, wait_until

pytestmark = pytest.mark.kafka


@dataclass(frozen=True, slots=True)
class Mesh:
    """A topology file, and the doctor on it.

    Attributes:
        address: Of its first Kafka cluster.
    """

    file: Path
    prefix: str
    address: str

    def doctor(self, *arguments: str, code: int) -> Any:
        command = [sys.executable, "-m", "mesh", "doctor", *arguments, "-f", str(self.file)]
        ended = subprocess.run(
            [*command, "-o", "json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
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
def pair(kafka_clusters: ClustersOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
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
    mesh = Mesh(folder / "mesh.yaml", prefix, left)
    try:
        before = mesh.doctor("--pre", code=0)
        assert [one["name"] for one in before["categories"]] == ["kafka", "rights", "topics"]
        for node in topology.nodes:
            fleet.start_node(node)
        mesh.doctor(*WAITING, code=0)
        yield mesh
    finally:
        fleet.stop()


def test_a_well_pair_has_only_what_one_broker_cannot_do(pair: Mesh) -> None:
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


def test_a_producer_that_never_ends_its_transaction_is_found(pair: Mesh) -> None:
    """Spec: R2, R16."""
    topic = f"{pair.prefix}a.in.g"
    producer = Producer(
        {"bootstrap.servers": pair.address, "transactional.id": topic, "log_level": "0"}
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


def test_a_changed_setting_is_found_and_mended(pair: Mesh) -> None:
    kafka = RealKafka("left", {"bootstrap.servers": pair.address})
    topic = f"{pair.prefix}a.to.b.g"
    try:
        kafka.admin().change(topic, {"retention.ms": "60000"})
        description = "topics of a exist on left with their settings"
        found = pair.unwell("--category", "topics", code=10)
        assert found[description]["error"] == f"{topic} has retention.ms=60000 instead of -1"
        tried = pair.doctor("--category", "topics", "--fix", "--dry-run", code=10)
        assert [one["outcome"] for one in tried["repairs"]] == ["would be done"]
        mended = pair.doctor("--category", "topics", "--fix", *WAITING, code=0)
        assert [(one["topic"], one["before"], one["after"]) for one in mended["repairs"]] == [
            (topic, {"retention.ms": "60000"}, {"retention.ms": "-1"})
        ]
        assert kafka.admin().settings([topic])[topic]["retention.ms"] == "-1"
    finally:
        kafka.close()


def test_rights_that_are_missing_are_told_before_a_start(
    kafka_software: KafkaSoftware, tmp_path: Path
) -> None:
    """On a broker that asks who may do what; nothing is tried on data. Spec: R15."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with start_brokers(["k"], tmp_path, software=kafka_software, settings=settings) as running:
        address = running["k"].bootstrap_servers
        topology = topology_from_mapping(
            {
                "kafka": {"k": {"bootstrap.servers": address}},
                "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "k"}},
                "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
            },
            name="guarded",
        )
        write_topology(topology, tmp_path / "mesh.yaml")
        kafka = RealKafka("k", {"bootstrap.servers": address})
        kafka.admin().create(node_topics(topology, "a"))
        client = AdminClient({"bootstrap.servers": address, "log_level": "0"})
        denied = [
            ("mesh.a.in.g", AclOperation.WRITE),
            ("mesh.a.progress", AclOperation.ALL),
            ("mesh.b.dlq", AclOperation.CREATE),
        ]
        bindings = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                operation,
                AclPermissionType.DENY,
            )
            for topic, operation in denied
        ]
        bindings.append(
            AclBinding(
                ResourceType.GROUP,
                "mesh.b.lanes",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                AclOperation.ALL,
                AclPermissionType.DENY,
            )
        )
        # What is not named is open to all, but a topic with one rule only to whom it names.
        bindings.append(
            AclBinding(
                ResourceType.TOPIC,
                "mesh.a.in.g",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                AclOperation.READ,
                AclPermissionType.ALLOW,
            )
        )
        for future in client.create_acls(bindings).values():
            future.result(30)
        wait_until(
            "the broker minds its rules",
            lambda: "WRITE" not in kafka.admin().rights(["mesh.a.in.g"])["mesh.a.in.g"].operations,
        )
        found = Mesh(tmp_path / "mesh.yaml", "mesh.", address).unwell(
            "--pre", "--category", "rights", "--category", "topics", code=10
        )
        kafka.close()
    told = found["node a may read and write what it must"]
    assert "mesh.a.in.g on k: no right to WRITE" in told["error"]
    assert "mesh.a.progress on k: Broker: Topic authorization failed" in told["error"]
    assert f"kafka-acls.sh --bootstrap-server {address} --add" in told["hint"]
    group = found["node b may read and write what it must"]
    assert "group mesh.b.lanes on k: " in group["error"]
    refused = found["topics of b exist on k with their settings"]
    assert "authorization failed" in refused["error"]
    assert refused["hint"] == "see the checks of rights"
