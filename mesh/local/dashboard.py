"""The page of a fleet's mesh, in a process of its own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from mesh.errors import missing_package
from mesh.local.fleet import Fleet
from mesh.local.ports import LOOPBACK, free_port, is_free
from mesh.local.processes import Process, spawn

PORT = 8080
"""Where people look for a page first; another one is taken if it is not free."""

NEEDED = ("fastapi", "uvicorn", "sse_starlette")


def spawn_dashboard(
    fleet: Fleet, listen: str = "", hosts: Sequence[str] = ()
) -> tuple[Process, str]:
    """Start the page of a fleet; return the process, and the address that it answers at soon.

    Args:
        fleet: Its mesh.
        listen: HOST:PORT; empty for a free port on loopback, the usual one if that is free.
        hosts: Further names by which clients call it.

    Raises:
        StartError: A package is not installed.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise missing_package(f"the page needs {missing[0]}", "api")
    address = listen or f"{LOOPBACK}:{PORT if is_free(PORT) else free_port()}"
    process = spawn(
        [
            *(sys.executable, "-m", "mesh", "dashboard", "--listen", address),
            *("-f", str(fleet.file), *fleet.bootstrap_options),
            *(part for host in hosts for part in ("--allowed-host", host)),
        ],
        name="the page",
        log=fleet.directory / "log" / "dashboard.log",
    )
    return process, f"http://{address}/"
