"""Kinds of machine that there are images for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from mesh.errors import StartError
from mesh.testing.contents import NO_DOCKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A kind of machine.

    Attributes:
        name: As Docker and Debian call it.
        python: As Python's packages call it.
        triplet: Part of the names of Debian's folders for its libraries.
        elf: What its programs say that they are for.
    """

    name: str
    python: str
    triplet: str
    elf: int


MACHINES: Mapping[str, Machine] = {
    one.name: one
    for one in (
        Machine(name="amd64", python="x86_64", triplet="x86_64-linux-gnu", elf=62),
        Machine(name="arm64", python="aarch64", triplet="aarch64-linux-gnu", elf=183),
    )
}


def machine_here() -> Machine:
    """Return the kind of machine on which the Docker engine runs.

    Raises:
        StartError: No engine answers, or it is on a kind that there are no images for.
    """
    if shutil.which("docker") is None:
        raise StartError(NO_DOCKER)
    asked = ["docker", "version", "--format", "{{.Server.Arch}}"]
    engine = subprocess.run(asked, capture_output=True, text=True, check=False)
    if engine.returncode != 0:
        why = engine.stderr.strip().split("\n")[-1]
        raise StartError(
            f"no Docker engine answers: {why}; start one, or say by DOCKER_HOST where it is"
        )
    name = engine.stdout.strip()
    if name not in MACHINES:
        raise StartError(f"images are for {' and '.join(MACHINES)}, and this engine is on {name}")
    return MACHINES[name]
