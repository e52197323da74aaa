"""A running mesh as somebody looks at it: what every question of operators is asked of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.model.topology import Topology
from mesh.transport.clock import Timekeeper, timekeeper
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMesh:
    """A running mesh.

    Attributes:
        topology: What is in force, with every address that is known.
        kafka: Clients of its Kafka clusters by name; of one that is left out nothing is asked.
        view: Its control topics, read to their ends.
        beats: Which nodes are up; may be waited for when first asked.
        time: How time passes for those who wait for it to change.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    view: MeshView
    beats: Mapping[str, bool]
    time: Timekeeper = field(default_factory=timekeeper)

    def home_of(self, node: str) -> KafkaCluster:
        """Return the Kafka cluster of a node."""
        return self.topology.home_of(node, self.kafka)

    def asking(self, kafka: Mapping[str, KafkaCluster]) -> RunningMesh:
        """Return the same mesh, of which these Kafka clusters alone are asked."""
        return RunningMesh(
            topology=self.topology, kafka=kafka, view=self.view, beats=self.beats, time=self.time
        )
