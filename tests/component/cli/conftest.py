"""Command lines run in this process, against a simulated mesh that lives while they wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from mesh.cli.main import main
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.model.topology import with_addresses
from mesh.trees.settings import Settings
from tests.component.in_memory_mesh import CHAIN, Mesh


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ended]
Chain = tuple[Mesh, str]
"""A simulated mesh behind the commands, and its topology file."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`run("status", "-o", "json")`: with contexts of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MESH_CONTEXT", raising=False)
    # Simulated workers log in this very process: not into what a command says.
    monkeypatch.setattr("mesh.worker.process.logs.set_up_logs", lambda **_: None)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())

    def invoke(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0, captured.out, captured.err)

    return invoke


def chain_of(
    spec: Mapping[str, object],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    trees: bool = False,
) -> Iterator[Chain]:
    """Yield a simulated mesh behind the commands, and its topology file."""
    mesh = Mesh(topology_from_mapping(spec), trees=Settings() if trees else None)
    addresses = {"left": "left.test:9092", "right": "right.test:9092"}
    file = folder / "chain.yaml"
    write_topology(with_addresses(mesh.topology, addresses), file)
    monkeypatch.setattr(
        "mesh.view.connection.open_kafka", lambda *_args, **_options: mesh.world.kafka
    )
    monkeypatch.setattr("mesh.client.connect", lambda _topology, node: mesh.client(node))
    monkeypatch.setattr("mesh.transport.clock.now_ms", mesh.now_ms)
    monkeypatch.setattr("mesh.transport.clock.pause", mesh.pause)
    yield mesh, str(file)
    mesh.close()


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chain]:
    """A simulated chain a-b-c behind the commands, and its topology file."""
    yield from chain_of(CHAIN, monkeypatch, tmp_path)


def delivered(mesh: Mesh) -> int:
    """Return how many messages endpoint e of node c has got."""
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    return sum(
        record is not None for log in kafka.topics["mesh.c.ep.e"].logs for record in log.entries
    )
