"""Rounds: one change of the routing at a time. Spec: K25."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mesh.core.interest import Members
from mesh.model.control import Scope
from mesh.model.interest_inputs import VersionByInput
from mesh.node.relinking import NO_CHANGES, LinkChanges


@dataclass(frozen=True, slots=True)
class Round:
    """One change of the routing.

    Attributes:
        in_force: Versions of the inputs that it puts in force.
        cuts: Node uuid -> `clients` offset, where that changed.
        touched: Filter -> its members before, for every filter that changed.
        links: Its changes of the node's links.
        new_filters: Filters that guaranteed messages are wanted for, by neighbour and its scope.
    """

    in_force: VersionByInput
    cuts: Mapping[str, int]
    touched: Mapping[str, Members]
    links: LinkChanges = NO_CHANGES
    new_filters: Mapping[tuple[str, Scope], Collection[str]] = field(default_factory=dict)
