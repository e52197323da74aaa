"""An outage of one of two real Kafka clusters, as applications with roles see it on both sides."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesh.client import connect
from mesh.client.role_messages import RoleMessage
from mesh.client.roles import Roles
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.model.topology import Topology
from mesh.model.tree_apps import PartitionSuspected, Unpartitioned
from mesh.model.tree_frames import Cause, ReplyKind
from tests.conftest import ClustersOf
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka


class Speakers:
    """An application at either node that has a role, and what both are told."""

    def __init__(self, topology: Topology, ends: ExitStack) -> None:
        self.near, self.far = self.both = [
            ends.enter_context(
                ends.enter_context(connect(topology, node)).roles("app").open(PATIENCE_S)
            )
            for node in topology.nodes
        ]
        self.told: list[list[object]] = [[], []]
        for one, told, role in zip(self.both, self.told, ("near", "far"), strict=True):
            one.listener = told.append
            one.add("desk", role, timeout_s=PATIENCE_S)

    def until(self, condition: Callable[[], bool]) -> None:
        """Let both live until a condition holds."""

        def holds() -> bool:
            for one in self.both:
                one.step(0.05)
            return condition()

        wait_until("both are told", holds, pace_s=0, so_far=lambda: self.told)

    def ask(self, asker: Roles, role: str) -> list[ReplyKind]:
        """Send to a role and have its holder answer; return what came back, but a bare end."""
        call = asker.send("desk", role, b"?")
        self.until(lambda: self.answer() or call.is_done)
        return [one.kind for one in call.replies if one.kind is not ReplyKind.END]

    def answer(self) -> bool:
        """Answer what has come; return that nobody knows yet what comes of it."""
        for one in self.both:
            for message in one.taken():
                message.answer(b"!")
        return False

    def are_told(self, kind: type, *, of: int = 2) -> bool:
        """Return whether the first so many were told this."""
        return all(any(isinstance(one, kind) for one in told) for told in self.told[:of])


@pytest.fixture
def fleet(
    kafka_clusters: ClustersOf, kafka_software: KafkaSoftware, tmp_path: Path
) -> Iterator[Fleet]:
    """Node near on brokers that run, node far on one of its own, which may be killed."""
    topology = topology_from_mapping(
        {
            "prefix": f"t{uuid.uuid4().hex[:8]}.",
            "kafka": {"left": {"bootstrap.servers": kafka_clusters(1)[0]}, "right": {}},
            "nodes": {"near": {"kafka": "left"}, "far": {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["near", "far"]]}},
        },
        name="pair",
    )
    write_topology(topology, tmp_path / "mesh.yaml")
    made = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path, software=kafka_software)
    try:
        for node in topology.nodes:
            made.start_node(node)
        yield made
    finally:
        made.stop()


def test_roles_go_on_beside_a_dead_cluster_and_find_it_again(fleet: Fleet) -> None:
    """Who can speak to its own brokers and not to the neighbour's loses the link, and sends over it
    are nulls; who cannot speak to its own waits, and blames nobody until it is back.

    Spec: tree_layer 12 (a), (b).
    """
    right = fleet.brokers["right"]
    with ExitStack() as ends, ThreadPoolExecutor(1) as pool:
        both = Speakers(fleet.topology, ends)
        held = [dict(one.held) for one in both.both]
        both.until(lambda: both.ask(both.near, "far") == [ReplyKind.DATA])
        both.until(lambda: both.ask(both.far, "near") == [ReplyKind.DATA])
        for told in both.told:
            told.clear()
        waiting = both.near.send("desk", "far", b"in vain")
        messages: list[RoleMessage] = []
        both.until(lambda: bool(messages.extend(both.far.taken()) or messages))
        right.kill()
        both.until(lambda: both.are_told(PartitionSuspected, of=1))
        both.until(lambda: waiting.is_done)
        assert [one.cause for one in waiting.replies] == [Cause.LINK_DOWN]
        assert both.ask(both.near, "near") == [ReplyKind.DATA]
        assert both.ask(both.near, "far") == [ReplyKind.NOT_FOUND]
        assert not both.told[1]
        restarted = pool.submit(right.restart)
        both.until(restarted.done)
        restarted.result()
        both.until(lambda: both.are_told(Unpartitioned))
        assert both.ask(both.near, "far") == [ReplyKind.DATA]
        assert both.ask(both.far, "near") == [ReplyKind.DATA]
        assert [dict(one.held) for one in both.both] == held
