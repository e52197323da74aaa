"""Simulated meshes: their nodes run whenever a client waits."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.client import MeshClient
from mesh.config.published import published_text
from mesh.lab.world import World
from mesh.model.control import Change, Stage
from mesh.model.topology import Topology
from mesh.operate.changes.begin import begun_last
from mesh.operate.changes.driver import MeshToChange
from mesh.operate.changes.in_force import read_in_force
from mesh.operate.changes.put_in_force import put_in_force as change_mesh
from mesh.operate.status import observe
from mesh.transport.clock import Timekeeper
from mesh.transport.node_topics import node_topics
from mesh.transport.port import KafkaCluster
from mesh.trees.settings import Settings
from mesh.view.change_records import ConfigWriters
from mesh.view.mesh_view import MeshView, RunningMesh

CHAIN: Mapping[str, object] = {
    "kafka": {"left": None, "right": None},
    "nodes": {
        "a": {"kafka": "left"},
        "b": {"kafka": "right"},
        "c": {"kafka": "right"},
    },
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}


class Mesh:
    """A world with all its topics, and clients that let it live on while they wait."""

    def __init__(
        self, topology: Topology, *, trees: Settings | None = None, runs: bool = True
    ) -> None:
        """Make the topics, and with `runs` start the nodes."""
        self.topology = topology
        self.world = World(topology, seed=3, trees=trees)
        for node, declared in topology.nodes.items():
            kafka = self.world.kafka[declared.kafka]
            kafka.admin().create(node_topics(topology, node))
        for node in topology.nodes if runs else ():
            self.world.start(node)
        self._clients: list[MeshClient] = []

    def now_ms(self) -> int:
        return self.world.clock.ms

    def pause(self, seconds: float) -> None:
        until = self.world.clock.ms + max(1, int(seconds * 1000))
        while self.world.clock.ms < until:
            self.world.advance()

    def client(self, node: str) -> MeshClient:
        client = MeshClient(
            self.topology, node, self.world.kafka, now_ms=self.now_ms, pause=self.pause
        )
        self._clients.append(client)
        return client

    def subscribe(self, node: str, endpoint: str, filter_: str, **options: object) -> None:
        client = self.client(node)
        client.wait(client.subscribe(endpoint, filter_, **options))  # type: ignore[arg-type]

    def publish(self, node: str, subject: str, payload: bytes = b"") -> None:
        client = self.client(node)
        client.publish(subject, payload)
        client.flush()

    def view(self) -> MeshView:
        return MeshView(self.topology, self.world.kafka, self.now_ms)

    @property
    def time(self) -> Timekeeper:
        return Timekeeper(self.now_ms, self.pause)

    def seen(
        self, view: MeshView | None = None, beats: Mapping[str, bool] | None = None
    ) -> RunningMesh:
        """Return the mesh as somebody sees it who looks now; as if all were up, if nobody says."""
        if view is None:
            view = self.view()
            view.refresh()
        return RunningMesh(
            topology=self.topology,
            kafka=self.world.kafka,
            view=view,
            beats=dict.fromkeys(self.topology.nodes, True) | (beats or {}),
            time=self.time,
        )

    def change(self, after: Topology, *, allow_delete: bool = False) -> int:
        """Have another topology be put in force as an operator does; who is new must run by then.

        What is in force must have been written before.

        Returns:
            The number of what is in force then.
        """
        view = self.view()
        found, _ = read_in_force(self.world.kafka, self.topology.prefix)
        assert found is not None
        try:
            view.refresh()
            mesh = MeshToChange(
                in_force=found,
                topology=found.topology,
                kafka=self.world.kafka,
                view=view,
                beats=observe(view, self.time),
                time=self.time,
                tell=lambda _: None,
            )
            begun = begun_last(mesh)
            done = change_mesh(mesh, after, begun, lambda _: "", allow_delete=allow_delete)
            return done.number
        finally:
            view.close()

    def close(self) -> None:
        for client in self._clients:
            client.close()


def put_in_force(number: int, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
    """Write a topology as what is in force, as a change does at its end."""
    writers = ConfigWriters(kafka, topology.prefix)
    writers.put_in_force(Change(number, Stage.RUN, published_text(topology)))
    writers.close()
