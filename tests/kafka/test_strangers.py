"""A storm of strangers on real brokers: nothing is lost, nobody ends, and no turn waits for them.

Node a is on three brokers, b and c on one each. While clients publish, strangers write records that
nobody can read into every topic that they may write; brokers refuse the topic of an endpoint; the
broker that alone has a direct outbox and a direct endpoint stands still; c's Kafka cluster dies, and
the workers of a start anew beside it. Spec: DESIGN 4.2, 4.6, R12, K20, K21, D3.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from mesh.client import MeshClient, connect
from mesh.client.published import Published
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.operate.messages.dead_letters import read_letters
from mesh.view.mesh_view import MeshView
from tests.kafka.clients import Publishing, Received
from tests.kafka.poison import OF_INGRESS, poison
from tests.kafka.waiting import CLOCK, endpoint_reasons, soon_s
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

TURN_MS = 1_000
REQUESTS = 5
"""A turn may commit what the node says to its neighbours: so many requests, one after the other."""
BOUNDED = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "268435456"}


@dataclass(slots=True)
class Storm:
    """The mesh, its clients, and what strangers have written.

    Attributes:
        fleet: Brokers and workers.
        stands: Process of the broker that is to stand still.
        view: What nodes say.
        clients: One of each node.
        publishing: Who publishes, at a and at b.
        received: What has come to the endpoint `all` of each node.
        pace_s: How soon messages come while all is well: a busy machine is slower.
        poisoned: How many unreadable records each topic has got, at least.
    """

    fleet: Fleet
    stands: int
    view: MeshView
    clients: Mapping[str, MeshClient]
    publishing: Mapping[str, Publishing]
    received: Mapping[str, Received]
    poisoned: Counter[str] = field(default_factory=Counter)
    pace_s: float = 0.0
    _read: dict[Path, int] = field(default_factory=dict)

    @property
    def names(self) -> TopicNames:
        return TopicNames(self.fleet.topology.prefix)

    def admin(self, kafka: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.fleet.addresses[kafka]})

    def sent(self) -> Mapping[bytes, Published]:
        """Return all guaranteed messages, whatever became of them."""
        return {
            payload: one
            for by in self.publishing.values()
            for payload, one in by.guaranteed.copy().items()
        }

    def accepted(self) -> list[bytes]:
        """Return those that brokers have acknowledged."""
        return [payload for payload, one in self.sent().items() if one.is_accepted]

    def flows(self, nodes: str, while_: str, limit_s: float = 0.0) -> float:
        """Have nodes get soon what is published now, and all before it; return how soon, in s."""
        begun_s = time.monotonic()
        limit_s = limit_s or soon_s(self.pace_s)
        more = len(self.accepted()) + 200
        wait_until(f"clients publish, {while_}", lambda: len(self.accepted()) >= more)
        wanted = self.accepted()
        for node in nodes:
            its = self.received[node]
            wait_until(
                f"{node} gets it, {while_}", lambda its=its: its.has(wanted), within_s=limit_s
            )
        return time.monotonic() - begun_s

    def watch_turns(self) -> None:
        """Judge turns from now on."""
        self._read = {path: path.stat().st_size for path in self._logs()}
        for one in self.publishing.values():
            one.slowest_s = 0.0

    def judge_turns(self, healthy: str) -> None:
        """Have no turn of a or b wait for more than a second, and what healthy brokers take.

        Args:
            healthy: Nodes all of whose brokers answer; how soon, their clients know.
        """
        found: list[int] = []
        for path in self._logs():
            text = path.read_bytes()[self._read.get(path, 0) :].decode(errors="replace")
            found += [json.loads(one)["ms"] for one in text.splitlines() if '"turn.long"' in one]
        slowest_ms = int(1_000 * max(self.publishing[node].slowest_s for node in healthy))
        assert max(found, default=0) < TURN_MS + REQUESTS * slowest_ms, (found, slowest_ms)
        self.watch_turns()

    def _logs(self) -> list[Path]:
        return sorted((self.fleet.directory / "log").glob("[ab]-*.log"))

    def dead_letters(self, node: str) -> Counter[str]:
        """Return how many records of each topic a node has refused."""
        kafka = self.fleet.kafka(self.fleet.topology.nodes[node].kafka)
        letters = read_letters(self.fleet.topology, kafka, node, 1_000_000)
        kafka.close()
        return Counter(one.header.topic for one in letters if one.header is not None)


@pytest.fixture
def storm(kafka_software: KafkaSoftware, tmp_path: Path) -> Iterator[Storm]:
    topology = topology_from_mapping(
        {
            "prefix": f"t{uuid.uuid4().hex[:8]}.",
            "kafka": {"home": {"brokers": 3}, "far": {}, "dead": {}},
            "nodes": {
                "a": {"kafka": "home", "lanes": 2},
                "b": {"kafka": "far"},
                "c": {"kafka": "dead"},
            },
            "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
        }
    )
    write_topology(topology, tmp_path / "mesh.yaml")
    fleet = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path, software=kafka_software)
    with ExitStack() as ends:
        ends.callback(fleet.stop)
        stands = keep_on_one_broker(fleet)
        ends.callback(os.kill, stands, signal.SIGCONT)
        view = MeshView(
            fleet.topology, {name: fleet.kafka(name) for name in topology.kafka}, CLOCK.now_ms
        )
        ends.callback(view.close)
        for node in topology.nodes:
            fleet.start_node(node, topology.nodes[node].lanes)
        clients = {node: connect(fleet.topology, node) for node in topology.nodes}
        for client in clients.values():
            ends.callback(client.close)
            client.wait(client.subscribe("all", "storm/>"), PATIENCE_S)
        lone = clients["a"].subscribe("lone", "storm/>", message_class=MessageClass.DIRECT)
        clients["a"].wait(lone, PATIENCE_S)
        received = {node: Received(client, "all") for node, client in clients.items()}
        publishing = {node: Publishing(fleet, node) for node in "ab"}
        for one in publishing.values():
            one.start()
            ends.callback(one.end)
        yield Storm(fleet, stands, view, clients, publishing, received)


def keep_on_one_broker(fleet: Fleet) -> int:
    """Make the direct outbox from a to b, and a direct endpoint, with one copy on one broker.

    Returns:
        The process of that broker.
    """
    names, home = TopicNames(fleet.topology.prefix), fleet.brokers["home"]
    admin = AdminClient({"bootstrap.servers": home.bootstrap_servers})
    described = admin.describe_cluster().result(PATIENCE_S)
    broker = max(one.id for one in described.nodes if one.id != described.controller.id)
    outbox = names.outbox("a", "b", MessageClass.DIRECT)
    admin.delete_topics([outbox])[outbox].result(PATIENCE_S)
    wait_until("it is gone", lambda: outbox not in admin.list_topics(timeout=10).topics)
    for topic in (outbox, names.endpoint("a", "lone")):
        new = NewTopic(topic, 4, replica_assignment=[[broker]] * 4, config=BOUNDED)
        admin.create_topics([new])[topic].result(PATIENCE_S)
    return home.processes[broker - 1].pid


def test_a_storm_of_strangers(storm: Storm) -> None:
    """Endpoints that nothing ails have everything soon, and all in the end, once and in order."""
    storm.flows("abc", "it begins", PATIENCE_S)
    storm.pace_s = storm.flows("abc", "all is well", PATIENCE_S)
    storm.watch_turns()

    # Records that nobody can read, and a topic that brokers refuse: its name is too like another.
    home, refused = storm.admin("home"), storm.names.endpoint("a", "refused")
    alike = refused.replace(".", "_")
    home.create_topics([NewTopic(alike, 1)])[alike].result(PATIENCE_S)
    for node in "ab":
        storm.poisoned += poison(storm.fleet, node, "all")
    storm.clients["a"].subscribe("refused", "storm/>")
    says(storm, "collides")
    storm.flows("ab", "strangers write and a topic is refused")
    storm.judge_turns("ab")

    # A broker stands still. Until the others lead in its place ends of transactions wait, and the
    # turns that end them.
    os.kill(storm.stands, signal.SIGSTOP)
    says(storm, "no leader")
    storm.flows("ab", "a broker stands still")
    storm.watch_turns()
    storm.flows("ab", "direct partitions have no leader")
    for node in "ab":
        storm.poisoned += poison(storm.fleet, node, "all")

    # A whole Kafka cluster is dead, and a's workers start anew.
    storm.fleet.brokers["dead"].kill()
    storm.fleet.kill_node("a")
    storm.fleet.start_node("a", 2)
    wait_until("a serves again", storm.fleet.ready_file("a").exists)
    storm.flows("ab", "a region is dead")
    storm.flows("ab", "it stays so")
    storm.judge_turns("b")

    # All is mended.
    storm.fleet.brokers["dead"].restart()
    os.kill(storm.stands, signal.SIGCONT)
    home.delete_topics([alike])[alike].result(PATIENCE_S)
    before = set(storm.accepted())
    storm.flows("abc", "all is mended", PATIENCE_S)
    wait_until("its topic is made", lambda: refused in home.list_topics(timeout=10).topics)
    late = Received(storm.clients["a"], "refused")
    for one in storm.publishing.values():
        one.end()
    wanted, sent = storm.accepted(), storm.sent()
    for node, its in storm.received.items():
        wait_until(f"{node} has everything", lambda its=its: its.has(wanted))
        its.judge(wanted, sent)
    since = [one for one in wanted if one not in before]
    wait_until("the refused one has what came since", lambda: late.has(since))
    late.judge(since, sent)
    assert not [one.name for one in storm.fleet.fallen()]
    for node in "ab":
        ingress = storm.names.ingress(node, MessageClass.GUARANTEED)
        assert storm.poisoned[ingress] <= storm.dead_letters(node)[ingress] <= 2 * OF_INGRESS


def says(storm: Storm, reason: str) -> None:
    """Have node a tell people this of an endpoint."""
    wait_until(
        f"a says of an endpoint: {reason}",
        lambda: reason in endpoint_reasons(storm.view, "a"),
    )
