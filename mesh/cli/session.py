"""The one way into a running mesh: what is in force there, its Kafka clusters, what they show.

A file or context only says how to reach a mesh; by what it works, `mesh.config` says.
Spec: kafka.md 1 (`mesh.config`), K27.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from mesh.cli.render import say
from mesh.cli.target import Stated, Target
from mesh.config.nearest import check_node
from mesh.errors import ConfigError, MeshError, ProtocolError, TransportUnavailableError
from mesh.transport import clock
from mesh.view.mesh_view import RunningMesh

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.changes.driver import MeshToChange
    from mesh.operate.changes.in_force import Records, TopologyInForce
    from mesh.transport.port import KafkaCluster
    from mesh.view.mesh_view import MeshView

P = ParamSpec("P")
T = TypeVar("T")

LOOK_WITHIN_S = 1.5
"""Who only looks waits so long for the brokers of a Kafka cluster, and shows the rest then."""


class Heard(StrEnum):
    """Whose heartbeats a command needs."""

    NOBODY = "nobody"
    ANYBODY = "anybody"
    """One fresh beat on each Kafka cluster shows which other beats are fresh: quick."""
    EACH = "each"
    """Who is up is up now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What is in force in a mesh.

    Attributes:
        topology: What is in force, else what the file says, with every address that is known.
        plain: The topology as the file says it, without addresses.
        found: What is in force; None where nobody has written that.
    """

    topology: Topology
    plain: Topology
    found: TopologyInForce | None

    def record(self) -> TopologyInForce:
        """Return the record of it; without one the file stands for it, with a warning."""
        from mesh.operate.changes.in_force import TopologyInForce

        if self.found is not None:
            return self.found
        say(
            "warning: mesh.config does not say what is in force (`mesh up` writes it); "
            "the topology file stands for it"
        )
        return TopologyInForce(number=0, topology=self.plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSession(RunningMesh):
    """A running mesh as a command sees it; which nodes are up, as far as `heard` asked for it.

    Attributes:
        in_force: What is in force.
    """

    in_force: InForce

    def nodes_named(self, node: str | None, where: str) -> Sequence[str]:
        """Return the node that a command line names, or all.

        Raises:
            ConfigError: There is no such node.
        """
        if node is None:
            return list(self.topology.nodes)
        check_node(self.topology, node, where)
        return [node]

    def refuse_unseen(self, nodes: Iterable[str]) -> None:
        """Refuse to change anything where what some nodes say cannot be seen, nor they be told.

        Raises:
            TransportUnavailableError: The Kafka cluster of one does not answer.
        """
        for node in nodes:
            fault = self.view.unreachable.get(self.topology.nodes[node].kafka)
            if fault is not None:
                raise TransportUnavailableError(f"nothing was changed at {node}: {fault}")

    def to_change(self) -> MeshToChange:
        """Return the mesh as it is seen by who changes its topology."""
        from mesh.operate.changes.driver import MeshToChange

        return MeshToChange(
            topology=self.topology,
            in_force=self.in_force.record(),
            kafka=self.kafka,
            view=self.view,
            beats=self.beats,
            time=self.time,
            tell=say,
        )


@contextmanager
def open_session(
    target: Target,
    *,
    needs_kafka: bool = True,
    heard: Heard = Heard.EACH,
    is_look: bool = True,
) -> Iterator[CommandSession]:
    """Open the mesh that a command line names, by what is in force there.

    Kafka clusters that do not answer are named, and what the others hold is shown.

    Args:
        target: Options of the command.
        needs_kafka: Whether there is nothing to tell without a single Kafka cluster.
        heard: Whose heartbeats are waited for.
        is_look: Whether nothing is changed: brokers that are slow are left out soon, and shown so.

    Raises:
        ConfigError: There is no mesh, or an option is wrong.
        TransportUnavailableError: Not one Kafka cluster answers.
    """
    from mesh.operate.changes.in_force import highest_of, records_seen
    from mesh.view.mesh_view import MeshView

    stated = target.stated()
    answer_within_s = LOOK_WITHIN_S if is_look else None
    with _closing_unless_interrupted() as opened:
        kafka: dict[str, KafkaCluster] = {}

        def look_at(topology: Topology) -> MeshView:
            _open_more(opened, kafka, topology, answer_within_s=answer_within_s)
            view = MeshView(topology, kafka, clock.now_ms, name="view", executor=UnawaitedThreads())
            opened.callback(view.close)
            view.refresh()
            return view

        topology = stated.topology
        view = look_at(topology)
        found = _record_or_file(lambda: highest_of(records_seen(view)), is_needed=needs_kafka)
        if found is not None:
            known, topology = topology, _reachable(found.topology, stated)
            if _places_of(topology) != _places_of(known):
                view = look_at(topology)
            else:
                _open_more(opened, kafka, topology, answer_within_s=answer_within_s)
        target.check_addresses(topology)
        _name_mesh(stated, found)
        if needs_kafka and view.unreachable and len(view.unreachable) == len(kafka):
            raise TransportUnavailableError(next(iter(view.unreachable.values())))
        for fault in view.unreachable.values() if needs_kafka else ():
            say(f"warning: {fault}")
        beats: Mapping[str, bool] = dict.fromkeys(topology.nodes, False)
        if heard is not Heard.NOBODY:
            from mesh.operate.status import beats_on_demand

            hears_each = heard is Heard.EACH
            beats = beats_on_demand(view, clock.timekeeper(), hears_each=hears_each)
        yield CommandSession(
            topology=topology,
            kafka=kafka,
            view=view,
            beats=beats,
            in_force=InForce(topology=topology, plain=stated.plain, found=found),
        )


def in_force_in(target: Target, *, near: str | None = None, is_look: bool = True) -> InForce:
    """Return what is in force in the mesh that a command line names; nothing else is read.

    Args:
        target: Options of the command.
        near: A node whose Kafka cluster alone is asked: publishing there needs no other.
        is_look: As for `open_session`.

    Raises:
        ConfigError: There is no mesh, an option is wrong, or a newer version wrote the record.
        TransportUnavailableError: Not one Kafka cluster answers.
    """
    from mesh.operate.changes.in_force import highest_of

    stated = target.stated()
    topology = stated.topology
    home = topology.nodes.get(near or "")
    patience = LOOK_WITHIN_S if is_look else None
    with open_clusters(topology, None if home is None else home.kafka, patience) as kafka:
        records = _records_of(kafka, topology.prefix)
    found = highest_of(records)
    if near is None:
        for fault in records.silent.values():
            say(f"warning: {fault}")
    if found is not None:
        topology = _reachable(found.topology, stated)
    target.check_addresses(topology)
    _name_mesh(stated, found)
    return InForce(topology=topology, plain=stated.plain, found=found)


def topology_at(
    target: Target, node: str, where: str = "--node", *, is_look: bool = False
) -> Topology:
    """Return what is in force for who publishes or receives at a node.

    Args:
        target: Options of the command.
        node: Its Kafka cluster alone is asked.
        where: How the command line calls the node.
        is_look: As for `open_session`.

    Raises:
        ConfigError, TransportUnavailableError: As for `in_force_in`, or there is no such node.
    """
    topology = in_force_in(target, near=node, is_look=is_look).topology
    check_node(topology, node, where)
    return topology


def in_force_if_known(target: Target) -> Topology | None:
    """Return the topology in force, or None if that cannot be known just now."""
    try:
        return in_force_in(target).record().topology
    except MeshError:
        return None


@contextmanager
def open_clusters(
    topology: Topology, only: str | None = None, answer_within_s: float | None = None
) -> Iterator[Mapping[str, KafkaCluster]]:
    """Open the Kafka clusters of a topology, or one of them, for as long as this lasts.

    Raises:
        ConfigError: One has no address, or a secret cannot be had.
    """
    with _closing_unless_interrupted() as opened:
        kafka: dict[str, KafkaCluster] = {}
        _open_more(opened, kafka, topology, only, answer_within_s)
        yield kafka


def _open_more(
    opened: ExitStack,
    kafka: dict[str, KafkaCluster],
    topology: Topology,
    only: str | None = None,
    answer_within_s: float | None = None,
) -> None:
    """Open those Kafka clusters of a topology that are not open yet."""
    from mesh.view.connection import open_kafka

    patience = {} if answer_within_s is None else {"answer_within_s": answer_within_s}

    quiet_client_library()
    wanted = topology.kafka if only is None else [only]
    fresh = [name for name in wanted if name not in kafka]
    more = open_kafka(topology, fresh, client_prefix="mesh-cli", **patience) if fresh else {}
    for name, cluster in more.items():
        if name not in kafka:
            kafka[name] = cluster
            opened.callback(cluster.close)


class UnawaitedThreads(Executor):
    """Makes calls side by side, in threads that neither Ctrl-C nor the end of the program awaits.

    Who asks brokers that are away waits for them for seconds.
    """

    def submit(self, call: Callable[P, T], /, *given: P.args, **named: P.kwargs) -> Future[T]:
        """Make a call in a thread of its own."""
        answer = Future[T]()
        answer.set_running_or_notify_cancel()

        def run() -> None:
            try:
                answer.set_result(call(*given, **named))
            except BaseException as error:  # noqa: BLE001 - for whoever asked
                answer.set_exception(error)

        threading.Thread(target=run, name="unawaited", daemon=True).start()
        return answer


@contextmanager
def _closing_unless_interrupted() -> Iterator[ExitStack]:
    """Close what is kept here, except after Ctrl-C: a thread may be using it until all ends."""
    with ExitStack() as opened:
        try:
            yield opened
        except KeyboardInterrupt:
            opened.pop_all()
            raise


def quiet_client_library() -> None:
    """Keep connection trouble out of the way: commands say in one line what failed."""
    logging.getLogger("mesh.kafka").setLevel(logging.CRITICAL)


def _name_mesh(stated: Stated, found: TopologyInForce | None) -> None:
    """Tell people at a terminal which mesh a command speaks to."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    name = stated.plain.name if found is None else found.topology.name
    by = f" of context {stated.context}" if stated.context else ""
    version = "" if found is None else f", version {found.number}"
    say(f"mesh {name}{by}{version}")


def _record_or_file(
    record: Callable[[], TopologyInForce | None], *, is_needed: bool
) -> TopologyInForce | None:
    """Return what is in force, or None where the file stands for it.

    Raises:
        ConfigError: It is not known to this version, and needed.
        ProtocolError: It was written by a newer one, and is needed.
    """
    try:
        return record()
    except (ConfigError, ProtocolError) as error:
        if is_needed:
            raise
        say(f"warning: the topology file stands for what is in force: {error}")
        return None


def _records_of(kafka: Mapping[str, KafkaCluster], prefix: str) -> Records:
    """Return the records of all Kafka clusters; several dead ones are waited for but once.

    Somebody who may publish but not read `mesh.config` finds no record and goes by the file.

    Raises:
        TransportUnavailableError: Not one answers.
        ProtocolError: A record was written by a newer version.
    """
    from mesh.operate.changes.in_force import read_records

    records = read_records(kafka, prefix, UnawaitedThreads())
    silent = records.silent
    if silent and len(silent) == len(kafka) and len(records.denied) < len(silent):
        raise TransportUnavailableError(next(iter(silent.values())))
    return records


def _reachable(found: Topology, stated: Stated) -> Topology:
    """Return what is in force with the ways to its Kafka clusters that the file knows."""
    from mesh.model.topology import with_addresses

    known = stated.plain.kafka
    kafka = {name: known.get(name, one) for name, one in found.kafka.items()}
    return with_addresses(replace(found, kafka=kafka), stated.addresses)


def _places_of(topology: Topology) -> object:
    """Return what decides which topics are read where to see a mesh."""
    nodes = {
        node: (one.kafka, frozenset(topology.neighbours(node)))
        for node, one in topology.nodes.items()
    }
    return topology.prefix, nodes
