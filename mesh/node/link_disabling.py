"""Links that operators disable, and what must be proven before data flow again.

Spec: DMR-10, K19, K21, K23.
"""

from __future__ import annotations

from mesh.core.routing import Router
from mesh.node.neighbour import Neighbour


def route_by(neighbour: Neighbour, router: Router) -> None:
    """Have the router go by the present mode of the link."""
    gate = neighbour.gate
    drains = gate is not None and gate.drains and not neighbour.is_resyncing
    router.follow(neighbour.link.neighbour, neighbour.mode, drains=drains)


def disable(neighbour: Neighbour, router: Router) -> None:
    """Stop data over a link; guaranteed messages wait in the outbox."""
    neighbour.is_disabled, neighbour.is_resyncing = True, False
    route_by(neighbour, router)


def enable(neighbour: Neighbour, router: Router) -> None:
    """Have everything that a neighbour offers proven again before data flow."""
    neighbour.is_disabled, neighbour.is_resyncing = False, True
    neighbour.begin_again()
    route_by(neighbour, router)


def open_if_proven(neighbour: Neighbour, router: Router) -> None:
    """Let data flow again, once the neighbour's interest is proven since the enabling."""
    if neighbour.is_resyncing and neighbour.is_proven:
        neighbour.is_resyncing = neighbour.frozen = False
        route_by(neighbour, router)
