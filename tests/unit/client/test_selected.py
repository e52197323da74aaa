"""The mesh of the context in force, for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.client import selected_topology
from mesh.config.context import Context, select_context, select_local
from mesh.errors import ConfigError

FILE = """
apiVersion: mesh/v1
kind: Mesh
metadata: {name: m}
spec:
  kafka: {k: {}}
  nodes: {a: {}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MESH_CONTEXT", raising=False)
    path = tmp_path / "mesh.yaml"
    path.write_text(FILE)
    return path


def test_embedded_brokers_are_found_where_the_mesh_was_started(file: Path) -> None:
    """Their addresses stand in no file: `connect` refused it by NO_ADDRESS."""
    select_local(Context("m", file, {"k": "127.0.0.1:9"}))
    [kafka] = selected_topology().kafka.values()
    assert kafka.options["bootstrap.servers"] == "127.0.0.1:9"


def test_a_context_may_be_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    select_local(Context("m", file, {"k": "127.0.0.1:9"}))
    select_local(Context("other", file, {"k": "127.0.0.1:8"}))
    found = selected_topology("m")
    select_context("m")
    assert selected_topology() == found
    monkeypatch.setenv("MESH_CONTEXT", "other")
    assert selected_topology() == selected_topology("other") != found


def test_where_none_is_selected_it_is_said_how(file: Path) -> None:
    with pytest.raises(ConfigError, match="mesh up"):
        selected_topology()
    with pytest.raises(ConfigError, match="'nowhere'"):
        selected_topology("nowhere")
