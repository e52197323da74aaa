"""The commands as a user starts them, against two nodes on real Kafka."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from tests.conftest import ClustersOf, Unavailable
from tests.patience import PATIENCE_S, WAITING, wait_until

pytestmark = pytest.mark.kafka

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Running:
    """Two nodes that serve, and how to speak to them."""

    file: Path
    near: str
    far: str
    far_address: str
    fleet: Fleet

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mesh", *arguments, "-f", str(self.file)]

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> Any:
        ended = subprocess.run(
            [*self.command(*arguments), "-o", "json"],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        return json.loads(ended.stdout) if ended.stdout.startswith("{\n") else ended.stdout


@pytest.fixture(scope="module")
def running(
    kafka_clusters: ClustersOf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    # The example client knows the default prefix only, so the nodes' names are unique instead.
    near, far = f"n{uuid.uuid4().hex[:8]}", f"f{uuid.uuid4().hex[:8]}"
    left, right = kafka_clusters(2)
    topology = topology_from_mapping(
        {
            "kafka": {
                "left": {"bootstrap.servers": left},
                "right": {"bootstrap.servers": right},
            },
            "nodes": {near: {"kafka": "left"}, far: {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [[near, far]]}},
        },
        name="pair",
    )
    folder = tmp_path_factory.mktemp("cli")
    write_topology(topology, folder / "mesh.yaml")
    fleet = Fleet.start(topology, folder / "mesh.yaml", folder)
    try:
        for node in topology.nodes:
            fleet.start_node(node)
        mesh = Running(folder / "mesh.yaml", near, far, right, fleet)
        mesh.run("doctor", *WAITING, "--category", "nodes", "--category", "links")
        yield mesh
    finally:
        fleet.stop()


def test_a_message_from_publish_to_trace(running: Running) -> None:
    endpoint = ("-n", running.far, "-e", "orders")
    made = running.run("subscribe", "acme/orders/>", *endpoint)
    assert (made["version"], made["known_everywhere"]) == (0, True)
    sent = running.run(
        "publish", "acme/orders/eu", "-n", running.near, "--key", "k", "--header", "h=1",
        stdin="one\ntwo\n",
    )  # fmt: skip
    assert sent["published"] == 2
    printed = running.run(
        "subscribe", "acme/orders/>", *endpoint, "--from-beginning", "--count", "2"
    )
    messages = [json.loads(line) for line in printed.splitlines()]
    assert [(one["payload"], one["key"], one["headers"]) for one in messages] == [
        ("one", "k", [["h", "1"]]),
        ("two", "k", [["h", "1"]]),
    ]
    assert messages[0]["path"] == [running.near, running.far]
    trace = running.run("trace", messages[1]["id"])
    assert trace["ingress"]["subject"] == "acme/orders/eu"
    assert [one["link"] for one in trace["frames"]] == [f"{running.near}->{running.far}"]
    assert [one["endpoint"] for one in trace["deliveries"]] == [f"{running.far}/orders"]
    explained = running.run("explain", "acme/orders/eu", "--from", running.near)
    assert explained["reached"][1]["endpoints"] == ["orders"]
    ended = running.run("unsubscribe", "acme/orders/>", *endpoint)
    assert ended["known_everywhere"] is True
    assert running.run("explain", "acme/orders/eu", "--from", running.near)["links"] == []


def test_a_well_mesh_shows_itself_so(running: Running) -> None:
    running.run("subscribe", "shown/>", "-n", running.near, "-e", "shown")
    assert {one["state"] for one in running.run("status")["nodes"]} == {"up"}
    links = running.run("links")["links"]
    assert {(one["state"], one["backlog_messages"]) for one in links} == {("up", 0)}
    entries = running.run("interest", running.far)["interest"]
    assert ("shown/>", running.near) in [(one["filter"], one["who"]) for one in entries]
    doctor = running.run("doctor", *WAITING)
    unwell = [c for one in doctor["categories"] for c in one["checks"] if c["result"] != "ok"]
    assert {check["result"] for check in unwell} <= {"warning"}
    assert {check["description"].split()[0] for check in unwell} <= {"brokers"}  # one each
    report = running.run("audit", "report", code=10)  # no auditor runs beside this mesh
    assert report["doubts"] == ["no auditor has said anything here"]


def test_an_endpoint_that_nobody_subscribes_any_more_is_deleted(running: Running) -> None:
    """Refused while it is subscribed and while something is unread there."""
    endpoint = ("-n", running.far, "-e", "once")
    running.run("subscribe", "once/>", *endpoint)
    running.run("publish", "once/1", "hello", "-n", running.far)
    command = ("endpoint", "delete", running.far, "once", "--yes")
    assert "SUBSCRIBED" in json.dumps(running.run(*command, code=2))
    running.run("unsubscribe", "once/>", *endpoint)
    [left] = [
        one
        for one in running.run("endpoint", "list", "--node", running.far)["unsubscribed"]
        if one["endpoint"] == "once"
    ]
    assert (left["unread"], left["readers"]) == (1, [])
    assert "UNREAD" in json.dumps(running.run(*command, code=2))
    gone = running.run(*command, "--unread")["deleted"]["topics"]
    assert gone == [f"mesh.{running.far}.ep.once"]
    admin = running.fleet.kafka("right", "mesh-test").admin()
    wait_until("it is gone", lambda: not admin.describe(gone))
    assert "NO_TOPIC" in json.dumps(running.run(*command, code=2))


def test_following_ends_quietly_on_ctrl_c(running: Running) -> None:
    """Ctrl-C is how it is meant to end: exit code 0, a count, no traceback."""
    command = running.command("subscribe", "live/>", "-n", running.far, "-e", "live", "--follow")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            assert "known everywhere" in process.stderr.readline()
            running.run("publish", "live/x", "hello", "-n", running.near)
            assert "'hello'" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr.read() == "1 message\n"
        finally:
            process.kill()


def test_a_reader_that_goes_away_ends_the_command(running: Running) -> None:
    command = running.command("interest", running.near)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE_S) in (0, 1)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_what_was_started_is_in_force_and_plans_to_nothing(
    running: Running, tmp_path: Path
) -> None:
    """Spec: kafka.md 1 (`mesh.config`)."""
    exported = tmp_path / "exported.yaml"
    exported.write_text(json.dumps(running.run("export")), encoding="utf-8")
    same = running.run("plan", str(exported))
    assert (same["changes"], same["base"]["version"] > 0) == ([], True)
    fewer = json.loads(exported.read_text(encoding="utf-8"))
    fewer["spec"]["zones"] = {}
    proposed = tmp_path / "fewer.yaml"
    proposed.write_text(json.dumps(fewer), encoding="utf-8")
    plan = running.run("plan", str(proposed), code=3)
    assert [one["what"] for one in plan["changes"]] == ["zone", "link"]
    assert {one["kafka"] for one in plan["topics"]["deleted"]} == {"left", "right"}
    assert running.run("route", running.near, running.far)["path"] == [running.near, running.far]


def test_kafka_that_does_not_answer_is_one_line(running: Running) -> None:
    ended = subprocess.run(
        running.command("publish", "x", "y", "-n", running.near, "--bootstrap", "left=127.0.0.1:1"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "left at 127.0.0.1:1" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_client_without_our_library_works(running: Running) -> None:
    ended = subprocess.run(
        [sys.executable, EXAMPLES / "plain_client.py", running.far_address, running.far],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "as b'acme/plain/hello' with b'header'" in ended.stdout


def test_the_kcat_lines_work(running: Running, unavailable: Unavailable, tmp_path: Path) -> None:
    """The very lines of the page, for this node and address."""
    if shutil.which("kcat") is None:
        unavailable("kcat", "kcat is not installed")
    page = (EXAMPLES / "kcat.md").read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in page.split("```sh\n")[1:]]
    near_address = running.fleet.topology.kafka["left"].options["bootstrap.servers"]
    subscribe, publish, read, end, take, told, send, answer, ask = (
        block.replace("localhost:19092", running.far_address)
        .replace("tk1", running.far)
        .replace("localhost:29092", near_address)
        .replace("ny1", running.near)
        for block in blocks
    )

    def lines(script: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "line.sh"
        file.write_text(script, encoding="utf-8")
        return subprocess.run(
            ["bash", "-e", file], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def shell(script: str) -> str:
        done = lines(script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shell(subscribe)
    running.run("doctor", *WAITING, "--category", "interest")
    shell(publish)
    wait_until("it is delivered", lambda: 'order-42: {"amount": 42}' in shell(read))
    shell(end)
    running.run("doctor", *WAITING, "--category", "interest")
    wanted = running.run("interest", running.far)["interest"]
    assert "orders" not in [one["who"] for one in wanted]

    far, near = (running.far_address, running.far), (near_address, running.near)

    def at_near(script: str) -> str:
        return script.replace(far[0], near[0]).replace(far[1], near[1])

    def until(script: str, wanted: str, again: str = "true") -> str:
        """Return the first record that holds a text, as soon as there is one."""
        found: list[str] = []

        def is_there() -> bool:
            shell(again)
            # kcat ends with an error as long as the node has not made the topic.
            read = lines(f"{script} -e -q")
            found.extend(line for line in read.stdout.splitlines() if wanted in line)
            return bool(found)

        wait_until(wanted, is_there)
        return found[0]

    shell(take)
    shell(at_near(take.splitlines()[0]).replace("me|", "you|"))
    # Who has just begun is known to its node a moment later.
    asked = until(told.strip(), "how much?", again=send)
    shell(answer.replace("4f1d...", json.loads(asked)["id"]))
    until(at_near(told.strip()).replace("app.me", "app.you"), '"42"')
    shell(ask)
    colour = json.loads(until(told.strip(), '"colour"'))
    assert colour["new"]
