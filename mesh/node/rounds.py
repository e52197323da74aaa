"""Rounds: one change of the routing at a time; and the names of what such a change comes from.

Spec: K12, K25.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mesh.core.interest import Members
from mesh.model.control import Scope
from mesh.node.relinking import NO_CHANGES, LinkChanges

CLIENTS = "clients"
"""Name of the own subscriptions among the inputs of interest."""


@dataclass(frozen=True, slots=True)
class Round:
    """One change of the routing.

    Attributes:
        in_force: Versions of the inputs that it brings into force.
        cuts: Node uuid -> `clients` offset, where that changed.
        touched: Filter -> its members before, for every filter that changed.
        links: What it changes of the node's links.
        new_filters: Filters that guaranteed messages are wanted for, by neighbour and its scope.
    """

    in_force: Mapping[str, tuple[int, int]]
    cuts: Mapping[str, int]
    touched: Mapping[str, Members]
    links: LinkChanges = NO_CHANGES
    new_filters: Mapping[tuple[str, Scope], Collection[str]] = field(default_factory=dict)


def input_name(neighbour: str, scope: Scope) -> str:
    """Return the name of a neighbour's scope among the inputs of interest. Spec: K12."""
    return f"{neighbour} {scope}"


def neighbour_of(source: str) -> str:
    """Return whose scope an input of interest is; empty for the own subscriptions."""
    return "" if source == CLIENTS else source.partition(" ")[0]
