"""Roles over real Kafka: taken, sent to over two links, lost with a node and found again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mesh.client import connect
from mesh.client.role_messages import RoleReply
from mesh.local.fleet import Fleet
from mesh.model.topics import TopicNames
from mesh.model.tree_frames import ReplyKind
from mesh.view.role_routes import role_routes
from tests.conftest import ClustersOf
from tests.kafka.fleets import fleet_for
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka


@contextmanager
def host(fleet: Fleet, node: str, tree: str, role: str) -> Iterator[None]:
    """An application that answers with its node's name, until the end."""
    ready, stop = threading.Event(), threading.Event()

    def serve() -> None:
        with (
            connect(fleet.topology, node) as client,
            client.roles("host").open(PATIENCE_S) as roles,
        ):
            roles.add(tree, role)
            ready.set()
            while not stop.is_set():
                for message in roles.messages(timeout_s=0.1):
                    message.answer(f"{node}: ".encode() + message.payload)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def data(replies: list[RoleReply]) -> list[bytes]:
    return sorted(one.payload for one in replies if one.payload is not None)


def until_told(fleet: Fleet, node: str, *, next_link: str) -> None:
    """Wait until a node has told of the way to the role, for whoever only looks. Spec: tree_layer 8."""
    names = TopicNames(fleet.topology.prefix)
    topic, kafka = names.routes(node), fleet.kafka("k")

    def is_told() -> bool:
        found = role_routes(kafka, [topic, names.routes("nobody")])
        assert list(found) == [topic]  # what is not there is left out
        return {route.link for one in found[topic] for route in one.told.routes} == {next_link}

    wait_until(f"{node} tells of the way", is_told)


CHAIN = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: roles}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {kafka: k}, b: {kafka: k}, c: {kafka: k}}
    zones: {Z: {kind: multi-hop, links: [[a, b], [b, c]]}}
  steps: []
"""


def test_a_role_is_found_again_after_its_bridge_was_killed(
    kafka_clusters: ClustersOf, tmp_path: Path
) -> None:
    """Take a role, send to it, get a reply, kill a node, recover. Spec: tree_layer 12."""
    path = tmp_path / "roles.yaml"
    path.write_text(CHAIN, encoding="utf-8")
    _, fleet = fleet_for(path, kafka_clusters(1), tmp_path / "fleet")
    wanted = [b"c: how much?"]

    def ask() -> list[RoleReply]:
        return asker.send("desk-7", "pricing", b"how much?").wait()

    def until_found() -> None:
        wait_until("the role is found", lambda: data(ask()) == wanted)

    try:
        for node in fleet.topology.nodes:
            fleet.start_node(node)
        with (
            host(fleet, "c", "desk-7", "pricing"),
            connect(fleet.topology, "a") as client,
            client.roles("asker").open(PATIENCE_S) as asker,
        ):
            until_found()
            for _ in range(20):
                replies = ask()
                assert data(replies) == wanted
                assert [one.is_last for one in replies].count(True) == 1
            fleet.kill_node("b")
            lost = ask()
            assert not data(lost)
            assert lost[-1].kind in (ReplyKind.NULL, ReplyKind.NOT_FOUND)
            fleet.start_node("b")
            until_found()
            until_told(fleet, "a", next_link="b")
    finally:
        fleet.stop()
