"""A Docker engine (one that answers, else our own) and our images, for containers and pods."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mesh.local.jars import BROKER_JARS, cache_folder
from mesh.local.processes import Process, spawn
from tests.patience import PATIENCE_S

RECIPES = Path(__file__).parents[1] / "mesh" / "testing" / "images"
KAFKA_INPUTS = ("Dockerfile.kafka", "kafka-entrypoint.sh", "build-base.sh")


def engine_problem(docker_host: str | None) -> str | None:
    """Return why no Docker engine answers, or None when one does."""
    if shutil.which("docker") is None:
        return "no docker command"
    env = {**os.environ, **({"DOCKER_HOST": docker_host} if docker_host else {})}
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    answer = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return None if answer.returncode == 0 else answer.stderr.strip().split("\n")[-1]


@pytest.fixture(scope="session")
def docker_engine(
    unavailable: Callable[[str, str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A Docker engine that answers, in DOCKER_HOST.

    Without one, root with `dockerd` at hand gets a private one, whose images stay in the cache.
    No engine at all is the only reason to skip.
    """
    patch = pytest.MonkeyPatch()
    patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")  # its image cannot be pulled everywhere
    problem = engine_problem(None)
    if problem is None:
        yield
        patch.undo()
        return
    given = "DOCKER_HOST" in os.environ
    if given or os.geteuid() != 0 or shutil.which("dockerd") is None:
        unavailable("docker", f"no Docker engine answers ({problem}) and we cannot start one")
    folder = tmp_path_factory.mktemp("docker")
    engine, socket = start_engine(folder)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while (problem := engine_problem(socket)) is not None:
            if not engine.is_alive() or time.monotonic() > end_s:
                unavailable("docker", f"dockerd did not start: {engine.log_tail(1)}")
            engine.wait(0.2)
        patch.setenv("DOCKER_HOST", socket)
        yield
    finally:
        patch.undo()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.pid, signal.SIGTERM)  # its launcher passes no signal on
        engine.wait(30)
        engine.kill()


def start_engine(folder: Path) -> tuple[Process, str]:
    """Start a private engine on a socket of its own.

    It has process numbers and mounts to itself, so that all it started ends with it, even when we
    are killed: a network that a dead engine leaves mounted keeps the addresses of its containers,
    and the next engine gives them out again.
    """
    root = cache_folder(os.environ.get("MESH_CACHE")) / "docker"
    socket = f"unix://{folder}/docker.sock"
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation=private"]
    command = [*alone, "dockerd", "--host", socket, "--data-root", str(root)]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    return spawn(command, name="dockerd", log=folder / "dockerd.log"), socket


@pytest.fixture(scope="session")
def kafka_image(docker_engine: None, request: pytest.FixtureRequest) -> str:
    """Our Kafka image, built once per content; MESH_KAFKA_IMAGE names another."""
    named = os.environ.get("MESH_KAFKA_IMAGE")
    if named:
        return named
    request.getfixturevalue("kafka_software")  # the jars, fetched under their own messages
    content = hashlib.sha256(BROKER_JARS.folder_name().encode())
    for name in KAFKA_INPUTS:
        content.update((RECIPES / name).read_bytes())
    tag = content.hexdigest()[:12]
    look = ["docker", "image", "inspect", f"trellis-kafka:{tag}"]
    if subprocess.run(look, capture_output=True, check=False).returncode != 0:
        build("kafka", tag)
    return f"trellis-kafka:{tag}"


@pytest.fixture(scope="session")
def node_image(docker_engine: None) -> str:
    """An image of a worker made of this very work tree; MESH_NODE_IMAGE names another."""
    named = os.environ.get("MESH_NODE_IMAGE")
    if named:
        return named
    build("node", "test")
    return "trellis-node:test"


@pytest.fixture(scope="session")
def audit_image(request: pytest.FixtureRequest) -> str:
    """An image of the auditor made of this very work tree; MESH_AUDIT_IMAGE names another."""
    named = os.environ.get("MESH_AUDIT_IMAGE")
    if named:
        return named
    request.getfixturevalue("docker_engine")
    build("audit", "test")
    return "trellis-audit:test"


def build(image: str, tag: str) -> None:
    """Build an image as users do; a failure is a failure, never a skip."""
    command = [sys.executable, "-m", "mesh.testing", "build", image, "--tag", tag]
    subprocess.run(command, check=True)
