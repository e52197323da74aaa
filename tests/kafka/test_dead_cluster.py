"""A Kafka cluster that is dead is named, and what the others hold is shown all the same.

How soon is a figure, of a command: `python -m tests.bench.commands`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from mesh.client import connect
from mesh.client.role_messages import RoleMessage
from mesh.client.roles import Roles
from mesh.config.legal import load_legal_topology
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from mesh.model.tree_apps import PartitionSuspected, Unpartitioned
from mesh.model.tree_frames import Cause, ReplyKind
from tests.bench.commands import run_until_named, stopped

pytestmark = pytest.mark.kafka

LINES = {
    "status": "near",
    "links": "near->far",
    "interest": "near",
    "explain x/1 --from near": "near",
    "route near far": "near",
    "queue list": "no queues where Kafka answers",
    "endpoint list": "far",
    "zone show Z": "near: ",
    "wait near --timeout 1": "known everywhere",
    "dlq far": "",
}
"""Command line -> what it shows of the living rest."""


@pytest.fixture(scope="module")
def mesh(
    kafka_clusters: Callable[[int], Sequence[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str]]:
    """Two nodes on two Kafka clusters; yields their file and where the second one is."""
    left, right = kafka_clusters(2)
    topology = topology_from_mapping(
        {
            "prefix": f"t{uuid.uuid4().hex[:8]}.",
            "kafka": {"left": {"bootstrap.servers": left}, "right": {"bootstrap.servers": right}},
            "nodes": {"near": {"kafka": "left"}, "far": {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["near", "far"]]}},
        },
        name="pair",
    )
    folder = tmp_path_factory.mktemp("dead")
    file = folder / "mesh.yaml"
    write_topology(topology, file)
    fleet = Fleet.start(topology, file, folder)
    try:
        for node in topology.nodes:
            fleet.start_node(node)
        command = [sys.executable, "-m", "mesh", "doctor", "--wait", "60", "-f", str(file)]
        subprocess.run([*command, "--category", "links"], check=True, timeout=120)
        yield file, right
    finally:
        fleet.stop()


def test_one_that_hangs_is_named_and_the_rest_is_shown(mesh: tuple[Path, str]) -> None:
    """Its process stands still: connections are taken, and nothing is ever answered."""
    file, right = mesh
    with stopped([listening(right)]):
        judge(file, list(LINES))


def test_one_whose_port_is_closed_is_named_too(mesh: tuple[Path, str]) -> None:
    """Nobody listens where it should be."""
    file, _ = mesh
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        nowhere = f"right=127.0.0.1:{bound.getsockname()[1]}"
        judge(file, ["status", "links", "explain x/1 --from near"], "--bootstrap", nowhere)


class Speakers:
    """An application at either node that has a role, and what both are told."""

    def __init__(self, file: Path, ends: ExitStack) -> None:
        topology = load_legal_topology(file)
        self.near, self.far = self.both = [
            ends.enter_context(ends.enter_context(connect(topology, node)).roles("app").open(60))
            for node in topology.nodes
        ]
        self.told: list[list[object]] = [[], []]
        for one, told, role in zip(self.both, self.told, ("near", "far"), strict=True):
            one.listener = told.append
            one.add("desk", role, timeout_s=60)

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Let both live until a condition holds."""
        deadline_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline_s, self.told
            for one in self.both:
                one.step(0.05)

    def ask(self, asker: Roles, role: str) -> list[ReplyKind]:
        """Send to a role and have its holder answer; return what came back, but a bare end."""
        call = asker.send("desk", role, b"?")
        self.until(lambda: self.answer() or call.is_done, 60)
        return [one.kind for one in call.replies if one.kind is not ReplyKind.END]

    def answer(self) -> bool:
        """Answer what has come; return that nobody knows yet what comes of it."""
        for one in self.both:
            for message in one.taken():
                message.answer(b"!")
        return False

    def are_told(self, kind: type, *, of: int = 2) -> bool:
        """Say whether the first so many were told this."""
        return all(any(isinstance(one, kind) for one in told) for told in self.told[:of])


def test_roles_go_on_beside_a_dead_cluster_and_find_it_again(mesh: tuple[Path, str]) -> None:
    """Who can speak to its own brokers and not to the neighbour's loses the link, and sends over it
    are nulls; who cannot speak to its own waits, and blames nobody until it is back.

    Spec: tree_layer 12 (a), (b).
    """
    file, right = mesh
    with ExitStack() as ends:
        both = Speakers(file, ends)
        held = [dict(one.held) for one in both.both]
        both.until(lambda: both.ask(both.near, "far") == [ReplyKind.DATA], 60)
        both.until(lambda: both.ask(both.far, "near") == [ReplyKind.DATA], 60)
        for told in both.told:
            told.clear()
        waiting = both.near.send("desk", "far", b"in vain")
        messages: list[RoleMessage] = []
        both.until(lambda: bool(messages.extend(both.far.taken()) or messages), 30)
        with stopped([listening(right)]):
            both.until(lambda: both.are_told(PartitionSuspected, of=1), 40)
            both.until(lambda: waiting.is_done, 5)
            assert [one.cause for one in waiting.replies] == [Cause.LINK_DOWN]
            assert both.ask(both.near, "near") == [ReplyKind.DATA]
            assert both.ask(both.near, "far") == [ReplyKind.NOT_FOUND]
            assert not both.told[1]
        both.until(lambda: both.are_told(Unpartitioned), 60)
        assert both.ask(both.near, "far") == [ReplyKind.DATA]
        assert both.ask(both.far, "near") == [ReplyKind.DATA]
        assert [dict(one.held) for one in both.both] == held


def judge(file: Path, lines: Sequence[str], *more: str) -> None:
    """Run commands; each names the dead Kafka cluster once, and shows the living rest."""
    for line in lines:
        told = run_until_named("Kafka cluster right", *line.split(), "-f", str(file), *more)
        assert told.err.count("Kafka cluster right") == 1, (line, told)
        assert LINES[line] in told.out, (line, told)


def listening(servers: str) -> int:
    """Return the process that listens at an address."""
    port = int(servers.rsplit(":", 1)[1])
    return next(
        one.pid
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port and one.pid
    )
