"""Find a Java that Kafka and Spark accept."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from mesh.errors import StartError

JAVA_VERSION_MIN = 17
_ADVICE = (
    f"install Java {JAVA_VERSION_MIN} or newer (Debian: openjdk-{JAVA_VERSION_MIN}-jre-headless)"
)
_ANSWER_DEADLINE_S = 30


def find_java(java_home: str | None = None) -> Path:
    """Return the `java` program of `java_home`, else the one on PATH.

    Raises:
        StartError: There is none, it does not run, or it is too old.
    """
    place = Path(java_home, "bin", "java") if java_home else None
    found = shutil.which(str(place or "java"))
    if found is None:
        where = f"JAVA_HOME={java_home} has no bin/java" if place else "java is not on PATH"
        raise StartError(f"Java not found: {where}; {_ADVICE}")
    version = _version(found)
    if version < JAVA_VERSION_MIN:
        raise StartError(f"{found} is Java {version}: {_ADVICE}")
    return Path(found)


def _version(java: str) -> int:
    """Return the major version, where Java 8 calls itself 1.8."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_DEADLINE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"{java} does not run: {_ADVICE}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        raise StartError(f"{java} -version tells no version that is known: {_ADVICE}")
    return int(found.group(1))
