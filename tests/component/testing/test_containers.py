"""What of a mesh in containers needs no Docker engine."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from mesh.errors import ConfigError
from mesh.testing.containers import MeshContainers
from mesh.transport.probes import PLAIN, ProbeServer


@pytest.mark.parametrize("name", ["k" * 64, "1", "42", "k-"])
def test_a_kafka_cluster_that_no_host_can_be_called_is_refused_at_once(name: str) -> None:
    """Its nodes would end over their file, once all brokers have been started."""
    with pytest.raises(ConfigError, match=f"spec.kafka.{name}: is a host's name in the network"):
        MeshContainers({"kafka": {name: {}}, "nodes": {"a": {}}})


def test_all_others_are() -> None:
    MeshContainers({"kafka": {"K-1": {}, "1e3": {}}, "nodes": {"a": {"kafka": "K-1"}}})


class Running:
    """A container that runs, whose port is on this machine."""

    status = "running"

    def __init__(self, port: int) -> None:
        self.port = port

    def get_wrapped_container(self) -> Running:
        return self

    def reload(self) -> None:
        """Learn nothing new."""

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, _inside: int) -> int:
        return self.port

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"", b""


def test_a_proxy_of_the_environment_is_not_asked_whether_a_node_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It leads out of a company's network, where nobody knows this machine: tests waited in vain."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    mesh = MeshContainers({"kafka": {"k": {}}, "nodes": {"a": {"kafka": "k"}}}, timeout_s=0)
    server = ProbeServer(lambda _path: (HTTPStatus.OK, b"", PLAIN))
    mesh.nodes["a"] = Running(server.start("127.0.0.1:0"))
    try:
        mesh._wait_serving("a")
    finally:
        server.stop()
