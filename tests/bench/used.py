"""What a command uses, told by a small process that starts it: `python -m tests.bench.used ...`.

The memory that the kernel tells of a child begins with that of the process that started it, so
a large one would tell its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def used_by(command: Sequence[str]) -> dict[str, Any]:
    """Run a command; return its `output`, exit `code`, `cpu_s`, and `resident_mb` at most."""
    meter = [sys.executable, "-m", "tests.bench.used", *command]
    told = subprocess.run(meter, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main() -> None:
    """Run what the arguments say; tell what it used."""
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    told = {
        "output": output,
        "code": process.returncode,
        "cpu_s": used.ru_utime + used.ru_stime,
        "resident_mb": used.ru_maxrss / 1024,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
