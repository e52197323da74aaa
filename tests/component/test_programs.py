"""Building Kubernetes for tests ends with whoever began it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
COMPILES = """\
#!/bin/sh
sleep 600 &
echo "$$ $!" > "$PIDS.new" && mv "$PIDS.new" "$PIDS"
wait
"""


def until(holds: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.05)
    return holds()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_build_that_is_told_to_end_leaves_nothing_running(tmp_path: Path) -> None:
    """Neither `go` nor what it has started, which would keep both cores busy; nor half a folder."""
    go, pids, cache = tmp_path / "bin" / "go", tmp_path / "pids", tmp_path / "cache"
    go.parent.mkdir()
    go.write_text(COMPILES, encoding="utf-8")
    go.chmod(0o755)
    path = f"{go.parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PIDS": str(pids), "MESH_CACHE": str(cache)}
    with subprocess.Popen([sys.executable, "-m", "tests.k8s.programs"], cwd=ROOT, env=env) as build:
        try:
            assert until(pids.exists)
            running = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
            build.terminate()
            assert build.wait(PATIENCE_S) == 128 + signal.SIGTERM
        finally:
            build.kill()
    assert until(lambda: all(map(is_gone, running)))
    assert list(cache.iterdir()) == []
