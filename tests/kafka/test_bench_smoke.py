"""The benchmark works: every measurement is there, none is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mesh.local.jars import KafkaSoftware

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
MESSAGES = 10_000
CONTENDERS = [
    "raw",
    "raw+headers",
    "ingress",
    "transit",
    "delivery",
    "ingress direct",
    "transit direct",
    "delivery direct",
]


def test_smoke_run_measures_everything(tmp_path: Path, kafka_software: KafkaSoftware) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "-m", "tests.bench", "--smoke", "--out", str(out)]
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(out.read_text(encoding="utf-8"))
    assert list(found["contenders"]) == CONTENDERS
    assert found["settings"]["messages"] == MESSAGES
    [counted] = found["rounds"]
    # Every message went through all three nodes, and each was counted in the endpoint's topic.
    assert counted["delivered"] == {"sink-g": MESSAGES, "sink-d": MESSAGES}
    assert sum(figure["cpu"] for figure in counted["figures"].values()) > 0
    for row in found["contenders"].values():
        assert row["cpu"]["min"] <= row["cpu"]["median"] <= row["cpu"]["max"]
    assert {*found["latency_ms"]} == {"raw+headers@50", "direct@50", "guaranteed@50"}
    assert {*found["idle"]} == {"a", "b", "c"}
    assert found["bytes_per_filter"] > 0
    assert all({"name", "limit", "found", "met"} <= goal.keys() for goal in found["goals"])
    assert {"commit", "kafka", "librdkafka", "cores"} <= found["about"].keys()
    for name in CONTENDERS:
        assert name in done.stdout
