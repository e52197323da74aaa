"""Names of the inputs of interest: each has a version, and the routing goes by all of them.

With their positions lanes commit the versions by which they route, so the leader knows when all do.
A name that begins with `$` is of something that changes the routing and is acknowledged to nobody.
Spec: K12, K25.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.model.control import Scope, Version

CLIENTS = "clients"
"""The own subscriptions."""

CHANGE = "$change"
"""The newest change of the topology. Spec: K28."""

GATES = "$links"
"""Which links are open. Spec: K27."""

STILL = "$still"
"""While sources hold, the drain probe whether anything is on its way: version
(`YieldReply.number`, twice the step, and one more if nothing had come since the previous probe)."""

VersionByInput = Mapping[str, Version]
"""Name of an input -> how far it is read, or routed by."""

VersionByScope = Mapping[Scope, Version]
"""Scope of one neighbour -> how far it is read, or was proven."""


def input_name(neighbour: str, scope: Scope) -> str:
    """Return the name of a neighbour's scope. Spec: K12."""
    return f"{neighbour} {scope}"


def neighbour_of(input_: str) -> str:
    """Return the neighbour of an input; empty for an input of another kind."""
    name, space, _ = input_.partition(" ")
    return name if space else ""


def scope_of(input_: str) -> Scope:
    """Return the scope of an input within its neighbour.

    Raises:
        ValueError: It is not a neighbour's.
    """
    return Scope.parse(input_.partition(" ")[2])


def is_acknowledged(input_: str) -> bool:
    """Return whether neighbours or clients learn how far an input is in force. Spec: K24."""
    return not input_.startswith("$")
