"""`mesh.testing` in memory: what users' unit tests stand on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mesh.errors import ConfigError
from mesh.testing.memory import InMemoryMesh
from mesh.testing.under_test import NotDeliveredError

EXAMPLE = Path(__file__).parents[3] / "examples" / "python"


def test_the_example_application_and_its_tests_work(tmp_path: Path) -> None:
    """As a user runs them: outside of the checkout, with nothing but what is installed."""
    for file in EXAMPLE.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    run = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in run.stdout, run.stdout + run.stderr


def test_what_does_not_come_is_told_with_what_did() -> None:
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        mesh.publish("tk1", "acme/one", b"1")
        with pytest.raises(NotDeliveredError, match=r"1 of 2 messages came to pa1/e .*acme/one"):
            mesh.wait_delivered("pa1", "e", 2, timeout_s=3)


def test_wrong_names_and_illegal_topologies_are_refused() -> None:
    links = {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["a", "c"]]}
    spec = {"kafka": {"k": {}}, "nodes": {n: {"kafka": "k"} for n in "abc"}, "zones": {"Z": links}}
    with pytest.raises(ConfigError, match="TWO_WALKS"):
        InMemoryMesh(spec)
    with InMemoryMesh(
        {**spec, "zones": {"Z": {**links, "links": [["a", "b"], ["b", "c"]]}}}
    ) as mesh:
        with pytest.raises(ConfigError, match="no node is called 'd'; known here: a, b, c"):
            mesh.client("d")
        with pytest.raises(ConfigError, match="a and c are no neighbours"):
            mesh.cut("a", "c")


def test_a_unit_test_loads_neither_docker_nor_java_nor_spark() -> None:
    """Each form is imported by itself."""
    program = "import mesh.testing.memory, sys; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(told.stdout.split())
    assert not loaded & {"testcontainers", "docker", "pyspark", "mesh.local.jars", "pytest"}
