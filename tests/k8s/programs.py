"""Kubernetes, a DNS server and Helm as programs, built once from Go modules into the cache.

`python -m tests.k8s.programs` builds them ahead, so that no test waits for that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mesh.errors import StartError
from mesh.local.jars import cache_folder
from mesh.local.processes import Process, spawn

SOURCES = Path(__file__).with_name("programs")
VERSION = "v1.34.4"
BUILD_S = 3_600.0
"""The longest build: ten minutes on two cores that nobody else uses."""

PACKAGES = ("./kubernetes", "./dns", "./pause", "helm.sh/helm/v3/cmd/helm")


def build(cache: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder with the programs `kubernetes`, `dns`, `pause` and `helm`.

    The first build takes minutes, and seconds where Go's own cache has the parts; after that the
    folder is there, under a name made of the sources. Whatever ends us ends the compiler too.

    Raises:
        StartError: It does not compile, or Go is not installed.
    """
    content = hashlib.sha256(VERSION.encode())
    for source in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        content.update(source.read_bytes())
    folder = cache / f"kubernetes-{content.hexdigest()[:12]}"
    if folder.exists():
        return folder
    progress("building Kubernetes, once")
    begun_s = time.monotonic()
    made = cache / f"{folder.name}.{os.getpid()}"
    made.mkdir(parents=True)
    make = ["go", "build", "-C", str(SOURCES), "-mod=readonly", "-trimpath", f"-ldflags={_flags()}"]
    going: Process | None = None
    try:
        going = spawn(
            [*make, "-o", f"{made}/", *PACKAGES],
            name="go build",
            log=made / "log",
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
        )
        going.wait(BUILD_S)
        if going.returncode != 0:
            why = "took over an hour" if going.is_alive() else going.log_tail(20)
            raise StartError(f"go build: {why}")
        going.log.unlink()
        with suppress(OSError):  # somebody else was faster
            made.rename(folder)
    finally:
        if going is not None:
            going.kill()
        shutil.rmtree(made, ignore_errors=True)
    progress(f"built Kubernetes in {time.monotonic() - begun_s:.0f} s")
    return folder


def _flags() -> str:
    """Return what tells the programs their version: charts ask for it."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    facts = {
        "gitVersion": VERSION,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    package = "k8s.io/component-base/version"
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={is_}" for name, is_ in facts.items())])


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _stop(number: int, frame: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    build(cache_folder(os.environ.get("MESH_CACHE")), _say)
