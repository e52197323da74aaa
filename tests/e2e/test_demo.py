"""`mesh demo` as people run it: real brokers, real Spark, an account that adds up, nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S

TAG = "MESH_TEST_TAG"
RATE, DURATION_S = 300, 10

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def processes_of(tag: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TAG) == tag:
                found.append(" ".join(process.cmdline())[:100])
        except psutil.Error:
            continue
    return found


def test_demo_delivers_certifies_and_leaves_nothing_behind(
    kafka_software: object, tmp_path: Path
) -> None:
    """Spec: DESIGN 10, DESIGN 7."""
    tag = uuid.uuid4().hex
    run = subprocess.run(
        [
            *(sys.executable, "-m", "mesh", "demo", "-o", "json"),
            *("--duration", str(DURATION_S), "--rate", str(RATE)),
        ],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        check=False,
        env={
            **os.environ,
            TAG: tag,
            "TMPDIR": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
        },
    )
    assert processes_of(tag) == []
    assert "Traceback" not in run.stderr
    assert "the last -" not in run.stderr  # no proof is ahead of its messages
    account = json.loads(run.stdout)
    assert "error" not in account, (account, run.stderr)
    assert (run.returncode, account["faults"], account["findings"]) == (0, [], []), run.stderr
    flights = RATE * DURATION_S
    assert account["flights"] == flights
    assert account["published"] > flights
    assert account["endpoints"]["pa2/all"] == {
        "class": "guaranteed",
        "expected": flights,
        "delivered": flights,
        "missing": 0,
        "duplicates": 0,
    }
    # Everything crosses the chain once, whoever wants it behind it.
    assert account["links"]["ny1->pa1"]["messages"] == flights
    assert account["links"]["pa1->pa2"]["messages"] == flights
    assert account["links"]["sg1->ld1"]["direct"] > 0
    assert account["certificates"] > 0
    assert account["certified"] == account["delivered_by_class"]["guaranteed"]
    assert account["memory_mb"] < 6000
    assert [one.name for one in tmp_path.glob("mesh-demo-*")] == []
