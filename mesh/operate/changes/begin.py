"""Begins a change of the topology, or finds the one under way and continues it.

Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mesh.config.published import published_text, published_topology
from mesh.core.cutover import cut_over
from mesh.errors import ConfigError, Problem, TransportError, TransportUnavailableError
from mesh.model.control import Change, Stage
from mesh.model.topology import Topology
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import ChangeDriver, MeshToChange
from mesh.operate.changes.in_force import newest_change
from mesh.operate.changes.queue_changes import queues_shared_otherwise
from mesh.operate.changes.steps import ChangeSteps
from mesh.transport.port import KafkaCluster
from mesh.view.change_records import write_change

UNDER_WAY = "UNDER_WAY"
"""Code of the problem that another change has begun."""

NO_CHANGE = "NO_CHANGE"
"""Code of the problem that there is nothing to abort."""

TOO_LATE = "TOO_LATE"
"""Code of the problem that nodes already work by the new topology."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """The newest change that Kafka clusters know of.

    Attributes:
        change: Its newest record.
        lacking: Kafka clusters without that record.
    """

    change: Change
    lacking: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Whether it is neither in force nor abandoned everywhere."""
        return bool(self.lacking) or self.change.stage.holds_sources


def read_begun(kafka: Mapping[str, KafkaCluster], prefix: str) -> PendingChange | None:
    """Return the newest change that was ever begun, or None before the first.

    Raises:
        TransportError: A Kafka cluster does not answer.
        ProtocolError: A newer version wrote a record.
    """
    found = {name: newest_change(cluster, prefix) for name, cluster in kafka.items()}
    change = Change.newest(found.values())
    if change is None:
        return None
    lacking = [name for name, one in found.items() if one is None or one.version < change.version]
    return PendingChange(change=change, lacking=lacking)


def begun_last(mesh: MeshToChange) -> PendingChange | None:
    """Return the change that was begun last; refuse to continue blindly.

    Raises:
        TransportUnavailableError: A Kafka cluster does not answer: try again.
    """
    for fault in mesh.view.unreachable.values():
        raise TransportUnavailableError(f"nothing was changed: {fault}")
    try:
        return read_begun(mesh.kafka, mesh.topology.prefix)
    except TransportError as error:
        raise TransportUnavailableError(f"nothing was changed: {error}") from error


def begin_change(
    mesh: MeshToChange,
    reports: FollowedLaneReports,
    after: Topology,
    begun: PendingChange | None,
    *,
    given_up: Sequence[str] = (),
) -> ChangeDriver:
    """Return the change that puts a topology in force, begun now or continued.

    Args:
        mesh: The mesh; what is in force there still was when `begun` had been read.
        reports: See `ChangeDriver`.
        after: A legal topology that a running mesh can follow.
        begun: See `read_begun`.
        given_up: Nodes that leave, are down, and whose messages may be lost.

    Raises:
        ConfigError: Another change has begun.
        TransportError: A Kafka cluster does not answer; nothing was begun.
    """
    found, text = mesh.in_force, published_text(after)
    # By the queues that exist just now.
    is_shared_otherwise = bool(queues_shared_otherwise(mesh.view, found.topology, after))
    cut = cut_over(
        found.topology, after, given_up=given_up, is_shared_otherwise=is_shared_otherwise
    )
    if begun is None or not begun.is_open:
        number = 1 + _last_number(mesh, reports, begun)
        lineage = found.lineage_of(after, number)
        way = ChangeSteps(Change(number, Stage.HOLD, text, tuple(cut.holding), lineage), cut)
        return _driver(mesh, reports, begun, way, after, given_up)
    change = begun.change
    if change.stage is Stage.ABORT:
        _refuse(UNDER_WAY, f"change {change.number} is being aborted: {_ABORT}")
    if change.topology != text:
        _refuse(
            UNDER_WAY,
            f"another change, to version {change.number}, has come to stage {change.stage}: "
            f"{_GO_ON}" + (f", or {_ABORT}" if change.stage is Stage.HOLD else ""),
        )
    way = ChangeSteps(change, cut, is_written=True)
    # Kafka clusters that the change adds may lack the records of those that knew of it.
    known = read_begun(mesh.kafka, after.prefix)
    lacking = known.lacking if known is not None and known.change == change else [*mesh.kafka]
    write_change(change, {name: mesh.kafka[name] for name in lacking}, after.prefix)
    mesh.tell(f"going on with the change to version {change.number} at stage {change.stage}")
    return _driver(mesh, reports, begun, way, after, given_up)


def _last_number(
    mesh: MeshToChange, reports: FollowedLaneReports, begun: PendingChange | None
) -> int:
    """Return the highest number of a topology that anybody knows: nodes follow no lower one.

    If `mesh.config` has lost records, all or the newest, nodes know more than it says; nodes that
    have started since know it only from the progress of their lanes. If it says nothing, that of
    every node must be known.
    """
    beats = (seen.heartbeat for seen in mesh.view.nodes.values())
    told = [beat.change.number for beat in beats if beat is not None and beat.change is not None]
    if mesh.in_force.number:
        reports.read()
    else:
        reports.read_all()
    known = 0 if begun is None else begun.change.number
    return max(mesh.in_force.number, known, reports.topology_number, *told)


def abort_change(
    mesh: MeshToChange, reports: FollowedLaneReports, begun: PendingChange | None
) -> ChangeDriver:
    """Return the way back from the change that was begun.

    It needs no Kafka clusters or nodes that the change would add: they may be the cause.

    Raises:
        ConfigError: There is none, or nodes already work by its topology.
        TransportError: A Kafka cluster does not answer.
    """
    if begun is None or not begun.is_open:
        _refuse(NO_CHANGE, "no change is under way; there is nothing to abort")
    change = begun.change
    if change.stage.has_switched:
        _refuse(
            TOO_LATE,
            f"the change to version {change.number} has come to stage {change.stage}, so nodes "
            f"work by the new topology already: {_GO_ON}, then apply the former one",
        )
    after = published_topology(change.topology)
    before = mesh.in_force.topology
    cut = cut_over(before, after)
    way = ChangeSteps(change, cut, is_written=True, is_aborting=True)
    if change.stage is Stage.ABORT:
        write_change(change, {name: mesh.kafka[name] for name in begun.lacking}, after.prefix)
    return _driver(mesh, reports, begun, way, before)


def _driver(
    mesh: MeshToChange,
    reports: FollowedLaneReports,
    begun: PendingChange | None,
    way: ChangeSteps,
    after: Topology,
    given_up: Sequence[str] = (),
) -> ChangeDriver:
    """Return a change that is ready to be driven."""
    known = 0 if begun is None else begun.change.number
    mesh.view.extend(mesh.in_force.topology, mesh.kafka)
    mesh.view.extend(after, mesh.kafka)
    return ChangeDriver(way, mesh, reports, after, known, given_up)


_GO_ON = "go on with it by the command that began it (`mesh apply` of the same file)"
_ABORT = "go back by `mesh apply --abort`"


def _refuse(code: str, message: str) -> NoReturn:
    raise ConfigError([Problem(code=code, message=message)])
