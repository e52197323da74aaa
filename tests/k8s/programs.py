"""Kubernetes, a DNS server and Helm as programs, built once from Go modules into the cache.

`python -m tests.k8s.programs` builds them ahead, so that no test waits for that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mesh.local.jars import cache_folder

SOURCES = Path(__file__).with_name("programs")
VERSION = "v1.34.4"
PACKAGES = ("./kubernetes", "./dns", "./pause", "helm.sh/helm/v3/cmd/helm")


def build(cache: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder with the programs `kubernetes`, `dns`, `pause` and `helm`.

    The first build takes minutes, and seconds where Go's own cache has the parts; after that the
    folder is there, under a name made of the sources.
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
    try:
        make = ["go", "build", "-mod=readonly", "-trimpath", f"-ldflags={_flags()}"]
        subprocess.run(
            [*make, "-o", f"{made}/", *PACKAGES],
            cwd=SOURCES,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
            check=True,
        )
        with suppress(OSError):  # somebody else was faster
            made.rename(folder)
    finally:
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


if __name__ == "__main__":
    build(cache_folder(os.environ.get("MESH_CACHE")), _say)
