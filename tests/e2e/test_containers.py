"""Our images work: three containers are three Kafka clusters, three more are a mesh on them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from testcontainers.core.container import DockerContainer

from tests.e2e.kafka_container import KafkaContainer

# Without images at hand the first run makes a whole Debian.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def containers(kafka_image: str) -> Iterator[Sequence[KafkaContainer]]:
    """Three containers that run; each is stopped whatever happens, for no reaper does it."""
    started: list[KafkaContainer] = []
    try:
        for _ in range(3):
            container = KafkaContainer(kafka_image)
            started.append(container)
            container.start()
        yield started
    finally:
        for container in started:
            container.stop(force=True, delete_volume=True)


def round_trip(bootstrap: str, values: Sequence[bytes]) -> list[bytes | None]:
    """Produce in a transaction and read back through a consumer group."""
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value)
    producer.commit_transaction(30)
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    try:
        records = consumer.consume(len(values), timeout=30)
        return [record.value() for record in records]
    finally:
        consumer.close()


def test_three_containers_are_three_kafka_clusters(containers: Sequence[KafkaContainer]) -> None:
    """Each has an identity of its own and serves transactions through its mapped port."""
    identities = [container.wait_ready() for container in containers]
    assert len(set(identities)) == 3
    for container, identity in zip(containers, identities, strict=True):
        values = [f"{identity}-{index}".encode() for index in range(20)]
        assert round_trip(container.bootstrap_servers, values) == values


def test_broker_runs_without_root(containers: Sequence[KafkaContainer]) -> None:
    """The image's user is not root."""
    code, output = containers[0].exec(["id", "-u"])
    assert (code, output.strip()) == (0, b"1000")


NODES = ("tk1", "ny1", "pa1")
READY_FILE = "/tmp/ready"
READY_DEADLINE_S = 180
TOPOLOGY = """
apiVersion: mesh/v1
kind: Mesh
metadata: {name: containers}
spec:
  kafka: {tk: {}, ny: {}, pa: {}}
  nodes: {tk1: {kafka: tk}, ny1: {kafka: ny}, pa1: {kafka: pa}}
  zones: {WORLD: {kind: multi-hop, links: [[tk1, ny1], [ny1, pa1]]}}
"""


@pytest.fixture(scope="module")
def workers(
    containers: Sequence[KafkaContainer], node_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, DockerContainer]]:
    """A worker per Kafka cluster, each in a container, all ready."""
    for container in containers:
        container.wait_ready()
    folder = tmp_path_factory.mktemp("topology")
    folder.chmod(0o755)
    (folder / "mesh.yaml").write_text(TOPOLOGY, encoding="utf-8")
    started: dict[str, DockerContainer] = {}
    try:
        for node in NODES:
            command = ["node", "run", node, "--ready-file", READY_FILE, *where(containers)]
            worker = DockerContainer(node_image, network_mode="host").with_command(command)
            started[node] = worker.with_volume_mapping(str(folder), "/etc/mesh", "ro")
            worker.start()
        for worker in started.values():
            wait_until_ready(worker)
        yield started
    finally:
        for worker in started.values():
            worker.stop(force=True, delete_volume=True)


def where(containers: Sequence[KafkaContainer]) -> list[str]:
    """Return the arguments that name the topology file and its Kafka clusters."""
    arguments = ["-f", "/etc/mesh/mesh.yaml"]
    for name, container in zip(("tk", "ny", "pa"), containers, strict=True):
        arguments += ["--bootstrap", f"{name}={container.bootstrap_servers}"]
    return arguments


def wait_until_ready(worker: DockerContainer) -> None:
    end_s = time.monotonic() + READY_DEADLINE_S
    while worker.exec(["test", "-f", READY_FILE])[0] != 0:
        out, err = worker.get_logs()
        assert time.monotonic() < end_s, (out + err).decode()[-2000:]
        time.sleep(0.2)


def mesh(worker: DockerContainer, *arguments: str) -> str:
    """Run a command of the command line in a worker's container."""
    code, (out, err) = worker.get_wrapped_container().exec_run(["mesh", *arguments], demux=True)
    assert code == 0, (err or b"").decode()
    return (out or b"").decode()


def test_message_crosses_three_containers(
    containers: Sequence[KafkaContainer], workers: Mapping[str, DockerContainer]
) -> None:
    """What the wheel and the images hold is enough to subscribe, forward twice and deliver."""
    rest = [*where(containers), "-o", "json"]
    reader = ["subscribe", "acme/>", "--node", "pa1", "--endpoint", "orders", "--timeout", "120"]
    mesh(workers["pa1"], *reader, *rest)
    mesh(workers["tk1"], "publish", "acme/eu", "hello", "--node", "tk1", "--count", "5", *rest)
    told = mesh(workers["pa1"], *reader, "--from-beginning", "--count", "5", *rest)
    assert told.count("hello") == 5
    report = json.loads(mesh(workers["ny1"], "doctor", "--wait", "60", *rest))
    assert report["categories"]
