"""Our images, made of what is installed here: Dockerfiles lie beside this module, in the wheel.

What goes into an image is fetched on this machine (packages by pip, in the versions that this very
interpreter has; jars into the cache), so `docker build` needs no network where its base has Java
and Python already. Bases are made by debootstrap where none can be pulled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.resources import as_file, files
from pathlib import Path

from mesh.errors import StartError
from mesh.local.jars import Progress, cache_folder, find_kafka
from mesh.testing.machines import Machine
from mesh.testing.packages import lines, needed

DISTRIBUTION = "trellis-mesh"
PACKAGES = ("mesh", "streaming", "schemas")
EXTRAS = ("api", "otel")
"""A node's image has what `mesh dashboard` and `mesh node run --traces` take."""

PUBLIC_BASE = "debian:bookworm-slim"
OWN_BASES = {"node": "trellis-python:bookworm"}
OWN_BASE = "trellis-base:bookworm"
PYTHON = "3.11"
"""What Debian 12 has."""

START = "#!/usr/bin/python3\nfrom mesh.__main__ import main\nmain()\n"
SPARK = ("pyspark", "py4j")
FETCH_SPARK = (
    "import sys; from pathlib import Path; from streaming.connectors import session; "
    "cache = Path(sys.argv[1]); "
    "session.knows_jars(cache) or session.start_session(cache, cores=1).stop()"
)
"""A process of its own: Java's virtual machine would stay in this one."""


def build(
    image: str,
    machine: Machine,
    *,
    tag: str = "dev",
    base: str | None = None,
    progress: Progress = print,
) -> str:
    """Make an image and return its name.

    Args:
        image: `kafka`, `node` or `audit`.
        machine: Which Python's packages are for; what the base has is for the engine's own.
        tag: Of `trellis-kafka`, `trellis-node` or `trellis-audit`.
        base: Image to build on; None takes what is here, can be pulled, or can be made.
        progress: Told what is going on.

    Raises:
        StartError: No Docker engine, a package is not installed, or a step failed.
    """
    with (
        _recipes() as recipes,
        tempfile.TemporaryDirectory(prefix="trellis-image-") as folder,
    ):
        context = Path(folder)
        stages[image](context, machine, progress)
        shutil.copy(recipes / "kafka-entrypoint.sh", context)
        on = base or _base(image, recipes)
        name = f"trellis-{image}:{tag}"
        progress(f"building {name} on {on}")
        _docker_build(name, recipes / f"Dockerfile.{image}", folder, BASE=on)
    return name


def build_whole(kafka: str, node: str, *, tag: str = "dev", progress: Progress = print) -> str:
    """Make the image of a whole small mesh out of those of its parts, and return its name.

    Args:
        kafka: Image of a broker that is here.
        node: Image of a node that is here.
        tag: Of `trellis-mesh`.
        progress: Told what is going on.

    Raises:
        StartError: No Docker engine, or the step failed.
    """
    name = f"trellis-mesh:{tag}"
    with _recipes() as recipes, tempfile.TemporaryDirectory(prefix="trellis-image-") as folder:
        progress(f"building {name} of {kafka} and {node}")
        _docker_build(name, recipes / "Dockerfile.mesh", folder, KAFKA=kafka, NODE=node)
    return name


@contextmanager
def _recipes() -> Iterator[Path]:
    """Give the folder of the Dockerfiles."""
    with as_file(files("mesh.testing") / "images") as recipes:
        yield recipes


def _docker_build(name: str, recipe: Path, folder: str, **arguments: str) -> None:
    given = {"VERSION": metadata.version(DISTRIBUTION), **arguments}
    command = ["docker", "build", "--quiet", "-t", name, "-f", str(recipe)]
    command += [word for key, one in given.items() for word in ("--build-arg", f"{key}={one}")]
    _run([*command, folder], env={"DOCKER_BUILDKIT": str(int(_has_buildkit()))})


def _stage_kafka(context: Path, _machine: Machine, progress: Progress) -> None:
    software = find_kafka(cache=_cache(), progress=progress)
    shutil.copytree(software.jars, context / "jars", ignore=shutil.ignore_patterns("classes-*"))


def _stage_node(context: Path, machine: Machine, progress: Progress) -> None:
    """Packages for the image's Python without an installer, and this one as it is here."""
    progress("fetching packages")
    site = context / "site"
    distribution = metadata.distribution(DISTRIBUTION)
    _install(site, _listed(context, needed(DISTRIBUTION, EXTRAS, machine)), machine)
    for package in PACKAGES:
        with as_file(files(package)) as source:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, site / package, ignore=ignored)
    about = site / f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}.dist-info"
    about.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (about / name).write_text(distribution.read_text(name) or "", encoding="utf-8")
    (context / "mesh").write_text(START, encoding="utf-8")
    (context / "mesh").chmod(0o755)


def _stage_audit(context: Path, machine: Machine, progress: Progress) -> None:
    """What a node has; PySpark, which is built of its sources; and the jars that Spark fetches."""
    _stage_node(context, machine, progress)
    wheels = context / "wheels"
    _pip("wheel", "--no-deps", "-w", str(wheels), *_listed(context, lines(SPARK)))
    # By name, or where they lie is written down and the layer is another one each time.
    _install(context / "audit-site", ["--no-index", "--find-links", str(wheels), *SPARK], machine)
    shutil.rmtree(wheels)
    progress("taking Spark's jars; where they are not here, Spark starts once and fetches them")
    _run([sys.executable, "-c", FETCH_SPARK, str(_cache())])
    # Archives of classes are of this machine's Java, and Ivy's own copies serve nobody any more.
    unused = shutil.ignore_patterns("classes-*", "cache")
    shutil.copytree(_cache() / "ivy-spark", context / "ivy-spark", ignore=unused)


stages: Mapping[str, Callable[[Path, Machine, Progress], None]] = {
    "kafka": _stage_kafka,
    "node": _stage_node,
    "audit": _stage_audit,
}
"""What is laid beside each Dockerfile, by image."""


def _listed(context: Path, packages: Sequence[str]) -> Sequence[str]:
    """Return what has pip take these lines, and nothing with another hash than they name."""
    file = context / "packages.txt"
    file.write_text("\n".join(packages), encoding="utf-8")
    return ["-r", str(file)]


def _install(site: Path, what: Sequence[str], machine: Machine) -> None:
    """Install for the image's Python and a kind of machine."""
    kinds = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    platforms = [word for kind in kinds for word in ("--platform", f"{kind}_{machine.python}")]
    options = ["--target", str(site), "--no-deps", "--no-compile"]
    options += ["--python-version", PYTHON, "--implementation", "cp", "--only-binary=:all:"]
    _pip("install", "--root-user-action", "ignore", *options, *platforms, *what)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for stub in site.rglob("*.pyi"):  # for who checks types, which nobody does there
        stub.unlink()


def _base(image: str, recipes: Path) -> str:
    """Return what to build on: what is here, else what can be pulled, else what is made here."""
    own = OWN_BASES.get(image, OWN_BASE)
    for name, ask in ((own, ["image", "inspect"]), (PUBLIC_BASE, ["image", "inspect"])):
        if _succeeds(["docker", *ask, name]):
            return name
    if _succeeds(["docker", "pull", "--quiet", PUBLIC_BASE]):
        return PUBLIC_BASE
    _run(["bash", str(recipes / "build-base.sh")])
    return own


def _has_buildkit() -> bool:
    return _succeeds(["docker", "buildx", "version"])


def _cache() -> Path:
    return cache_folder(os.environ.get("MESH_CACHE"))


def _succeeds(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _pip(*arguments: str) -> None:
    _run([sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"])


def _run(command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """Run a step; what it has to say is on standard error.

    Raises:
        StartError: It failed, or there is no such program.
    """
    if shutil.which(command[0]) is None:
        raise StartError(f"{command[0]} not found: install it")
    done = subprocess.run(
        command, stdout=sys.stderr, env={**os.environ, **(env or {})}, check=False
    )
    if done.returncode != 0:
        shown = " ".join(Path(word).name if "/" in word else word for word in command[:4])
        raise StartError(f"`{shown} ...` failed with exit code {done.returncode}: see above")
