"""What every form of a mesh under test can do."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from mesh.client import MeshClient, MessageClass, ReceivedMessage
from mesh.client.outbound import check_number, check_text
from mesh.config.legal import legal_topology_from, load_legal_topology
from mesh.config.nearest import check_node, nearest
from mesh.core.legality import judge
from mesh.errors import ConfigError, MeshError, StartError, wrong_input
from mesh.model.topology import Topology

TopologyLike = Topology | str | Path | Mapping[str, object]
"""A topology, the path of its file, or what stands under `spec` there."""

WAIT_S = 60.0


class NotDeliveredError(MeshError, AssertionError):
    """Fewer messages came than were waited for; the text says which did."""


def topology_from(given: object) -> Topology:
    """Return a legal topology.

    Raises:
        ConfigError: It is not one; lists all problems.
        TypeError: It is nothing that could be one.
    """
    if isinstance(given, str | Path):
        return load_legal_topology(given)
    if isinstance(given, Mapping):
        if "spec" in given:
            message = "is part of a whole file: give its path, or what stands under spec"
            raise wrong_input("spec", message, code="WHOLE_FILE")
        return legal_topology_from(given, _place, name="test")
    if not isinstance(given, Topology):
        what = type(given).__name__
        raise TypeError(f"a topology is a Topology, the path of its file or a mapping, not {what}")
    if problems := judge(given, _place):
        raise ConfigError(problems)
    return given


def _place(path: Sequence[str | int]) -> str:
    return ".".join(("spec", *map(str, path)))


class MeshUnderTest(ABC):
    """A mesh that a test has for itself. A context manager: whatever it started ends with it.

    Waits end when a condition holds, or raise after a time.

    Args:
        topology: What to run. Addresses of Kafka clusters are not needed.
    """

    def __init__(self, topology: TopologyLike) -> None:
        self.topology = topology_from(topology)
        self._cuts: dict[str, dict[str, None]] = {node: {} for node in self.topology.nodes}
        self._clients: list[MeshClient] = []
        self._own: dict[str, MeshClient] = {}
        self._killed: dict[str, None] = {}
        self._is_started = self._is_over = False
        self._process = os.getpid()

    # -- of each form -------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> None:
        """Start everything; returns when every node serves."""

    @abstractmethod
    def _address(self, kafka: str) -> str:
        """Return the address of a Kafka cluster that there is."""

    @abstractmethod
    def _open(self, node: str) -> MeshClient:
        """Return a new client of a node."""

    @abstractmethod
    def _cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have a node read nothing of exactly these neighbours."""

    @abstractmethod
    def _kill(self, node: str) -> None:
        """End a node at once."""

    @abstractmethod
    def _restart(self, node: str) -> None:
        """Start a node that was killed; returns when it serves."""

    @abstractmethod
    def _end(self) -> None:
        """End whatever was started."""

    # -- of all -------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start everything; returns when every node serves. If one does not, all are ended.

        Raises:
            StartError: It was started before, something could not be had, or serves not in time.
        """
        if self._is_started or self._is_over:
            raise StartError("this mesh was started before; make another one")
        self._is_started = True
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _check_node(self, node: str) -> None:
        check_text("node", node)
        check_node(self.topology, node, "node")

    def _check_runs(self) -> None:
        """Refuse what a mesh that does not run would lose, or wait for in vain."""
        if self._is_over:
            raise StartError("this mesh has ended with its `with`; make another one")
        if not self._is_started:
            raise StartError("this mesh is not started: use it in a `with`")

    def get_bootstrap_server(self, kafka: str) -> str:
        """Return the address of a Kafka cluster, for any Kafka client on this machine.

        Raises:
            ConfigError: No Kafka cluster is called that, or this form has none with an address.
        """
        check_text("kafka", kafka)
        if kafka not in (known := list(self.topology.kafka)):
            message = f"no Kafka cluster is called {kafka[:80]!r}{nearest(kafka, known)}"
            raise wrong_input("kafka", message, code="UNKNOWN_KAFKA")
        self._check_runs()
        return self._address(kafka)

    def client(self, node: str) -> MeshClient:
        """Return a new client of a node; it is closed with the mesh.

        Raises:
            ConfigError: No node is called that.
            StartError: The mesh does not run; so with all it can do.
        """
        self._check_node(node)
        self._check_runs()
        client = self._open(node)
        self._clients.append(client)
        return client

    def _own_client(self, node: str) -> MeshClient:
        """Return the client by which this object itself speaks to a node: one, however often."""
        if node not in self._own:
            self._own[node] = self.client(node)
        return self._own[node]

    def subscribe(
        self,
        node: str,
        endpoint: str,
        filter_: str,
        message_class: MessageClass = MessageClass.GUARANTEED,
        *,
        timeout_s: float = WAIT_S,
    ) -> None:
        """Subscribe an endpoint, and wait until every node that can be reached knows it.

        What is published from then on is delivered, wherever that is.
        """
        client = self._own_client(node)
        version = client.subscribe(endpoint, filter_, message_class=message_class)
        client.wait(version, timeout_s)

    def publish(self, node: str, subject: str, *payloads: bytes, key: bytes | None = None) -> None:
        """Publish guaranteed messages; returns when Kafka has acknowledged them.

        Messages of one key keep their order; without one they may take different partitions.

        Raises:
            ValueError: No payload is given.
        """
        if not payloads:
            raise ValueError(f"nothing to publish on {subject}; an empty payload is b''")
        client = self._own_client(node)
        for payload in payloads:
            client.publish(subject, payload, key=key)
        client.flush()

    def wait_delivered(
        self, node: str, endpoint: str, count: int, *, timeout_s: float = WAIT_S
    ) -> Sequence[ReceivedMessage]:
        """Wait for so many messages at an endpoint, from its beginning; return all that are there.

        Raises:
            NotDeliveredError: Fewer came in time.
            TypeError: The count or the timeout is no number.
            ValueError: One of them is nan, negative or without end.
        """
        check_number("count", count, "a number of messages")
        check_number("timeout_s", timeout_s, "a number of seconds")
        if not (0 <= count < math.inf and 0 <= timeout_s < math.inf):
            raise ValueError(
                f"cannot wait {timeout_s:g} s for {count:g} messages; both are 0 or more"
            )
        found: list[ReceivedMessage] = []
        left_s = timeout_s
        with closing(self._own_client(node).deliveries(endpoint)) as stream:
            while (len(found) < count and left_s > 0) or (count == 0 and left_s == timeout_s):
                some = stream.read(min(1.0, left_s))
                left_s = timeout_s if some else left_s - 1.0
                found += some
            found += stream.read_to_end(timeout_s)
        if len(found) < count:
            subjects = [message.subject for message in found]
            known = list(dict.fromkeys(name for name, _ in self._own_client(node).subscribed()))
            hint = "" if endpoint in known else f"; nobody subscribes it{nearest(endpoint, known)}"
            raise NotDeliveredError(
                f"{len(found)} of {count} messages came to {node}/{endpoint} within "
                f"{timeout_s:g} s: {subjects}{hint}"
            )
        return found

    def kill(self, node: str) -> None:
        """End a node at once, as a crash does; what it had not committed never happened.

        Raises:
            ConfigError: No node is called that.
        """
        self._check_node(node)
        self._check_runs()
        if node not in self._killed:
            self._kill(node)
            self._killed[node] = None

    def restart(self, node: str) -> None:
        """Start a node that was killed; returns when it serves.

        Raises:
            ConfigError: No node is called that, or it was not killed.
        """
        self._check_node(node)
        self._check_runs()
        if node not in self._killed:
            raise wrong_input("node", f"{node} was not killed; `kill` it first", code="RUNS")
        self._restart(node)
        del self._killed[node]

    def cut(self, one: str, other: str) -> None:
        """Have two neighbours read nothing of each other, until `heal`.

        What is published meanwhile waits in the outboxes, as when the network is down.
        """
        self._check_node(one)
        self._check_node(other)
        if other not in self.topology.neighbours(one):
            raise wrong_input("cut", f"{one} and {other} are no neighbours", code="NO_LINK")
        self._check_runs()
        for node, neighbour in ((one, other), (other, one)):
            self._cuts[node][neighbour] = None
            self._cut(node, list(self._cuts[node]))

    def heal(self) -> None:
        """Undo every cut."""
        self._check_runs()
        for node, neighbours in self._cuts.items():
            if neighbours:
                self._cut(node, [])
                neighbours.clear()

    def stop(self) -> None:
        """End everything, whatever a client raises that is closed; may be called again.

        After a fork, what is to be ended belongs to the other process.
        """
        if os.getpid() != self._process:
            return
        self._is_over = True
        with ExitStack() as ending:
            ending.callback(self._end)
            for client in self._clients:
                ending.callback(client.close)
            self._clients.clear()
            self._own.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_raised: object) -> None:
        self.stop()
