"""An endpoint's topic with one copy, on a broker that stands still, costs its endpoint alone.

Three real brokers. The one that is stopped leads the ingress, too: clients do not know of its
successor before a request has run out of time. Once a transaction has touched a partition that then has no leader, its id is
held until the partition is back, successors included: so the target is left out before. Spec: K20.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from mesh.client import MeshClient, connect
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.view.mesh_view import MeshView
from tests.kafka.waiting import CLOCK, endpoint_reasons, soon_s
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

EACH = 40
KEEP = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(slots=True)
class Lone:
    """Node a on three brokers, and its endpoints `good` and `lone`: the latter has one copy."""

    fleet: Fleet
    view: MeshView
    client: MeshClient
    pid: int
    published: int = 0

    def publish(self) -> None:
        """Publish some more: to another broker, where the one that the client knew stands still."""
        for number in range(self.published, self.published + EACH):
            self.client.publish("x", b"%d" % number, key=b"k%d" % (number % 5))
        self.client.flush()
        self.published += EACH


@pytest.fixture
def lone(kafka_software: KafkaSoftware, tmp_path: Path) -> Iterator[Lone]:
    topology = topology_from_mapping(
        {
            "prefix": f"t{uuid.uuid4().hex[:8]}.",
            "kafka": {"k": {"brokers": 3}},
            "nodes": {"a": {"kafka": "k", "partitions": 1}},
            "zones": {},
        }
    )
    write_topology(topology, tmp_path / "mesh.yaml")
    fleet = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path, software=kafka_software)
    with ExitStack() as ends:
        ends.callback(fleet.stop)
        kafka = fleet.brokers["k"]
        names = TopicNames(topology.prefix)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        ingress = names.ingress("a", MessageClass.GUARANTEED)
        gone = admin.list_topics(ingress, PATIENCE_S).topics[ingress].partitions[0].leader
        topic = NewTopic(
            names.endpoint("a", "lone"), 4, replica_assignment=[[gone]] * 4, config=KEEP
        )
        admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
        pid = kafka.processes[gone - 1].pid
        ends.callback(os.kill, pid, signal.SIGCONT)
        fleet.start_node("a")
        reader = fleet.kafka("k")
        view = MeshView(fleet.topology, {"k": reader}, CLOCK.now_ms)
        ends.callback(view.close)
        client = connect(fleet.topology, "a")
        ends.callback(client.close)
        for endpoint in ("good", "lone"):
            client.wait(client.subscribe(endpoint, ">"), PATIENCE_S)
        yield Lone(fleet, view, client, pid)


class Received:
    """What has come to an endpoint, read beside."""

    def __init__(self, lone: Lone, endpoint: str) -> None:
        self.numbers: list[int] = []
        self._stream = lone.client.deliveries(endpoint)

    def has(self, count: int) -> bool:
        self.numbers += [int(one.payload or b"-1") for one in self._stream.read(0.2)]
        return len(self.numbers) >= count


def test_a_broker_that_stands_still_costs_one_endpoint_alone(lone: Lone) -> None:
    """The healthy one gets everything soon, also from a successor; both have all of it once."""
    good, begun_s = Received(lone, "good"), time.monotonic()
    lone.publish()
    wait_until("good has the first", lambda: good.has(lone.published))
    pace_s = time.monotonic() - begun_s
    other = Received(lone, "lone")
    wait_until("lone has the first", lambda: other.has(lone.published))
    os.kill(lone.pid, signal.SIGSTOP)
    wait_until("lone is told", lambda: "no leader" in endpoint_reasons(lone.view, "a"))
    lone.publish()
    wait_until("good goes on", lambda: good.has(lone.published), within_s=soon_s(pace_s))
    lone.fleet.kill_node("a")
    lone.fleet.start_node("a")
    wait_until("a successor serves", lone.fleet.ready_file("a").exists)
    lone.publish()
    # Clients too ask the broker that stands still, and wait ten seconds each time.
    wait_until("good goes on under a successor", lambda: good.has(lone.published))
    os.kill(lone.pid, signal.SIGCONT)
    wait_until("lone has the rest", lambda: other.has(lone.published))
    lone.publish()
    for received in (good, other):
        wait_until("both go on", lambda one=received: one.has(lone.published))
        assert sorted(received.numbers) == list(range(lone.published))
