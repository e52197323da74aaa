"""The auditor ends when it is told to, whatever it waits for, and so does its JVM."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.spark

#: Nobody answers there: the auditor asks again and again.
MESH = """
apiVersion: mesh/v1
kind: Mesh
metadata: {name: away}
spec:
  kafka: {k: {bootstrap.servers: "127.0.0.1:1"}}
  nodes: {a: {kafka: k}, b: {kafka: k}}
  zones: {Z: {kind: one-hop, nodes: [a, b]}}
"""

END_S = 5.0


@pytest.mark.parametrize(
    ("line", "number", "at_whom"),
    [
        ("starting Spark", signal.SIGINT, "outer"),
        ("Spark runs", signal.SIGTERM, "outer"),
        ("k does not answer; trying again", signal.SIGINT, "outer"),
        ("starting Spark", signal.SIGKILL, "outer"),
        ("starting Spark", signal.SIGKILL, "inner"),
    ],
)
def test_python_and_jvm_end_within_seconds(tmp_path: Path, line, number, at_whom) -> None:
    """While Spark starts, and while a Kafka cluster does not answer; also if one half dies."""
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    command = [sys.executable, "-m", "streaming", "-f", str(path), "--checkpoint", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while line not in (told := process.stderr.readline()):
            assert told, "it ended by itself"
        outer = psutil.Process(process.pid)
        (inner,) = outer.children()
        family = [outer, *outer.children(recursive=True)]
        (outer if at_whom == "outer" else inner).send_signal(number)
        _, left = psutil.wait_procs(family, timeout=END_S)
        alive = [one for one in left if not is_zombie(one)]
        for one in alive:
            one.kill()
        assert alive == []
        expected = {signal.SIGKILL: -9 if at_whom == "outer" else 1}.get(number, 0)
        assert outer.wait() == expected


def is_zombie(process: psutil.Process) -> bool:
    """Return whether a process has ended and only waits for its parent to ask how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
