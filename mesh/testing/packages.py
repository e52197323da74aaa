"""Which packages of Python an image gets: those that are installed here, to the very files.

In a checkout each must be one whose hash is in `requirements.lock`. Elsewhere there is none, and
the versions that are installed are what was chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mesh.errors import missing_package
from mesh.testing.machines import Machine

LOCK = Path(__file__).parents[2] / "requirements.lock"
LOCKED = re.compile(r"^(\S+)==(\S+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
HASH = re.compile(r"--hash=\S+")


def needed(distribution: str, extras: Sequence[str], machine: Machine) -> Sequence[str]:
    """Return a distribution's dependencies, theirs included, as lines for pip.

    Args:
        distribution: What is installed here; it is not among them.
        extras: Of it that are wanted.
        machine: Where they will run, by Linux.

    Raises:
        StartError: One is not installed here.
    """
    found: set[tuple[str, frozenset[str]]] = set()
    left = _requirements(distribution, extras, machine)
    while left:
        one = left.pop()
        name, more = canonicalize_name(one.name), frozenset(one.extras)
        if (name, more) not in found:
            found.add((name, more))
            left += _requirements(name, sorted(more), machine)
    return lines(sorted({name for name, _ in found}))


def lines(names: Iterable[str]) -> Sequence[str]:
    """Return the lines by which pip gets packages as they are installed here.

    Raises:
        StartError: One is not installed here.
    """
    known = LOCKED.findall(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else ()
    hashes = {(name, version): HASH.findall(rest) for name, version, rest in known}
    return [
        " ".join([f"{name}=={version}", *hashes.get((name, version), ())])
        for name, version in ((name, version_of(name)) for name in names)
    ]


def version_of(name: str) -> str:
    """Return the version that is installed here.

    Raises:
        StartError: None is.
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise missing_package(f"{name} is not installed", "testing,audit,api,otel") from None


def _requirements(name: str, extras: Sequence[str], machine: Machine) -> list[Requirement]:
    where = {
        "platform_machine": machine.python,
        "platform_system": "Linux",
        "sys_platform": "linux",
    }
    version_of(name)
    told = map(Requirement, metadata.distribution(name).requires or ())
    return [
        one
        for one in told
        if one.marker is None
        or any(one.marker.evaluate({**where, "extra": extra}) for extra in ("", *extras))
    ]
