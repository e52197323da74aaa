"""What an image consists of: its files, and a software bill of materials in CycloneDX's JSON.

Nothing of the image runs for that, so it may be one for another kind of machine.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mesh.errors import StartError

NO_DOCKER = "docker not found: install docker.io, or Docker"
DPKG_STATUS = "var/lib/dpkg/status"
JAR = re.compile(r"(.+?)-(\d[^/]*)\.jar")

Component = Mapping[str, Any]


@contextmanager
def files_of(image: str) -> Iterator[tarfile.TarFile]:
    """Give all files of an image that the Docker engine has, as names below the root.

    Raises:
        StartError: It has no such image, or does not give it.
    """
    container = docker("create", image, "none")  # a command, for images that name none
    try:
        with tempfile.TemporaryDirectory(prefix="trellis-image-") as folder:
            kept = Path(folder) / "files.tar"
            docker("export", "-o", str(kept), container)
            with tarfile.open(kept) as files:
                yield files
    finally:
        docker("rm", container)


def docker(*arguments: str) -> str:
    """Return what a command of Docker says.

    Raises:
        StartError: It failed, or there is no such command.
    """
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise StartError(NO_DOCKER) from None
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[-200:]
        raise StartError(f"docker {arguments[0]} failed: {why}")
    return done.stdout.strip()


def text_of(files: tarfile.TarFile, member: str | tarfile.TarInfo) -> str:
    """Return what a file of an image has; nothing where that is not one."""
    content = files.extractfile(member)
    return "" if content is None else content.read().decode(errors="replace")


def debian_packages(files: tarfile.TarFile) -> Mapping[str, str]:
    """Return what dpkg knows of each installed package, by name.

    Raises:
        StartError: The image is not made of Debian.
    """
    try:
        status = text_of(files, DPKG_STATUS)
    except KeyError:
        raise StartError(f"there is no /{DPKG_STATUS} in the image: it is not Debian's") from None
    paragraphs = status.strip().split("\n\n")
    return {fields(paragraph)["Package"]: paragraph for paragraph in paragraphs}


def fields(paragraph: str) -> Message:
    """Return the fields of a paragraph, as Debian and Python write what they know of a package."""
    return HeaderParser().parsestr(paragraph)


def bill_of(image: str) -> Mapping[str, Any]:
    """Return the bill of materials of an image that the Docker engine has.

    Raises:
        StartError: It does not give it, or the image is not made of Debian.
    """
    with files_of(image) as files:
        found = [*_debian(files), *_python(files), *_jars(files)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, repr(found))}",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image, "bom-ref": image}},
        "components": found,
    }


def _debian(files: tarfile.TarFile) -> Iterator[Component]:
    for name, paragraph in sorted(debian_packages(files).items()):
        told = fields(paragraph)
        version, machine = told["Version"], told["Architecture"]
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}&distro=debian-12"
        yield _component("library", name, version, purl)


def _python(files: tarfile.TarFile) -> Iterator[Component]:
    about = [name for name in files.getnames() if name.endswith(".dist-info/METADATA")]
    told = [fields(text_of(files, name)) for name in about]
    for name, version in sorted((one["Name"], one["Version"]) for one in told):
        yield _component("library", name, version, f"pkg:pypi/{name.lower()}@{quote(version)}")


def _jars(files: tarfile.TarFile) -> Iterator[Component]:
    ours = [name for name in files.getnames() if not name.startswith("usr/")]  # else Debian's
    for file in sorted({Path(name).name for name in ours if name.endswith(".jar")}):
        match = JAR.fullmatch(file)
        name, version = match.groups() if match else (file, "")
        yield _component("file", name, version, f"pkg:generic/{name}@{quote(version)}")


def _component(kind: str, name: str, version: str, purl: str) -> Component:
    return {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl}
