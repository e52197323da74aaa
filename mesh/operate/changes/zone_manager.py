"""Creates and changes zones of a running mesh from a program: what `mesh zone` does for people.

Named after Universal Messaging's nZoneManager: create, join, leave, get. Each change is put in
force without loss before the call returns. Spec: DESIGN 3, UM-8, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mesh.config import zone_edits
from mesh.errors import NotBegunError
from mesh.model.topology import Topology, Zone
from mesh.operate.changes.begin import begun_last
from mesh.operate.changes.driver import MeshToChange
from mesh.operate.changes.in_force import TopologyInForce, read_in_force
from mesh.operate.changes.put_in_force import (
    WAIT_S,
    Edit,
    put_in_force,
    wanted_topology,
)
from mesh.operate.status import observe
from mesh.transport.clock import Timekeeper, timekeeper
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView


class ZoneManager:
    """Administers the zones of a mesh. One thread uses it.

    Args:
        topology: The mesh, with the addresses of its Kafka clusters.
        kafka: Clients of all of them, see `mesh.view.connection.open_kafka`; the caller that
            opened them closes them.
        wait_s: How long a change may take, in seconds.
        tell: Notified of what is done and what is waited for.
        time: How time passes.
    """

    def __init__(
        self,
        topology: Topology,
        kafka: Mapping[str, KafkaCluster],
        *,
        wait_s: float = WAIT_S,
        tell: Callable[[str], None] = lambda _: None,
        time: Timekeeper | None = None,
    ) -> None:
        self._file = topology
        self._kafka = kafka
        self._wait_s = wait_s
        self._tell = tell
        self._time = time or timekeeper()

    def zones(self) -> Mapping[str, Zone]:
        """Return all zones in force, by their names.

        Raises:
            TransportUnavailableError: Not one Kafka cluster answers.
        """
        return self._in_force().topology.zones

    def get(self, zone: str) -> Zone:
        """Return one zone in force.

        Raises:
            ConfigError: There is no zone of that name.
            TransportUnavailableError: Not one Kafka cluster answers.
        """
        return zone_edits.zone_of(self._in_force().topology, zone)

    def create(
        self,
        zone: str,
        kind: str,
        nodes: Sequence[str] = (),
        *,
        title: str = "",
        exclusive: bool = False,
    ) -> Zone:
        """Create a zone whose nodes are all linked to each other; an empty one does nothing yet.

        Args:
            zone: Its name, which never changes.
            kind: `cluster`, `one-hop` or `multi-hop`.
            nodes: Its members.
            title: The name shown to people.
            exclusive: Whether members are in no other zone.

        Raises:
            ConfigError: It exists, or the result would be illegal; nothing was changed.
            NotBegunError: Nodes that must take part do not; nothing was changed.
            NotInTimeError: The change was begun and is not done; the same call continues it.
            TransportError: A Kafka cluster does not answer.
        """
        said: dict[str, object] = {"kind": kind, "nodes": list(nodes)}
        said |= {"title": title} if title else {}
        said |= {"exclusive": True} if exclusive else {}
        self._put(lambda before: zone_edits.with_zone(before, zone, said))
        return self.get(zone)

    def join(self, zone: str, node: str) -> Zone:
        """Add a node to a zone, linked to all of its members.

        Raises:
            ConfigError, NotBegunError, NotInTimeError, TransportError: As for `create`.
        """
        self._put(lambda before: zone_edits.with_nodes(before, zone, [node]))
        return self.get(zone)

    def leave(self, zone: str, node: str) -> Zone:
        """Remove a node from a zone; without its last node the zone stays, empty.

        Raises:
            ConfigError, NotBegunError, NotInTimeError, TransportError: As for `create`; also if
                messages would be lost that wait on a link of the node there.
        """
        self._put(lambda before: zone_edits.without_nodes(before, zone, [node]))
        return self.get(zone)

    def delete(self, zone: str) -> None:
        """Delete a zone with its links.

        Raises:
            ConfigError, NotBegunError, NotInTimeError, TransportError: As for `leave`.
        """
        self._put(lambda before: zone_edits.without_zone(before, zone))

    def _in_force(self) -> TopologyInForce:
        found, _ = read_in_force(self._kafka, self._file.prefix)
        return found or TopologyInForce(number=0, topology=self._file)

    def _put(self, edit: Edit) -> None:
        found, _ = read_in_force(self._kafka, self._file.prefix)
        if found is None:
            raise NotBegunError(
                "nothing was changed: mesh.config does not say what is in force; apply the file "
                "that nodes go by once, with `mesh apply`"
            )
        view = MeshView(found.topology, self._kafka, self._time.now_ms, name="zones")
        try:
            view.refresh()
            mesh = MeshToChange(
                in_force=found,
                topology=found.topology,
                kafka=self._kafka,
                view=view,
                beats=observe(view, self._time),
                time=self._time,
                tell=self._tell,
            )
            begun = begun_last(mesh)
            after = wanted_topology(found, begun, edit)
            put_in_force(mesh, after, begun, zone_edits.place_in_spec, limit_s=self._wait_s)
        finally:
            view.close()
