"""Passwords and certificates that are rotated under workers, on a broker that asks for both."""

from __future__ import annotations

import itertools
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.client import connect
from mesh.config.legal import load_legal_topology
from mesh.errors import TransportUnavailableError
from mesh.local.embedded import start_together
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.view.connection import open_kafka
from mesh.worker.process.credentials import SHARE_MS
from tests.kafka.secured import Authorities, Secrets, SecuredKafka
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka


def early(letter: str) -> str:
    """Return the name of a node whose first worker is among the first to take a secret in."""
    names = (f"{letter}{number}" for number in itertools.count())
    return next(name for name in names if zlib.crc32(name.encode()) % SHARE_MS < 1_000)


A, B = early("a"), early("b")


@dataclass
class Bench:
    """A mesh of two nodes on the broker, and who may do what there."""

    kafka: SecuredKafka
    authorities: Authorities
    secrets: Secrets
    folder: Path
    passwords: list[str] = field(default_factory=list)
    published: int = 0

    def secret(self, user: str, authority: str, password: str) -> Mapping[str, str]:
        """Return the files of a user; the broker does not know of it by that."""
        self.passwords.append(password)
        certificate, key = self.authorities.sign(user, authority)
        return {
            "username": user,
            "password": password,
            "user.crt": certificate,
            "user.key": key,
            "ca.crt": self.authorities.certificate("brokers"),
        }

    def write_topology(self) -> Path:
        options = {"bootstrap.servers": self.kafka.secured_servers, **self.secrets.options()}
        told = "".join(f"      {name}: {value!r}\n" for name, value in options.items())
        file = self.folder / "mesh.yaml"
        file.write_text(
            "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: secured}\nspec:\n  kafka:\n"
            f"    k:\n{told}  nodes: {{{A}: {{kafka: k}}, {B}: {{kafka: k}}}}\n"
            f"  zones: {{Z: {{kind: multi-hop, links: [[{A}, {B}]]}}}}\n",
            encoding="utf-8",
        )
        return file

    def publish(self, file: Path, count: int = 20) -> None:
        """Publish numbers at one node, in order."""
        with connect(load_legal_topology(file), A) as client:
            for _ in range(count):
                client.publish("acme/n", b"%d" % self.published, key=b"k")
                self.published += 1
            assert client.flush() == count

    def delivered(self, file: Path) -> list[bytes]:
        """Return what has come to the other node's endpoint, once it is so much or more."""
        with connect(load_legal_topology(file), B) as client:
            stream = client.deliveries("e")
            found: list[bytes] = []

            def all_there() -> bool:
                found.extend(bytes(one.payload or b"") for one in stream.read(1.0))
                return len(found) >= self.published

            wait_until(f"{self.published} messages are delivered", all_there, so_far=lambda: found)
            return found


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, kafka_software: KafkaSoftware
) -> Iterator[SecuredKafka]:
    """One that trusts two authorities of clients."""
    signed, folder = tmp_path_factory.mktemp("signed"), tmp_path_factory.mktemp("kafka")
    authorities = Authorities(signed, ["brokers", "first", "second"])
    kafka = SecuredKafka(folder, kafka_software, authorities, ["first", "second"])
    start_together([kafka])
    try:
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture
def bench(broker: SecuredKafka, tmp_path: Path) -> Bench:
    broker.allow("one", "first-password")
    return Bench(broker, broker.authorities, Secrets(tmp_path / "secret"), tmp_path)


def test_a_secret_that_the_broker_does_not_want_is_told_in_one_line(bench: Bench) -> None:
    """It says which Kafka cluster and what to look at, and no secret."""
    good = bench.secret("one", "first", "first-password")
    bench.passwords.append("wrong-password")
    wrongs = {
        "password": {"password": "wrong-password"},
        "authority": {"ca.crt": bench.authorities.certificate("first")},
    }
    file = bench.write_topology()
    for what, wrong in wrongs.items():
        bench.secrets.write({**good, **wrong})
        command = [sys.executable, "-m", "mesh", "publish", "acme/n", "x", "-n", A, "-f", str(file)]
        lines: list[str] = []

        def is_told(lines: list[str] = lines, command: list[str] = command) -> bool:
            """A broker that is busy may not have said so within the time of a command."""
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            assert ended.returncode == 1, ended.stderr
            lines[:] = ended.stderr.splitlines()
            return not any("no broker answers in time" in one for one in lines)

        wait_until(f"the wrong {what} is told", is_told, so_far=lambda lines=lines: lines)
        [line] = lines
        assert "Kafka cluster k at" in line, (what, line)
        assert "check the user, the password and the certificates" in line, (what, line)
        assert not [one for one in (*bench.passwords, "BEGIN") if one in line]


def test_workers_take_a_rotated_password_and_certificate_in(bench: Bench) -> None:
    """User, password, certificate and its authority change; then the broker knows the old
    user no more, and asks again who has logged in.

    Workers go on in their processes, what is published before, between and after arrives once and
    in order, and a secret that the broker does not want is told and never used.
    """
    kafka, secrets = bench.kafka, bench.secrets
    secrets.write(bench.secret("one", "first", "first-password"))
    file = bench.write_topology()
    old = open_kafka(load_legal_topology(file), answer_within_s=1.0)["k"].admin()

    def is_let_in() -> bool | None:
        """Return whether who goes on with the first secret is; None if nobody has answered."""
        try:
            old.cluster_id()
        except TransportUnavailableError as error:
            return False if "certificates" in str(error) else None
        return True

    wait_until("the first secret is good", is_let_in)
    fleet = Fleet.start(load_legal_topology(file), file, bench.folder)
    try:
        for node in (A, B):
            fleet.start_node(node)
        wait_until("both serve", lambda: all(fleet.ready_file(one).exists() for one in (A, B)))
        before = [process.pid for running in fleet.workers.values() for process in running]
        with connect(fleet.topology, B) as client:
            client.wait(client.subscribe("e", "acme/>"))
        bench.publish(file)

        secrets.write(bench.secret("two", "second", "unknown-password"))
        wait_until("both are refused", lambda: counted(fleet, "credentials.refused") >= 1)
        secrets.write(bench.secret("one", "first", "first-password"))
        wait_until("both are back at the old one", lambda: counted(fleet, "credentials.taken") == 1)
        bench.publish(file)

        kafka.allow("two", "second-password")
        secrets.write(bench.secret("two", "second", "second-password"))
        wait_until("both have taken the new one", lambda: counted(fleet, "credentials.taken") == 2)
        bench.publish(file)

        kafka.forbid("one")
        wait_until("who goes on with the old one is locked out", lambda: is_let_in() is False)
        bench.publish(file)
        assert bench.delivered(file) == [b"%d" % number for number in range(bench.published)]
        assert fleet.fallen() == []
        assert [p.pid for running in fleet.workers.values() for p in running] == before
        for node in (A, B):
            log = text(fleet, node)
            assert not [one for one in bench.passwords if one in log]
            assert "BEGIN" not in log
    finally:
        fleet.stop()


def test_workers_that_start_with_a_wrong_secret_take_the_right_one_in(bench: Bench) -> None:
    """They are not let in, and go on in their processes once the secret is put right."""
    good = bench.secret("one", "first", "first-password")
    bench.secrets.write(good)
    file = bench.write_topology()
    fleet = Fleet.start(load_legal_topology(file), file, bench.folder)
    try:
        bench.secrets.write({**good, "password": "wrong-password"})
        for node in (A, B):
            fleet.start_node(node)
        wait_until("both are not let in", lambda: counted(fleet, "kafka.unreachable") >= 1)
        bench.secrets.write(good)
        wait_until("both serve", lambda: all(fleet.ready_file(one).exists() for one in (A, B)))
        assert counted(fleet, "credentials.taken") == 1
        assert fleet.fallen() == []
    finally:
        fleet.stop()


def text(fleet: Fleet, node: str) -> str:
    return fleet.workers[node][0].log.read_text(encoding="utf-8")


def counted(fleet: Fleet, event: str) -> int:
    """Return how often every worker has logged an event: the least of them."""
    return min(text(fleet, node).count(f'"{event}"') for node in (A, B))
