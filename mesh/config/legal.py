"""Topology files that must be legal: read, checked and judged in one step.

Apart from the reading, because who only reads a file shares no decision with the mesh.
"""

from __future__ import annotations

from pathlib import Path

from mesh.config.located import Document, Locate, read_document
from mesh.config.topology_file import topology_from_mapping, topology_of
from mesh.core.legality import judge
from mesh.errors import ConfigError
from mesh.model.topology import Topology


def load_legal_topology(path: str | Path) -> Topology:
    """Read a topology file that must be legal.

    Raises:
        ConfigError: As for `load_topology`, or the topology is illegal; lists all problems.
    """
    return legal_topology_of(read_document(path))


def legal_topology_of(document: Document) -> Topology:
    """Return the topology that a document describes and that must be legal.

    Raises:
        ConfigError: As for `load_legal_topology`.
    """
    topology = topology_of(document)
    if problems := judge(topology, document.within("spec").where):
        raise ConfigError(problems)
    return topology


def legal_topology_from(spec: object, locate: Locate, *, name: str) -> Topology:
    """Return the topology of a Mesh spec that must be legal and stands in no file of its own.

    Args:
        spec: What would stand under `spec` in a topology file.
        locate: Place of a path below it, for problems.
        name: Of the mesh.

    Raises:
        ConfigError: As for `load_legal_topology`.
    """
    topology = topology_from_mapping(spec, locate, name=name)
    if problems := judge(topology, locate):
        raise ConfigError(problems)
    return topology
