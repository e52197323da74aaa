"""What nodes know of roles: each is asked as an application would ask it. Spec: tree_layer 6.8, 8.

They are asked in parallel: all that are down cost no more time than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from mesh.client.roles import Roles
from mesh.errors import TransportError
from mesh.operate.documents.role_routes import route_row
from mesh.operate.questions import side_by_side
from mesh.view.mesh_view import RunningMesh

APP = "cli"
"""The application that commands run as; two at once are one, and can distinguish their calls."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoleAsking:
    """Asks the nodes of a mesh.

    Attributes:
        mesh: The mesh; its Kafka clusters are those that can be reached.
    """

    mesh: RunningMesh

    def application(self, node: str) -> Roles | None:
        """Return the application at a node, not open yet, if its Kafka cluster is known."""
        topology, time = self.mesh.topology, self.mesh.time
        kafka = self.mesh.kafka.get(topology.nodes[node].kafka)
        if kafka is None:
            return None
        return Roles(kafka, topology, node, APP, now_ms=time.now_ms, pause=time.pause, is_new=False)

    def open_everywhere(self, left: ExitStack, timeout_s: float) -> Mapping[str, Roles]:
        """Return the application at each node that answers in time; `left` makes them leave."""

        def opened(node: str) -> Roles | None:
            asking = self.application(node)
            if asking is None:
                return None
            left.callback(asking.leave)
            try:
                return asking.open(timeout_s)
            except (TransportError, TimeoutError):
                return None

        nodes = list(self.mesh.topology.nodes)
        found = zip(nodes, side_by_side(opened, nodes), strict=True)
        return {node: asking for node, asking in found if asking is not None}

    def routes(self, tree: str, role: str, timeout_s: float) -> Sequence[Row]:
        """Return what every node knows of the ways to a role.

        For a node that does not answer in time `certain` is None, and the rest is empty.
        """
        return side_by_side(
            lambda node: self._routes_at(node, tree, role, timeout_s), self.mesh.topology.nodes
        )

    def _routes_at(self, node: str, tree: str, role: str, timeout_s: float) -> Row:
        nothing: Row = {"node": node, "certain": None, "routes": [], "links": [], "colour": ""}
        asking = self.application(node)
        if asking is None:
            return nothing
        try:
            known = asking.open(timeout_s).routes(tree, role, timeout_s=timeout_s)
        except (TransportError, TimeoutError):
            return nothing
        finally:
            asking.leave()
        return {
            "node": node,
            "certain": known.is_certain,
            "routes": [{**route_row(one), "age_s": one.age_ms / 1000} for one in known.routes],
            "links": list(known.links),
            "colour": known.colour,
        }
