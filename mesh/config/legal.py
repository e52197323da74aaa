"""Topology files that must be legal: read, checked and judged in one step.

Apart from the reading, because who only reads a file shares no decision with the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mesh.config.located import Document, Locate, read_document
from mesh.config.topology_file import topology_from_mapping, topology_of
from mesh.core.legality import is_legal, judge
from mesh.errors import ConfigError
from mesh.model.topology import Topology


def load_legal_topology(path: str | Path) -> Topology:
    """Read a topology file that must be legal.

    Raises:
        ConfigError: As for `load_topology`, or the topology is illegal; lists all problems.
    """
    return legal_topology_of(read_document(path))


def legal_topology_of(
    document: Document, since: Callable[[], Topology | None] = lambda: None
) -> Topology:
    """Return the topology that a document describes and that must be legal.

    Args:
        document: A topology file.
        since: Finds the topology that it is to follow, if any; asked only where it is illegal.

    Raises:
        ConfigError: As for `load_legal_topology`.
    """
    topology = topology_of(document)
    if not is_legal(topology):
        raise ConfigError(judge(topology, document.within("spec").where, since()))
    return topology


def legal_topology_from(
    spec: object, locate: Locate, *, name: str, since: Topology | None = None
) -> Topology:
    """Return the topology of a Mesh spec that must be legal and stands in no file of its own.

    Args:
        spec: What would stand under `spec` in a topology file.
        locate: Place of a path below it, for problems.
        name: Of the mesh.
        since: The topology that it is to follow, if there is one.

    Raises:
        ConfigError: As for `load_legal_topology`.
    """
    topology = topology_from_mapping(spec, locate, name=name)
    if problems := judge(topology, locate, since):
        raise ConfigError(problems)
    return topology
