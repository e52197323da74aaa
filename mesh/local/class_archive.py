"""Classes as a JVM keeps them once loaded: who maps an archive of them starts in half the time.

Java's own class data sharing does the work: a JVM that ends leaves an archive, and every one from
then on maps it instead of reading and checking ten thousand classes. A JVM refuses an archive that
does not fit, and loads classes as ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mesh.errors import StartError

UNUSED_S = 7 * 24 * 3600
"""An archive is deleted that nobody has mapped for so long, when another one is made. Installations
beside each other have one each: whoever made theirs used to take the other's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """Where the archive of some classes is, or will be.

    Attributes:
        folder: Made when the archive is.
        java: The `java` that maps it; another one has another archive.
        of: What else it hangs on: classes in other places, or of other versions, do not fit.
    """

    folder: Path
    java: Path
    of: str = ""

    @property
    def name(self) -> str:
        """Return what the archive's name begins with."""
        place = self.java.resolve()
        made_ns = place.stat().st_mtime_ns if place.exists() else 0
        key = f"{place} {made_ns} {self.of}".rstrip()
        return f"classes-{hashlib.sha256(key.encode()).hexdigest()[:10]}"

    def find(self) -> Path | None:
        """Return the archive, if one was made and is there in full: it counts as used now."""
        for found in self.folder.glob(f"{self.name}-*.jsa"):
            if found.stem.rpartition("-")[2] == str(found.stat().st_size):
                with suppress(OSError):
                    os.utime(found)
                return found
        return None

    def make(self, write: Callable[[Path], bool]) -> None:
        """Make the archive, unless it is there or somebody else makes it.

        Without one everything works, only slower: nothing is raised where none can be made.

        Args:
            write: Has a JVM leave it at a path when it ends (`leave`), and says whether that JVM
                ended well. Half an archive would crash who maps it, as one cut short later would.
        """
        with suppress(OSError, StartError):
            if self.find() is not None:
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / f"{self.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self.find() is None:  # somebody else may have been quicker
                    self._make(write)

    def _make(self, write: Callable[[Path], bool]) -> None:
        partial = self.folder / f"{self.name}.{os.getpid()}"
        try:
            if write(partial):
                now_s = partial.stat().st_mtime
                for former in self.folder.glob("classes-*.jsa"):
                    is_own = former.name.startswith(f"{self.name}-")
                    if is_own or now_s - former.stat().st_mtime > UNUSED_S:
                        former.unlink()  # half of this one, or of what was here before: it is large
                size = partial.stat().st_size
                partial.rename(self.folder / f"{self.name}-{size}.jsa")
        finally:
            partial.unlink(missing_ok=True)


def leave(archive: Path) -> str:
    """Return the Java option by which a JVM leaves an archive of its classes when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"


def use(archive: Path) -> str:
    """Return the Java option by which a JVM maps an archive."""
    return f"-XX:SharedArchiveFile={archive}"
