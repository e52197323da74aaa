"""What the image of a whole mesh is told of the way in from outside."""

from __future__ import annotations

import pytest

from mesh.config.legal import load_legal_topology
from mesh.errors import ConfigError
from mesh.local.broker_settings import BrokerAddress, server_properties
from mesh.testing.all_in_one import advertised
from tests.docker_engine import RECIPES

TOPOLOGY = load_legal_topology(RECIPES / "mesh.yaml")


def test_kafka_clusters_are_at_ports_in_the_order_of_the_file() -> None:
    """Clients are told localhost and that port, unless somebody has mapped it elsewhere."""
    found = advertised(" newyork=docker.test:30000, ", TOPOLOGY, 9092)
    assert {name: (one.port, one.advertised) for name, one in found.items()} == {
        "tokyo": (9092, "localhost:9092"),
        "newyork": (9093, "docker.test:30000"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tokyo", "'tokyo' is not NAME=HOST:PORT"),
        ("tokyo=:1", "is not NAME=HOST:PORT"),
        ("tokyo=h:x", "is not NAME=HOST:PORT"),
        ("tokyo=h:99999", "is not NAME=HOST:PORT, with a port from 1 to 65535"),
        ("tokyo=h:0", "with a port from 1 to 65535"),
        ("tokyo=PLAINTEXT://h:1", "is not NAME=HOST:PORT"),
        ("tokyo=h\nlisteners=x:1", "is not NAME=HOST:PORT"),
        ("tokio=h:1", "no Kafka cluster is called 'tokio'; did you mean tokyo?"),
    ],
)
def test_what_is_no_address_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        advertised(text, TOPOLOGY, 9092)


def test_a_broker_tells_strangers_another_address_than_its_own_machine() -> None:
    """Nodes beside it use loopback: where strangers are sent to need not exist in the container."""
    outside = advertised("tokyo=docker.test:30000", TOPOLOGY, 9092)["tokyo"]
    address = BrokerAddress(node_id=1, port=20001, controller_port=20002)
    text = server_properties(address, [address], "/data", None, outside)
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines["listeners"].split(",") == [
        "PLAINTEXT://127.0.0.1:20001",
        "CONTROLLER://127.0.0.1:20002",
        "OUTSIDE://0.0.0.0:9092",
    ]
    told = lines["advertised.listeners"].split(",")
    assert told == ["PLAINTEXT://127.0.0.1:20001", "OUTSIDE://docker.test:30000"]
    assert lines["inter.broker.listener.name"] == "PLAINTEXT"
