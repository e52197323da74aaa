"""What the lab counts of queues: what is missing or doubled among members, and what was moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesh.errors import ConfigError
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.model.queues import MOVED_EXT
from mesh.model.record_headers import MESH_HEADER
from mesh.transport.port import TopicPartition
from mesh.wire.deliveries import decode_delivery, encode_delivery

TEXT = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: queues}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {}, b: {}, c: {}}
    zones: {Z: {kind: one-hop, nodes: [a, b, c]}}
  steps:
    - subscribe: {node: a, endpoint: q, filter: ">", kind: queue, policy: any}
    - subscribe: {node: b, endpoint: q, filter: ">", kind: queue, policy: any}
    - settle: {}
    - publish: {node: c, subject: x, count: 3, key: k}
    - drain: {}
    - kill: {node: c}
    - drain: {}
"""


class Meddling(SimulatedBackend):
    """Copies what a has to b when a node is killed, as if moved so often."""

    moves = 0

    def kill(self, node: str) -> None:
        super().kill(node)
        kafka = self.kafka["k"]
        reader, writer = kafka.reader("test"), kafka.writer("test")
        reader.assign({TopicPartition("mesh.a.ep.q", number): 0 for number in range(4)})
        for record in reader.read(0.0, 100):
            *own, (_, content) = record.headers() or []
            delivery = decode_delivery(content or b"")
            if self.moves:
                delivery = replace(delivery, ext={MOVED_EXT: self.moves.to_bytes(8, "big")})
            headers = [*own, (MESH_HEADER, encode_delivery(delivery))]
            writer.produce("mesh.b.ep.q", record.value(), record.key(), 0, headers=headers)
        assert writer.flush() == 0


def endpoints_after(tmp_path: Path, moves: int) -> Mapping[str, Any]:
    path = tmp_path / "queues.yaml"
    path.write_text(TEXT)
    scenario = load_scenario(path)
    backend = Meddling(scenario.topology, 1)
    backend.moves = moves
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    found = result["endpoints"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("moves", "doubled"), [(0, 3), (1, 0)])
def test_a_second_copy_is_a_duplicate_unless_it_was_moved(
    tmp_path: Path, moves: int, doubled: int
) -> None:
    """Spec: lab.md 2, DESIGN 6."""
    found = endpoints_after(tmp_path, moves)
    assert {name: one["count"] for name, one in found.items()} == {"a/q": 3, "b/q": 3}
    assert {name: one["duplicates"] for name, one in found.items()} == {"a/q": 0, "b/q": doubled}
    assert all(one["missing"] == 0 for one in found.values())


def test_only_a_queue_has_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(TEXT.replace("kind: queue, policy: any", "policy: any"))
    with pytest.raises(ConfigError, match="only a queue has a policy; write kind: queue"):
        load_scenario(path)
