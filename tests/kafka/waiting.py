"""How soon real brokers and workers do something, and what a node says of its endpoints."""

from __future__ import annotations

from mesh.view.mesh_view import MeshView
from mesh.worker.process.clock import MonotonicClock

CLOCK = MonotonicClock()
SOON_S = 45.0
SLOWER = 12


def soon_s(pace_s: float) -> float:
    """Return how soon healthy endpoints have what is published while others cannot be written.

    A broker that stands still leads a third of all other partitions too, groups and transactions
    besides, until the cluster has left it out: who asked it before waits for the client library's
    ten seconds, readers and writers in turn. Beside that it may take some times longer than while
    all was well: other tests may take more of the machine by then.

    Args:
        pace_s: How soon it came while all was well.
    """
    return SOON_S + SLOWER * pace_s


def endpoint_reasons(view: MeshView, node: str) -> str:
    """Return what a node says of its endpoints with a trouble."""
    view.refresh()
    heartbeat = view.nodes[node].heartbeat
    return " ".join(one.reason for one in (heartbeat.endpoints if heartbeat else ()))
