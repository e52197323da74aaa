"""A mesh in containers of our images, under testcontainers: a broker per Kafka cluster, and nodes.

Images are `trellis-kafka:dev` and `trellis-node:dev`, which `python -m mesh.testing build` makes;
`MESH_KAFKA_IMAGE` and `MESH_NODE_IMAGE` name others. Safe beside other tests: names and ports are
the engine's own choice.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self, TypeVar

from mesh.client import MeshClient, connect
from mesh.config.kafka_options import bootstrap_fault
from mesh.config.topology_writer import write_topology
from mesh.errors import MeshError, StartError, missing_package, wrong_input
from mesh.model.topology import Topology, with_addresses, without_options
from mesh.testing.under_test import MeshUnderTest, TopologyLike
from mesh.transport.kafka import cluster_id
from mesh.worker.process.injected_faults import InjectedFaults

try:
    from docker.errors import DockerException  # type: ignore[import-untyped]
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network
except ImportError as missing:
    text = str(missing_package(f"{missing}: containers take an extra", "testing"))
    raise ImportError(text) from missing

KAFKA_IMAGE = "trellis-kafka:dev"
NODE_IMAGE = "trellis-node:dev"

INSIDE, ON_HOST, PORT = 9092, 9095, 8080
HOST_MAX = 63
"""Characters of a name that can be resolved."""

FAULTS = "/tmp/faults.json"  # noqa: S108 - in the container
SEEN = "/tmp/faults.seen-1"  # noqa: S108 - the worker is the container's first process
POLL_S = 0.1
LOG_LINES = 40

UNPROXIED = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A proxy that the environment names leads out of a network, and to no container of this engine."""


C = TypeVar("C", bound=DockerContainer)
T = TypeVar("T")


class KafkaContainer(DockerContainer):  # type: ignore[misc]
    """A Kafka cluster of one broker, for clients in its network and on this machine.

    The port for those is known only once the container runs, and the broker must advertise it: so
    the image's entry point waits for a file, which `start` writes.

    Args:
        image: Ours, or one that behaves alike.
        alias: Its name in the network; None for clients on this machine alone.
    """

    def __init__(self, image: str = KAFKA_IMAGE, *, alias: str | None = None) -> None:
        super().__init__(image)
        self.with_exposed_ports(INSIDE, ON_HOST)
        self._port = INSIDE if alias is None else ON_HOST
        self._file = "/var/lib/kafka/advertised"
        if alias is not None:
            self._file += "_on_host"
            self.with_env("ADVERTISED", f"{alias}:{INSIDE}").with_env("ADVERTISED_ON_HOST", "later")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients on this machine."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self._port)}"

    def start(self) -> Self:
        """Start it and tell it its address; returns before it serves, see `wait_ready`.

        Raises:
            StartError: It ended at once, with the end of its log, or was not told its address.
        """
        super().start()
        with _running(self, "the broker"):
            code, output = self.exec(["sh", "-c", f"echo {self.bootstrap_servers} > {self._file}"])
        if code != 0:
            raise StartError(f"the broker was not told its address: {output.decode()}")
        return self

    def wait_ready(self, timeout_s: float = 90) -> str:
        """Wait until a client gets an answer and return the Kafka cluster's identity.

        Raises:
            StartError: It ended or does not answer in time; with what the client saw and the end
                of the broker's log.
        """

        def identity() -> str:
            try:
                return cluster_id(self.bootstrap_servers, 2)
            except MeshError as error:
                raise _NotYetError(str(error)) from error

        return _wait(self, identity, timeout_s, "the broker")


class MeshContainers(MeshUnderTest):
    """See `MeshUnderTest`.

    Args:
        topology: What to run; addresses of Kafka clusters that it names are not used.
        kafka_image, node_image: Which images; None for those named above.
        timeout_s: How long all of it may take to serve.

    Raises:
        ConfigError: The topology is not legal, or has a Kafka cluster that no host can be called.
    """

    def __init__(
        self,
        topology: TopologyLike,
        *,
        kafka_image: str | None = None,
        node_image: str | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        super().__init__(topology)
        for name in self.topology.kafka:
            if len(name) > HOST_MAX or bootstrap_fault(_inside(name)) is not None:
                message = (
                    f"is a host's name in the network: use {HOST_MAX} characters or fewer, one of "
                    "them a letter, and no hyphen at the end"
                )
                raise wrong_input(f"spec.kafka.{name}", message, code="NO_HOST_NAME")
        self._kafka_image = kafka_image or os.environ.get("MESH_KAFKA_IMAGE") or KAFKA_IMAGE
        self._node_image = node_image or os.environ.get("MESH_NODE_IMAGE") or NODE_IMAGE
        self._timeout_s = timeout_s
        self._network: Network | None = None
        self._held = ExitStack()
        self._begun: list[DockerContainer | Network] = []
        self.kafka: dict[str, KafkaContainer] = {}
        self.nodes: dict[str, DockerContainer] = {}

    def _start(self) -> None:
        self._network = _new_network()
        self._begun.append(self._network)
        folder = self._held.enter_context(tempfile.TemporaryDirectory(prefix="mesh-testing-"))
        file = Path(folder)
        file.chmod(0o755)
        write_topology(_in_network(self.topology), file / "mesh.yaml")
        (file / "mesh.yaml").chmod(0o644)
        for name in self.topology.kafka:
            broker = KafkaContainer(self._kafka_image, alias=name.lower())
            self.kafka[name] = self._run(broker.with_network_aliases(name.lower()))
        for broker in self.kafka.values():
            broker.wait_ready(self._timeout_s)
        for node in self.topology.nodes:
            command = (
                f"node run {node} -f /etc/mesh/mesh.yaml --listen :{PORT} --cuts-file {FAULTS}"
            )
            made = DockerContainer(self._node_image).with_command(command.split())
            made.with_volume_mapping(folder, "/etc/mesh", "ro").with_exposed_ports(PORT)
            self.nodes[node] = self._run(made)
        for node in self.nodes:
            self._wait_serving(node)

    def _run(self, container: C) -> C:
        container.with_network(self.network)
        self._begun.append(container)
        try:
            container.start()
        except StartError:
            raise
        except Exception as error:
            text = f"{container.image} did not start: {error}; is the image there?"
            raise StartError(" ".join(text.split())) from error
        return container

    def _wait_serving(self, node: str) -> None:
        container = self.nodes[node]

        def ask() -> None:
            address = f"{container.get_container_host_ip()}:{container.get_exposed_port(PORT)}"
            try:
                UNPROXIED.open(f"http://{address}/readyz", timeout=2).close()
            except OSError as error:
                raise _NotYetError(f"{address}/readyz: {error}") from error

        _wait(container, ask, self._timeout_s, f"node {node}")

    def _address(self, kafka: str) -> str:
        return self.kafka[kafka].bootstrap_servers

    def _open(self, node: str) -> MeshClient:
        addresses = {name: broker.bootstrap_servers for name, broker in self.kafka.items()}
        return connect(with_addresses(without_options(self.topology), addresses), node)

    def _cut(self, node: str, neighbours: Sequence[str]) -> None:
        if node not in self._killed:  # else nothing can be run in it until it is started again
            self._tell(node, neighbours)

    def _tell(self, node: str, neighbours: Sequence[str]) -> None:
        container, words = self.nodes[node], InjectedFaults(cuts=tuple(neighbours)).written()
        script = f"printf %s {shlex.quote(words)} > {FAULTS}.new && mv {FAULTS}.new {FAULTS}"
        code, output = container.exec(["sh", "-c", script])
        if code != 0:
            raise StartError(f"node {node} was not told what to cut: {output.decode().strip()}")

        def follows() -> None:
            seen = container.exec(["cat", SEEN])[1].decode()
            if seen != words:
                raise _NotYetError(f"{SEEN} says {seen!r}")

        _wait(container, follows, self._timeout_s, f"node {node}, told to cut {list(neighbours)},")

    def _kill(self, node: str) -> None:
        """SIGKILL a node's container."""
        self.nodes[node].get_wrapped_container().kill()

    def _restart(self, node: str) -> None:
        """Start a container that was killed; returns when its node serves."""
        self.nodes[node].get_wrapped_container().start()
        self._tell(node, list(self._cuts[node]))  # it may have been cut or healed meanwhile
        self._wait_serving(node)

    @property
    def network(self) -> Network:
        """The network in which brokers and nodes are, for containers of a test's own.

        Raises:
            StartError: The mesh does not run.
        """
        if self._network is None:
            raise StartError("this mesh is not started: use it in a `with`")
        return self._network

    def logs(self) -> Mapping[str, str]:
        """Return the end of every container's log: by node, a broker's by `kafka NAME`."""
        brokers = {f"kafka {name}": one for name, one in self.kafka.items()}
        return {name: _tail(one) for name, one in {**brokers, **self.nodes}.items()}

    def _end(self) -> None:
        ending = [one for one in self._begun if isinstance(one, DockerContainer)]
        networks = [one for one in self._begun if isinstance(one, Network)]
        self._begun.clear()
        # One that cannot be ended, or is gone already, keeps no other from its end.
        with ExitStack() as rest:
            rest.callback(self._held.close)
            for network in networks:
                rest.callback(network.remove)
            with ThreadPoolExecutor(max_workers=max(1, len(ending))) as pool:
                for stopping in [pool.submit(_stop, one) for one in ending]:
                    rest.callback(stopping.result)


def _new_network() -> Network:
    try:
        return Network().create()
    except DockerException as error:
        text = f"no Docker engine answers: {error}; start one, or say by DOCKER_HOST where it is"
        raise StartError(" ".join(text.split())) from error


def _stop(container: DockerContainer) -> None:
    if container.get_wrapped_container() is not None:
        container.stop(force=True, delete_volume=True)


def _inside(kafka: str) -> str:
    """Return the address of a Kafka cluster in the network."""
    return f"{kafka.lower()}:{INSIDE}"


def _in_network(topology: Topology) -> Topology:
    addresses = {name: _inside(name) for name in topology.kafka}
    return with_addresses(without_options(topology), addresses)


class _NotYetError(Exception):
    """What is waited for does not hold; says what was seen instead, in one line."""


def _wait(container: DockerContainer, ask: Callable[[], T], timeout_s: float, who: str) -> T:
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            with _running(container, who):
                return ask()
        except _NotYetError as seen:
            if time.monotonic() > end_s:
                text = f"{who} is running and not ready: {seen}\n{_tail(container)}"
                raise StartError(text) from seen
        time.sleep(POLL_S)


@contextmanager
def _running(container: DockerContainer, who: str) -> Iterator[None]:
    """Refuse one that has ended, before or meanwhile: what it is asked then fails without a why."""
    _check_runs(container, who)
    try:
        yield
    except Exception:
        _check_runs(container, who)
        raise


def _check_runs(container: DockerContainer, who: str) -> None:
    state = container.get_wrapped_container()
    state.reload()
    if state.status != "running":
        code = state.attrs["State"]["ExitCode"]
        raise StartError(f"{who} has ended with exit code {code}\n{_tail(container)}")


def _tail(container: DockerContainer) -> str:
    out, err = container.get_logs()
    return "\n".join((out + err).decode(errors="replace").splitlines()[-LOG_LINES:])
