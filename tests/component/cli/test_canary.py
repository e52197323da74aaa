"""A secret of a topology file appears nowhere: in no output, log, record or traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import click
import pytest
import typer

from mesh.cli.main import app
from mesh.config.topology_writer import write_topology
from mesh.model.topology import Topology, with_addresses
from tests.component.cli.conftest import Chain, Run
from tests.patience import PATIENCE_S

CANARY = "canary-9c41e7"
SECRETS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.username": "mesh",
    "sasl.password": CANARY,
    "ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
    "ssl.key.password": f"{CANARY}${{env:PATH}}",
    "sasl.oauthbearer.assertion.private.key.passphrase": CANARY,
    "sasl.oauthbearer.client.secret": CANARY,
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.extensions": f"broken {CANARY}",
    "sasl.oauthbearer.config": f"broken {CANARY}",
}
ELSEWHERE = {
    "up": "starts processes with files of its own",
    "demo": "has a topology of its own, without secrets",
    "lab storm": "runs scenario files, whose Kafka clusters are embedded",
    "lab check": "reads a history",
    "api": "serves until it is stopped; `tests/component/api` asks it",
    "dashboard": "serves until it is stopped",
    "audit run": "runs a Spark application",
    "audit follow": "goes on until it is stopped",
    "top": "wants a terminal, and goes on until it is stopped",
}
"""Commands that no topology file with secrets is given to."""

COMMANDS = """
validate {file}
validate {file} -o json
validate {broken}
walks {file} --from a
schema
plan {other} -f {file}
plan {other} -f {file} -o json
apply {other} -f {file}
apply {file} -f {file} -o json
export -f {file}
export -f {file} -o json
route a c -f {file}
topology -f {file} -o json
trace left:a/0/0/0 -f {file}
doctor -f {file} -o json
dlq a -f {file}
status -f {file} -o json
links -f {file}
interest ls -f {file}
wait -f {file}
explain acme/x --from a -f {file}
publish acme/x one --node a -f {file}
subscribe acme/> --node c --endpoint e -f {file} --timeout 5
unsubscribe acme/> --node c --endpoint e -f {file} --timeout 5
node run a -f {file}
drill duplicate -f {file}
node run nobody -f {file}
node resume a -f {file}
node forget a -f {file}
node disable a -f {file} --reason r
node enable a -f {file}
link pause a b -f {file} --reason r
link resume a b -f {file}
link disable a b -f {file} --reason r
link enable a b -f {file}
subject pause x --node a -f {file} --reason r
subject resume x --node a -f {file}
subject list -f {file}
zone create Z2 --kind multi-hop -f {file} --yes
zone delete Z2 -f {file} --yes
zone add Z x -f {file}
zone remove Z x -f {file}
zone rename Z --title T -f {file} --yes
zone list -f {file}
zone show Z -f {file}
queue list -f {file}
endpoint list -f {file}
endpoint delete c e --yes -f {file}
queue show q -f {file}
queue consume q --node a -f {file} --count 1 --timeout 1
role list -f {file}
role clean -f {file} --yes
role show t r -f {file} --timeout 0.2
role send t r --node a -f {file}
role route t r -f {file} --timeout 0.2
role trace t r --node a -f {file} --timeout 0.2
context add here -f {file}
context list -o json
context use here
context previous
context show -o json
context rm here
lab run {file}
audit report -f {file}
audit status -f {file}
audit explain none -f {file}
""".strip().splitlines()


def with_secrets(topology: Topology) -> Topology:
    """Return a topology whose Kafka clusters are behind logins, at addresses where nobody is."""
    there = with_addresses(topology, {"left": "127.0.0.1:1", "right": "127.0.0.1:2"})
    kafka = {
        name: replace(one, options={**one.options, **SECRETS}) for name, one in there.kafka.items()
    }
    return replace(there, kafka=kafka)


@pytest.fixture
def files(chain: Chain, tmp_path: Path) -> dict[str, str]:
    """The mesh's own file, one that would change it, and a broken one, all with secrets."""
    mesh, _ = chain
    named = {name: tmp_path / f"{name}.yaml" for name in ("file", "other", "broken")}
    write_topology(with_secrets(mesh.topology), named["file"])
    write_topology(with_secrets(replace(mesh.topology, covering=True)), named["other"])
    text = named["file"].read_text().replace("sasl.username", "sasl.jaas.config")
    named["broken"].write_text(text.replace("127.0.0.1:1", f"${{{CANARY}"))
    return {name: str(path) for name, path in named.items()}


def leaves() -> Iterator[str]:
    def walk(command: click.Command, path: str) -> Iterator[str]:
        if not hasattr(command, "commands"):
            yield path
            return
        for name, inner in cast("click.Group", command).commands.items():
            yield from walk(inner, f"{path} {name}".strip())

    return walk(typer.main.get_command(app), "")


def test_every_command_is_tried() -> None:
    """Who adds a command adds a line."""
    tried = {leaf for leaf in leaves() for line in COMMANDS if f"{line} ".startswith(f"{leaf} ")}
    assert tried | set(ELSEWHERE) == set(leaves())


def test_no_command_tells_a_secret(
    run: Run, chain: Chain, files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Spec: DESIGN 4.6."""
    mesh, _ = chain
    told: list[str] = []
    for line in COMMANDS:
        if line.startswith("node run a"):
            continue  # below
        ended = run(*(word.format(**files) for word in line.split()))
        told.append(f"{line}: {ended.code} {ended.out} {ended.err}")
    told += [repr(record.__dict__) for record in caplog.records]
    assert [text for text in told if CANARY in text] == []
    written = [
        repr((record.key(), record.value(), record.headers()))
        for kafka in mesh.world.kafka.values()
        for topic in kafka.topics.values()
        for log in topic.logs
        for record in log.entries
        if record is not None
    ]
    assert any("multi-hop" in text for text in written), "nobody put a topology in force"
    assert [text for text in written if CANARY in text] == []


def test_a_worker_and_the_auditor_log_no_secret(files: dict[str, str]) -> None:
    """The client library repeats options that it refuses, and tells its trouble in lines of logs."""
    for command in (
        ["mesh", "node", "run", "a", "-f", files["file"]],
        ["streaming", "-f", files["file"]],
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        text = first + process.communicate(timeout=PATIENCE_S)[0]
        assert text
        assert CANARY not in text
