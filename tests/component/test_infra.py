"""The files of infra/ agree with the programs and with each other."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from mesh.cli.main import app
from mesh.config.legal import load_legal_topology
from mesh.local.broker_settings import BrokerAddress, server_properties
from mesh.testing import building
from streaming.config import arguments

ROOT = Path(__file__).parents[2]
INFRA, RECIPES = ROOT / "infra", ROOT / "mesh" / "testing" / "images"


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    """The services of the compose file."""
    parsed = YAML(typ="safe").load((INFRA / "compose.yaml").read_text(encoding="utf-8"))
    found: Mapping[str, Any] = parsed["services"]
    return found


def of_image(services: Mapping[str, Any], image: str) -> dict[str, Any]:
    return {name: one for name, one in services.items() if one["image"].startswith(f"{image}:")}


def test_compose_runs_the_nodes_of_its_topology(services: Mapping[str, Any]) -> None:
    """One service per node, each with a command line that exists; its health is its ready file."""
    topology = load_legal_topology(INFRA / "mesh.yaml")
    workers = of_image(services, "trellis-node")
    assert sorted(workers) == sorted(topology.nodes)
    command: Any = typer.main.get_command(app)
    for name, service in workers.items():
        first, second, *rest = service["command"]
        run = command.commands[first].commands[second].make_context("run", rest).params
        assert run["node"] == name
        assert service["healthcheck"]["test"][-1] == str(run["ready_file"])


def test_compose_brokers_are_where_the_topology_looks(services: Mapping[str, Any]) -> None:
    """Every Kafka cluster of the topology is a service that advertises the address used there."""
    topology = load_legal_topology(INFRA / "mesh.yaml")
    brokers = of_image(services, "trellis-kafka")
    assert {name: one["environment"]["ADVERTISED"] for name, one in brokers.items()} == {
        name: kafka.options["bootstrap.servers"] for name, kafka in topology.kafka.items()
    }
    for service in brokers.values():
        host_port = service["environment"]["ADVERTISED_ON_HOST"].split(":")[1]
        assert service["ports"] == [f"127.0.0.1:{host_port}:9095"]


def test_compose_audit_takes_its_arguments(services: Mapping[str, Any]) -> None:
    """The checkpoint is on a volume."""
    (service,) = of_image(services, "trellis-audit").values()
    parsed = arguments().parse_args(service["command"])
    assert f"checkpoint:{parsed.checkpoint}" in service["volumes"]


def test_container_broker_has_the_settings_of_the_embedded_one() -> None:
    """What the entry point writes is what embedded brokers have, or is not set at all."""
    address = BrokerAddress(node_id=1, port=9092, controller_port=9093)
    embedded = settings_of(server_properties(address, [address], "data").splitlines())
    script = (RECIPES / "kafka-entrypoint.sh").read_text(encoding="utf-8")
    written = settings_of(script.split("<<PROPERTIES\n")[1].split("\nPROPERTIES")[0].splitlines())
    own = {"listener.security.protocol.map", "inter.broker.listener.name"}
    assert written.keys() - own <= embedded.keys()
    same = {
        key
        for key in written.keys() - own
        if "$" not in written[key] and "127.0.0.1" not in written[key]
    }
    assert len(same) > 10
    assert {key: written[key] for key in same} == {key: embedded[key] for key in same}


def settings_of(lines: Sequence[str]) -> dict[str, str]:
    return {key: value for key, equals, value in (line.partition("=") for line in lines) if equals}


@pytest.mark.parametrize("script", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    """Bash finds no syntax error."""
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_unknown_image_is_named() -> None:
    """A typo is told with what there is, and exit code 2."""
    answer = subprocess.run(
        [sys.executable, "-m", "mesh.testing", "build", "kafak"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "'kafak' is not one of 'kafka', 'node', 'audit'" in answer.stderr


def test_images_are_made_of_what_is_installed(tmp_path: Path) -> None:
    """Every file that a Dockerfile takes is laid beside it, or is one of ours in the wheel."""
    recipes = files("mesh.testing") / "images"
    laid = {"kafka": {"jars/"}, "node": {"site/", "mesh"}}
    laid["audit"] = laid["node"] | {"audit-site/", "ivy-spark/"}
    assert set(building.stages) == set(laid)
    for image, known in laid.items():
        text = (recipes / f"Dockerfile.{image}").read_text(encoding="utf-8")
        taken = set(re.findall(r"^COPY (?:--\S+ )?(\S+) ", text, re.MULTILINE))
        assert taken - known <= {one.name for one in recipes.iterdir()}
        assert known <= taken


def test_no_docker_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    """It says what to install."""
    answer = subprocess.run(
        [sys.executable, "-m", "mesh.testing", "build", "kafka"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "error: docker not found: install docker.io, or Docker\n"
