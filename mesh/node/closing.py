"""Links that operators disable, and what must be proven before data come and go again.

Spec: DMR-10, K19, K21, K23.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mesh.core.routing import Router
from mesh.model.reasons import Reason

if TYPE_CHECKING:
    from mesh.node.neighbour import Neighbour


def close(neighbour: Neighbour, router: Router, reason: Reason) -> None:
    """Have no data come and go over a link; guaranteed messages wait in the outbox."""
    name = neighbour.link.neighbour
    neighbour.closed = router.closed[name] = reason
    router.forget()


def begin_again(neighbour: Neighbour, router: Router) -> None:
    """Have all that a neighbour offers proven again before data flow: the link is enabled."""
    close(neighbour, router, Reason.NOT_RESYNCED)
    neighbour.begin_again()


def open_if_proven(neighbour: Neighbour, router: Router) -> None:
    """Have data come and go again, once the neighbour's interest is proven since the enabling."""
    if neighbour.closed is Reason.NOT_RESYNCED and neighbour.is_proven:
        neighbour.closed, neighbour.frozen = None, False
        del router.closed[neighbour.link.neighbour]
        router.forget()
