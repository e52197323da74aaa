"""Waiting for what real brokers and workers do, and what a node says of its endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable

from mesh.view.mesh_view import MeshView
from mesh.worker.process.clock import MonotonicClock

CLOCK = MonotonicClock()
SOON_S = 25.0
"""So soon a healthy endpoint has what was published while another one cannot be written.

A broker that stands still leads a third of all other partitions too, until the cluster has left
it out: who asked it before waits for the client library's ten seconds, readers and writers in turn.
"""


def wait_for(what: str, condition: Callable[[], bool], limit_s: float) -> None:
    """Wait until a condition holds; fail if it does not in time."""
    begun_s = time.monotonic()
    while not condition():
        assert time.monotonic() - begun_s < limit_s, f"{what}: not within {limit_s:g} s"
        CLOCK.wait(0.1)


def endpoint_reasons(view: MeshView, node: str) -> str:
    """Return what a node says of its endpoints with a trouble."""
    view.refresh()
    heartbeat = view.nodes[node].heartbeat
    return " ".join(one.reason for one in (heartbeat.endpoints if heartbeat else ()))
