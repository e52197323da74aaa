"""Files that people name, pipes among them."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from select import select

WRITER_S = 5.0
"""How long nobody may open a named pipe for writing: programs at its two ends start together."""


def read_file(path: str | Path, most: int) -> bytes:
    """Return a file, or so many of its first bytes.

    Whoever has opened a pipe may take any time to write: only one without a writer would have a
    command wait for ever.

    Raises:
        OSError: It cannot be read, or is a pipe that nobody writes to.
    """
    with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        begun: bytes | None = b""
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            is_begun = bool(select([file], (), (), WRITER_S)[0])
            begun = file.read(most)  # None if somebody has not written yet
            if begun == b"" and not is_begun:
                raise OSError(errno.ENXIO, "it is a pipe that nobody writes to")
        os.set_blocking(file.fileno(), True)
        begun = begun or b""
        return begun + BufferedReader(file).read(most - len(begun))
