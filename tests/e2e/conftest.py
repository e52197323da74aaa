"""A Docker engine (one that answers, else our own) and the image of the Kafka broker."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mesh.errors import StartError
from mesh.lab.jars import BROKER_JARS, cache_folder
from mesh.lab.processes import Process, spawn

INFRA = Path(__file__).parents[2] / "infra"
IMAGE_INPUTS = ("Dockerfile.kafka", "kafka-entrypoint.sh", "build-base.sh", "build-images.sh")
ENGINE_DEADLINE_S = 60


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
) -> Iterator[str | None]:
    """DOCKER_HOST of an engine that answers; None is the client's default.

    Without one, root with `dockerd` at hand gets a private one, whose images stay in the cache.
    No engine at all is the only reason to skip.
    """
    given = os.environ.get("DOCKER_HOST")
    problem = engine_problem(given)
    if problem is None:
        yield given
        return
    if given or os.geteuid() != 0 or shutil.which("dockerd") is None:
        unavailable("docker", f"no Docker engine answers ({problem}) and we cannot start one")
    engine, socket = start_engine(tmp_path_factory.mktemp("docker"))
    try:
        end_s = time.monotonic() + ENGINE_DEADLINE_S
        while (problem := engine_problem(socket)) is not None:
            if not engine.is_alive() or time.monotonic() > end_s:
                unavailable("docker", f"dockerd did not start: {engine.log_tail(1)}")
            engine.wait(0.2)
        yield socket
    finally:
        engine.stop(deadline_s=30)


def start_engine(folder: Path) -> tuple[Process, str]:
    """Start a private engine on a socket of its own; one that runs already keeps its images."""
    root = cache_folder(os.environ.get("MESH_CACHE")) / "docker"
    socket = f"unix://{folder}/docker.sock"
    command = ["dockerd", "--host", socket, "--data-root", str(root)]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    try:
        return spawn(command, name="dockerd", log=folder / "dockerd.log"), socket
    except StartError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def kafka_image(docker_engine: str | None, request: pytest.FixtureRequest) -> Iterator[str]:
    """Our Kafka image, built once per content; MESH_KAFKA_IMAGE names another."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")  # its image cannot be pulled everywhere
    if docker_engine:
        patch.setenv("DOCKER_HOST", docker_engine)
    with patch.context():
        named = os.environ.get("MESH_KAFKA_IMAGE")
        yield named or build_image(request)


def build_image(request: pytest.FixtureRequest) -> str:
    """Build the image under a tag made of its inputs, unless it exists."""
    request.getfixturevalue("kafka_software")  # the jars, fetched under their own messages
    content = hashlib.sha256(BROKER_JARS.folder_name().encode())
    for name in IMAGE_INPUTS:
        content.update((INFRA / name).read_bytes())
    tag = content.hexdigest()[:12]
    image = f"trellis-kafka:{tag}"
    known = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False)
    if known.returncode != 0:
        env = {**os.environ, "TAG": tag, "PYTHON": sys.executable}
        subprocess.run([INFRA / "build-images.sh", "kafka"], env=env, check=True)
    return image
