"""The auditor as a process, reading real Kafka clusters live. Spec: DESIGN 7, reliability.md 9."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.patience import PATIENCE_S
from tests.streaming.planted import Plant
from tests.streaming.pour import Pour, Reader

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MESH = """
apiVersion: mesh/v1
kind: Mesh
metadata: {{name: planted}}
spec:
  prefix: {prefix}
  kafka: {{k1: {{}}, k2: {{}}}}
  nodes: {{a: {{kafka: k1}}, b: {{kafka: k1}}, c: {{kafka: k2}}}}
  zones:
    Z: {{kind: multi-hop, links: [[a, b], [b, c]]}}
"""


class Live:
    """A mesh of planted records on real Kafka clusters, and the auditor's process."""

    def __init__(self, folder: Path, addresses: dict[str, str]) -> None:
        self.folder = folder
        self.addresses = addresses
        self.plant = Plant(f"live-{secrets.token_hex(4)}.")
        self.pour = Pour(self.plant, addresses)
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "mesh.yaml").write_text(MESH.format(prefix=self.plant.prefix))

    def command(self) -> list[str]:
        places = [f"--bootstrap={name}={address}" for name, address in self.addresses.items()]
        return [
            sys.executable,
            "-m",
            "streaming",
            "-f",
            str(self.folder / "mesh.yaml"),
            "--brief",
            *places,
        ]

    def start(self, *more: str) -> None:
        checkpoint = ["--checkpoint", str(self.folder / "checkpoint")]
        with (self.folder / "auditor.log").open("ab") as log:
            self.process = subprocess.Popen([*self.command(), *checkpoint, *more], stderr=log)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def ended(self) -> int:
        """Wait until the auditor ends by itself, and return the exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def reader(self, table: str) -> Reader:
        return Reader(self.addresses["k1"], f"{self.plant.prefix}audit.{table}")

    def settled(self, reader: Reader) -> None:
        """Wait until the auditor has read all that was planted and certified what can be."""
        ends = {
            topic: {str(partition): len(log)} for (topic, partition), log in self.plant.logs.items()
        }

        def is_settled(table) -> bool:
            status = table.get("position")
            return (
                status is not None
                and status["uncertified"] == 0
                and all(
                    status["positions"].get(topic, {}).get(partition, 0) >= end
                    for topic, parts in ends.items()
                    for partition, end in parts.items()
                )
            )

        reader.wait(is_settled)


@pytest.fixture
def live(kafka_clusters, tmp_path: Path) -> Iterator[Live]:
    first, second = kafka_clusters(2)
    made = Live(tmp_path, {"k1": first, "k2": second})
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait(PATIENCE_S)


def told(reader: Reader) -> list[tuple]:
    return sorted(
        (one["kind"], one["link"] or one["endpoint"], one["ids"]) for one in reader.table.values()
    )


def test_planted_faults_are_found_live_once_and_survive_kills(live: Live) -> None:
    """Exactly the planted faults; after a kill and after a stop nothing is repeated or lost."""
    plant, prefix = live.plant, live.plant.prefix
    live.pour.create("b/s1", "c/s1")
    plant.identities()
    live.pour.pour()
    live.start()
    for node in ("b", "c"):
        plant.cuts_everywhere(node, plant.subscribe(node, "s1", "acme/>"))
    plant.carry(100, ["b/s1", "c/s1"])
    plant.carry(50, ["b/s1"], partition=1, lost=[7])
    plant.beat()
    live.pour.pour()
    findings, status = live.reader("findings"), live.reader("status")
    source = f"{prefix}a.in.g"
    missing = [
        ("missing", "b/s1", [f"{source}/1/0/7"]),
        ("missing", "c/s1", [f"{source}/1/0/{offset}" for offset in range(50)]),
    ]
    findings.wait(lambda _: told(findings) == missing)
    live.settled(status)

    assert live.end(signal.SIGKILL) != 0
    plant.deliver("b/s1", [99], ["a", "b"])
    plant.carry(40, ["b/s1", "c/s1"])
    live.pour.pour()
    live.start()
    twice = ("duplicate", "b/s1", [f"{source}/0/0/99"])
    findings.wait(lambda _: told(findings) == [twice, *missing])
    live.settled(status)
    assert live.end(signal.SIGTERM) == 0

    before = len(findings.log)
    plant.carry(5, ["b/s1", "c/s1"], subject="acme/more")
    plant.beat()
    live.pour.pour()
    live.start("--until-drained")
    assert live.ended() == 0
    certificates = live.reader("certificates")
    findings.read()
    certificates.read()
    assert told(findings) == [twice, *missing]
    assert len(findings.log) == before
    assert sorted(
        (one["source"], one["endpoint"], one["to"], one["expected"], one["delivered"], one["equal"])
        for one in certificates.table.values()
    ) == [
        (f"{source}/0", "b/s1", 144, 145, 146, False),
        (f"{source}/0", "c/s1", 144, 145, 145, True),
        (f"{source}/1", "b/s1", 49, 50, 49, False),
        (f"{source}/1", "c/s1", 49, 50, 0, False),
    ]


def test_a_kafka_cluster_that_is_down_holds_up_its_own_alone(live: Live) -> None:
    """The findings of the others go on, and the status names it."""
    plant = live.plant
    live.pour.create("b/s1")
    plant.identities()
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(20, ["b/s1"], lost=[7])
    live.pour.pour()
    live.addresses = {**live.addresses, "k2": "127.0.0.1:1"}
    live.start()
    missing = ("missing", "b/s1", [f"{plant.prefix}a.in.g/0/0/7"])
    findings, status = live.reader("findings"), live.reader("status")
    findings.wait(lambda _: told(findings) == [missing])
    status.wait(lambda table: "position" in table)
    unread = "nothing of it has been read yet"
    status.wait(lambda table: table["position"]["sources"]["k2"]["unread"] != unread)
    sources = status.table["position"]["sources"]
    assert "Timed out" in sources["k2"]["unread"]
    assert sources["k1"]["unread"] is None
    assert live.end(signal.SIGTERM) == 0


def test_a_second_auditor_is_refused_in_one_line(live: Live) -> None:
    """Two would write over each other. The first goes on, and one that was killed is no other."""
    live.pour.create()
    live.plant.identities()
    live.pour.pour()
    live.start()
    status = live.reader("status")
    status.wait(lambda table: "position" in table)
    checkpoint = ["--checkpoint", str(live.folder / "another")]
    done = subprocess.run(
        [*live.command(), *checkpoint],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "another auditor of this mesh writes to" in done.stderr
    assert "Traceback" not in done.stderr
    assert live.end(signal.SIGTERM) == 0


def test_a_mesh_that_cannot_be_reached_is_told_in_one_line(tmp_path: Path) -> None:
    """No traceback: what, where, what to do. Exit code 2 for what the user wrote."""
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH.format(prefix="x."))
    command = [sys.executable, "-m", "streaming", "-f", str(path), "--bootstrap", "k9=localhost:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "no Kafka cluster is called k9" in done.stderr
    assert "spec.kafka.k1: has no address; give --bootstrap k1=HOST:PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_endpoint_that_is_recreated_with_fewer_partitions_holds_up_nobody(live: Live) -> None:
    """Of a partition that is gone Kafka's client says nothing: what is lost elsewhere is told.

    What a former run has told counts on, though it has left no state.
    """
    plant, prefix = live.plant, live.plant.prefix
    live.pour.create("b/s1")
    topic = f"{prefix}b.ep.s2"
    live.pour.make(topic, 4)
    plant.identities()
    for endpoint in ("s1", "s2"):
        plant.cuts_everywhere("b", plant.subscribe("b", endpoint, "acme/>"))
    plant.carry(20, ["b/s1", "b/s2"])
    live.pour.pour()
    live.pour.make(f"{prefix}audit.findings", 1)
    producer = Producer({"bootstrap.servers": live.addresses["k1"]})
    producer.produce(f"{prefix}audit.findings", b'{"kind": "stale-interest"}', b"0" * 16)
    assert producer.flush(PATIENCE_S) == 0
    live.start()
    findings, status = live.reader("findings"), live.reader("status")
    live.settled(status)
    assert status.table["position"]["findings"] == 1
    live.pour.delete(topic)
    live.pour.make(topic, 2)
    del plant.logs[topic, 0]

    def beat() -> None:
        """Have nodes say something, so that there is batch after batch."""
        plant.beat()
        live.pour.pour()

    def is_shorter(table) -> bool:
        beat()
        return [*table["position"]["positions"].get(topic, {})] == ["0", "1"]

    status.wait(is_shorter)
    plant.carry(20, ["b/s1"], lost=[7])
    missing = ("missing", "b/s1", [f"{prefix}a.in.g/0/0/27"])

    def is_told(table) -> bool:
        beat()
        faults = [(one["kind"], one.get("endpoint"), one.get("ids")) for one in table.values()]
        return missing in faults

    findings.wait(is_told)
