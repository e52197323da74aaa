"""What an image consists of, as a software bill of materials in CycloneDX's JSON.

The image itself is asked, in a container without a network: Debian's packages, Python's, and jars.
"""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from mesh.errors import StartError

DEBIAN = ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n"]
PYTHON = (
    "from importlib.metadata import distributions\n"
    "for one in distributions(): print(one.metadata['Name'], one.version, sep='\\t')"
)
JARS = "find /opt /var/lib/mesh -name '*.jar' 2>/dev/null | sed 's:.*/::' | sort -u"
JAR = re.compile(r"(.+?)-(\d[^/]*)\.jar")

Component = Mapping[str, Any]


def bill_of(image: str) -> Mapping[str, Any]:
    """Return the bill of materials of an image that the Docker engine has.

    Raises:
        StartError: It cannot be asked.
    """
    found = [*_debian(image), *_python(image), *_jars(image)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, repr(found))}",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image, "bom-ref": image}},
        "components": found,
    }


def _debian(image: str) -> Iterator[Component]:
    for name, version, machine in _asked(image, DEBIAN):
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}&distro=debian-12"
        yield _component("library", name, version, purl)


def _python(image: str) -> Iterator[Component]:
    has_python = _asked(image, ["sh", "-c", "command -v python3 || true"])
    rows = _asked(image, ["python3", "-c", PYTHON]) if has_python else []
    for name, version in sorted(map(tuple, rows)):
        yield _component("library", name, version, f"pkg:pypi/{name.lower()}@{quote(version)}")


def _jars(image: str) -> Iterator[Component]:
    for (file,) in _asked(image, ["sh", "-c", JARS]):
        match = JAR.fullmatch(file)
        name, version = match.groups() if match else (file, "")
        yield _component("file", name, version, f"pkg:generic/{name}@{quote(version)}")


def _component(kind: str, name: str, version: str, purl: str) -> Component:
    return {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _asked(image: str, command: Sequence[str]) -> list[list[str]]:
    """Return the lines that a command says in the image, cut at tabs."""
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", command[0], image]
    done = subprocess.run([*run, *command[1:]], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"{image} does not tell what it has: {done.stderr.strip()[-200:]}")
    return [line.split("\t") for line in done.stdout.splitlines()]
