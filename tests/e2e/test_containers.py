"""Our images work: three containers are three Kafka clusters, three more are a mesh on them."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from docker import DockerClient  # type: ignore[import-untyped]
from testcontainers.core.container import DockerContainer

from mesh.client import connect, load_topology
from mesh.errors import StartError
from mesh.local.jars import KAFKA_VERSION
from mesh.local.ports import LOOPBACK, free_port
from mesh.model.topology import with_addresses
from mesh.testing.building import build_whole
from mesh.testing.containers import KafkaContainer, MeshContainers
from mesh.testing.contents import bill_of
from tests.docker_engine import RECIPES
from tests.patience import PATIENCE_S, WAITING, wait_until

SMALL_FILE = RECIPES / "mesh.yaml"

# Without images at hand the first run makes a whole Debian.
pytestmark = pytest.mark.docker


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
        future.result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value)
    producer.commit_transaction(PATIENCE_S)
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    try:
        records = consumer.consume(len(values), timeout=PATIENCE_S)
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


def test_what_a_client_saw_of_a_broker_is_told_first(kafka_image: str) -> None:
    """It runs, is never told its address, and so does not serve."""
    container = KafkaContainer(kafka_image)
    try:
        DockerContainer.start(container)
        with pytest.raises(StartError) as told:
            container.wait_ready(1)
        where = container.bootstrap_servers
    finally:
        container.stop(force=True, delete_volume=True)
    first = str(told.value).splitlines()[0]
    said = f"the broker is running and not ready: no Kafka broker answers at {where}: "
    assert first.startswith(said), first
    assert where in first.removeprefix(said), first


def test_a_container_that_has_ended_is_told_at_once(kafka_image: str) -> None:
    """With the end of its log, of which testcontainers tells nothing when asked for its port."""
    container = KafkaContainer(kafka_image).with_kwargs(entrypoint=["sh", "-c", "echo why; exit 3"])
    try:
        DockerContainer.start(container)
        assert container.get_wrapped_container().wait(timeout=PATIENCE_S)["StatusCode"] == 3
        with pytest.raises(StartError, match=r"^the broker has ended with exit code 3\nwhy$"):
            container.wait_ready()
    finally:
        container.stop(force=True, delete_volume=True)


class Ending(KafkaContainer):
    """Ends between the look whether it runs and the question for its port."""

    @property
    def bootstrap_servers(self) -> str:
        self.get_wrapped_container().kill()
        return super().bootstrap_servers


def test_a_container_that_ends_while_it_is_asked_is_told_too(kafka_image: str) -> None:
    """By its own end, not by what testcontainers misses then."""
    container = Ending(kafka_image).with_kwargs(entrypoint=["sh", "-c", "echo why; sleep 600"])
    try:
        with pytest.raises(StartError, match=r"^the broker has ended with exit code 137\nwhy$"):
            container.start()
    finally:
        container.stop(force=True, delete_volume=True)


def test_what_begins_in_vain_leaves_nothing(kafka_image: str, node_image: str) -> None:
    """Images are taken for each other, and nobody calls `stop`."""
    engine = DockerClient.from_env()

    def there() -> set[str]:
        kept = [*engine.containers.list(all=True), *engine.networks.list()]
        return {one.id for one in kept}

    try:
        before = there()
        mesh = MeshContainers(TOPOLOGY, kafka_image=node_image, node_image=kafka_image)
        with pytest.raises(StartError, match=r"^the broker (has ended with|was not told) "):
            mesh.start()
        assert there() == before
    finally:
        engine.close()


def test_broker_runs_without_root(containers: Sequence[KafkaContainer]) -> None:
    """The image's user is not root."""
    code, output = containers[0].exec(["id", "-u"])
    assert (code, output.strip()) == (0, b"1000")


ODD = "node-tk1"
"""A Kafka cluster that is called as a node's container might be."""

TOPOLOGY = {
    "kafka": {ODD: {}, "ny": {}, "pa": {}},
    "nodes": {"tk1": {"kafka": ODD}, "ny1": {"kafka": "ny"}, "pa1": {"kafka": "pa"}},
    "zones": {"WORLD": {"kind": "multi-hop", "links": [["tk1", "ny1"], ["ny1", "pa1"]]}},
}

FILE = "/etc/mesh/mesh.yaml"
ALL = 15
"""Messages that are published on the way from tk1 to pa1."""


@pytest.fixture(scope="module")
def mesh(kafka_image: str, node_image: str) -> Iterator[MeshContainers]:
    """A node per Kafka cluster, each in a container, as users start them."""
    with MeshContainers(TOPOLOGY, kafka_image=kafka_image, node_image=node_image) as one:
        one.subscribe("pa1", "orders", "acme/>")
        yield one


def command(mesh: MeshContainers, node: str, *arguments: str) -> str:
    """Run a command of the command line in a node's container."""
    container = mesh.nodes[node].get_wrapped_container()
    code, (out, err) = container.exec_run(["mesh", *arguments], demux=True)
    assert code == 0, (err or b"").decode()
    return (out or b"").decode()


def test_a_mesh_in_containers_outlives_cuts_and_kills(mesh: MeshContainers) -> None:
    """What the wheel and the images hold is enough; nothing is lost, doubled or out of order."""
    mesh.publish("tk1", "acme/eu", *(b"%d" % number for number in range(5)), key=b"k")
    mesh.wait_delivered("pa1", "orders", 5)
    mesh.cut("ny1", "pa1")
    mesh.publish("tk1", "acme/eu", *(b"%d" % number for number in range(5, 10)), key=b"k")
    mesh.kill("ny1")
    mesh.heal()  # of a node that is not there to be told, until it is again
    mesh.restart("ny1")
    mesh.publish("tk1", "acme/eu", *(b"%d" % number for number in range(10, ALL)), key=b"k")
    found = mesh.wait_delivered("pa1", "orders", ALL)
    assert [int(message.payload or b"") for message in found] == list(range(ALL))
    assert {message.path for message in found} == {("tk1", "ny1", "pa1")}


def test_the_auditor_certifies_in_its_image(
    mesh: MeshContainers, audit_image: str, tmp_path: Path
) -> None:
    """Started last, it finds all that came before, of which a cut and a kill took nothing."""
    (tmp_path / "mesh.yaml").write_bytes(mesh.nodes["ny1"].exec(["cat", FILE]).output)
    tmp_path.chmod(0o755)  # the image's user is not root
    auditor = DockerContainer(audit_image).with_command(["-f", FILE, "--brief"])
    auditor.with_network(mesh.network).with_volume_mapping(str(tmp_path), "/etc/mesh", "ro")
    with auditor:
        report = until_certified(mesh, auditor)
    assert report["ok"], report
    counts = report["counts"]
    assert counts["delivered"] == counts["expected"] == ALL, report
    assert counts["certificates"] == counts["equal"], report
    assert counts["unsure"] == 0, report


def until_certified(mesh: MeshContainers, auditor: DockerContainer) -> Mapping[str, Any]:
    """Return what the auditor has told once it has counted all deliveries."""
    asked = ["mesh", "audit", "report", "-f", FILE, "-o", "json"]
    report: dict[str, Any] = {}

    def is_counted() -> bool:
        _, (out, _) = mesh.nodes["ny1"].get_wrapped_container().exec_run(asked, demux=True)
        report.clear()
        report.update(json.loads(out or b"{}"))  # of nothing before it runs
        return bool(report.get("counts", {}).get("delivered", 0) >= ALL)

    wait_until("all is counted", is_counted, pace_s=1, so_far=lambda: (report, auditor.get_logs()))
    return report


def test_commands_and_the_port_work_in_an_image(mesh: MeshContainers) -> None:
    """`mesh doctor` in a container, as `helm test` runs it, and a scrape from outside."""
    there = ["-f", FILE, "-o", "json"]
    report = json.loads(command(mesh, "ny1", "doctor", *WAITING, *there))
    assert report["categories"]
    assert command(mesh, "ny1", "--version").startswith("mesh ")
    node = mesh.nodes["ny1"]
    address = f"http://{node.get_container_host_ip()}:{node.get_exposed_port(8080)}"
    with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    assert 'mesh_link_up{link="ny1-tk1",node="ny1",zone="WORLD"} 1.0' in text
    assert mesh.get_bootstrap_server(ODD).count(":") == 1
    assert '"node": "pa1"' in mesh.logs()["pa1"]


def test_a_name_in_the_network_is_of_one_container(mesh: MeshContainers) -> None:
    """Who looks for a Kafka cluster finds its broker and nobody else."""
    said = mesh.nodes["ny1"].exec(["getent", "ahostsv4", ODD]).output.decode()
    assert len({line.split()[0] for line in said.splitlines()}) == 1, said


def test_an_image_says_what_it_consists_of(node_image: str, kafka_image: str) -> None:
    """Every package in the version that is in it: of Debian, of Python, and jars."""
    node, kafka = (
        {one["name"]: one for one in bill_of(image)["components"]}
        for image in (node_image, kafka_image)
    )
    assert node["confluent-kafka"]["version"] == version("confluent-kafka")
    assert node["trellis-mesh"]["version"] == version("trellis-mesh")
    assert node["libc6"]["purl"].startswith("pkg:deb/debian/libc6@")
    assert "openjdk-17-jre-headless" in kafka.keys() - node.keys()
    assert kafka["kafka-clients"]["version"] == KAFKA_VERSION


SMALL = {"tk1": "tokyo", "ny1": "newyork"}
"""What the image of a whole mesh runs if nobody says otherwise: its nodes and Kafka clusters."""


@pytest.fixture(scope="module")
def whole(kafka_image: str, node_image: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A whole mesh in one container, started as other languages start one: (page, addresses)."""
    ports = {name: free_port() for name in SMALL.values()}
    addresses = {name: f"{LOOPBACK}:{port}" for name, port in ports.items()}
    container = DockerContainer(build_whole(kafka_image, node_image, tag="test"))
    container.with_exposed_ports(8080)
    for inside, name in enumerate(ports, start=9092):
        container.with_bind_ports(inside, ports[name])
    told = ",".join(f"{name}={address}" for name, address in addresses.items())
    container.with_env("MESH_ADVERTISED", told)
    try:
        container.start()
        page = f"http://{container.get_container_host_ip()}:{container.get_exposed_port(8080)}"
        wait_until(
            "the page is ready", lambda: answers(f"{page}/readyz"), so_far=container.get_logs
        )
        yield page, addresses
    finally:
        container.stop(force=True, delete_volume=True)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def test_one_container_is_a_whole_mesh(whole: tuple[str, Mapping[str, str]]) -> None:
    """Any Kafka client publishes and consumes; who subscribes is known; the page is there."""
    page, addresses = whole
    topology = with_addresses(load_topology(SMALL_FILE), addresses)
    with connect(topology, "ny1") as client:
        client.wait(client.subscribe("orders", "acme/>"))
    producer = Producer({"bootstrap.servers": addresses["tokyo"]})
    producer.produce("mesh.tk1.in.g", b"42", headers=[("mesh-subject", b"acme/eu")])
    assert producer.flush(PATIENCE_S) == 0
    settings = {"group.id": "any", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": addresses["newyork"], **settings})
    consumer.subscribe(["mesh.ny1.ep.orders"])
    try:
        [record] = consumer.consume(1, timeout=PATIENCE_S)
        assert record.value() == b"42"
    finally:
        consumer.close()
    asked = urllib.request.Request(
        f"{page}/api/v1/nodes", headers={"Authorization": "Bearer mesh", "Host": LOOPBACK}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        nodes = {one["node"]: one["state"] for one in json.load(answer)["items"]}
    assert nodes == dict.fromkeys(SMALL, "up")
