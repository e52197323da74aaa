"""Images for another kind of machine than this one, tried in an emulator of its processor."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from mesh.testing.contents import bill_of
from mesh.testing.machines import MACHINES, Machine, machine_here
from tests.conftest import Unavailable
from tests.docker_engine import RECIPES

# Without images at hand the first run makes a whole Debian.
pytestmark = pytest.mark.docker

MB = 1_000_000
ASKED = """
import json, platform, sys
import cel, confluent_kafka, fastavro._read, google.protobuf, psutil, pydantic_core
from mesh.__main__ import main
print(json.dumps([platform.machine(), confluent_kafka.libversion()[0]]))
sys.argv = ["mesh", "validate", "/mesh.yaml"]
main()
"""


@pytest.fixture(scope="module")
def there(docker_engine: None) -> Machine:
    """The kind of machine that this one is not."""
    here = machine_here()
    [other] = [one for one in MACHINES.values() if one is not here]
    return other


@pytest.fixture(scope="module")
def emulator(there: Machine, unavailable: Unavailable) -> str:
    """An emulator of the other processor that is one program without libraries."""
    name = f"qemu-{there.python}-static"
    found = shutil.which(name)
    if found is None:
        unavailable("qemu", f"{name} is not installed (package qemu-user-static)")
    return found


@pytest.fixture(scope="module")
def foreign(there: Machine) -> str:
    """A node's image for the other machine, as users make it."""
    command = [sys.executable, "-m", "mesh.testing", "build", "node", "--machine", there.name]
    build = [*command, "--tag", "test"]
    made = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    return made.stdout.strip()


def about(image: str) -> Any:
    told = subprocess.check_output(["docker", "image", "inspect", image], text=True)
    return json.loads(told)[0]


def test_an_image_is_for_the_other_machine(foreign: str, node_image: str, there: Machine) -> None:
    """It starts as that for this machine does, is as small, and tells what it consists of."""
    told, native = about(foreign), about(node_image)
    assert (told["Architecture"], native["Architecture"]) == (there.name, machine_here().name)
    assert told["Config"]["User"] == "1000"
    for name in ("Entrypoint", "Cmd", "Env", "Labels"):
        assert told["Config"][name] == native["Config"][name]
    assert told["Size"] <= 220 * MB
    assert native["Size"] <= 220 * MB
    listed = {one["name"]: one for one in bill_of(foreign)["components"]}
    assert listed["confluent-kafka"]["version"] == version("confluent-kafka")
    kinds = {purl.partition("?arch=")[2] for purl in (one["purl"] for one in listed.values())}
    assert kinds == {"", "all&distro=debian-12", f"{there.name}&distro=debian-12"}


def test_an_image_for_the_other_machine_runs(foreign: str, emulator: str, there: Machine) -> None:
    """The libraries in C and Rust load, and a command says what it always says."""
    mounts = [f"{emulator}:/emulator:ro", f"{RECIPES / 'mesh.yaml'}:/mesh.yaml:ro"]
    run = ["docker", "run", "--rm", "--network=none", "--read-only", "--entrypoint=/emulator"]
    run += [word for mount in mounts for word in ("-v", mount)]
    done = subprocess.run(
        [*run, foreign, "/usr/bin/python3", "-c", ASKED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert json.loads(first)[0] == there.python
    assert "legal" in "".join(rest)
