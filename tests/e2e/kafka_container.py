"""One Kafka broker in a container of our own image, reachable through a mapped port."""

from __future__ import annotations

import time

from testcontainers.core.container import DockerContainer

from mesh.errors import TransportUnavailableError
from mesh.transport.kafka import cluster_id

CLIENT_PORT = 9092
ADVERTISED = "/var/lib/kafka/advertised"


class KafkaContainer(DockerContainer):  # type: ignore[misc]
    """A Kafka cluster of one broker.

    The mapped port is known only once the container runs, and the broker must advertise it: so the
    image's entry point waits for a file, which `start` writes.
    """

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.with_exposed_ports(CLIENT_PORT)

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients on this machine."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(CLIENT_PORT)}"

    def start(self) -> KafkaContainer:
        """Start it and tell it its address; returns before it serves, see `wait_ready`."""
        super().start()
        code, output = self.exec(["sh", "-c", f"echo {self.bootstrap_servers} > {ADVERTISED}"])
        assert code == 0, output.decode()
        return self

    def wait_ready(self, deadline_s: float = 90) -> str:
        """Wait until a client gets an answer and return the Kafka cluster's identity."""
        end_s = time.monotonic() + deadline_s
        while True:
            try:
                return cluster_id(self.bootstrap_servers, 2)
            except TransportUnavailableError:
                state = self.get_wrapped_container()
                state.reload()
                if state.status != "running" or time.monotonic() > end_s:
                    out, err = self.get_logs()
                    tail = (out + err).decode(errors="replace")[-2000:]
                    raise AssertionError(f"broker is {state.status}, not ready:\n{tail}") from None
