"""Everything that a node may ask for with its applications: the outputs of `Applications`."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.model.tree_apps import AppTold, RoleKey, RoleRequest
from mesh.trees.outputs import Transmit


@dataclass(frozen=True, slots=True)
class Tell:
    """Write for an application."""

    app: str
    told: AppTold


@dataclass(frozen=True, slots=True)
class WriteRole:
    """Write a request on `roles`, or with None its end."""

    key: RoleKey
    request: RoleRequest | None


@dataclass(frozen=True, slots=True)
class DropLease:
    """Write on `roles` that an application has ended."""

    app: str


Effect = Transmit | Tell | WriteRole | DropLease
