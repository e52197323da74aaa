"""How a worker connects to a Kafka cluster that a change brings. Spec: DESIGN 4.6, K27."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.model.topology import DeclaredKafka, Topology
from mesh.worker.main import WorkerProcess
from tests.component.worker.conftest import CHAIN

FILE = topology_from_mapping(CHAIN)
ENVIRONMENT = {"P": "hunter2"}


def serving(options: Mapping[str, str] | None = None) -> WorkerProcess:
    known = {} if options is None else {"new": DeclaredKafka(name="new", options=options)}
    return WorkerProcess(FILE, "a", ENVIRONMENT, read_file=lambda: known)


def told(**options: str) -> Topology:
    written = {name.replace("_", "."): value for name, value in options.items()}
    return replace(FILE, kafka={"new": DeclaredKafka(name="new", options=written)})


def test_of_a_record_no_reference_is_looked_up() -> None:
    """A stranger who can write `mesh.config` would read this process's environment."""
    record = told(bootstrap_servers="stranger:1", client_rack="${env:P}", linger_ms="5")
    assert serving()._options(record, "new") == {
        "bootstrap.servers": "stranger:1",
        "linger.ms": "5",
    }


def test_the_own_file_says_the_way_even_if_a_record_says_another() -> None:
    """Credentials are sent nowhere but to the address that stands beside them."""
    own = {"bootstrap.servers": "home:1", "sasl.password": "${env:P}"}
    record = told(bootstrap_servers="stranger:1", sasl_password="theirs")
    assert serving(own)._options(record, "new") == {
        "bootstrap.servers": "home:1",
        "sasl.password": "hunter2",
    }


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({"bootstrap_servers": "k:1", "security_protocol": "SASL_SSL"}, "credentials"),
        ({"bootstrap_servers": "${env:P}:1"}, "an address"),
    ],
)
def test_what_only_the_own_file_can_say_is_asked_for(options: dict[str, str], lacking: str) -> None:
    with pytest.raises(ConfigError, match=f"is new to this node and wants {lacking}: add it"):
        serving()._options(told(**options), "new")
