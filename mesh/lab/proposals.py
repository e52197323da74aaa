"""What the `apply` steps of a scenario propose, worked out before anything runs. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.config.located import Locate
from mesh.config.merge_patch import merged
from mesh.config.shapes import check_shape
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_models import MeshSpec
from mesh.core.legality import judge
from mesh.core.live_change_limits import unchangeable
from mesh.errors import ConfigError, Problem
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A mesh as its spec describes it.

    Attributes:
        spec: As it stands under `spec` of a topology file.
        topology: What it means.
    """

    spec: object
    topology: Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What an `apply` step leads to.

    Attributes:
        mesh: The proposed mesh; None if it is refused for what it is.
        problems: Why.
        misformed: Those of them that make it no topology at all: mistyped keys and values.
    """

    mesh: Mesh | None
    problems: Sequence[Problem] = ()
    misformed: Sequence[Problem] = ()


def propose(before: Mesh, patch: Mapping[str, object], locate: Locate) -> Proposal:
    """Return what a patch makes of a mesh.

    Args:
        before: The mesh as it is then.
        patch: An RFC 7396 merge patch on its spec.
        locate: Gives the place of a path below the step.
    """
    spec = merged(before.spec, patch)
    try:
        topology = topology_from_mapping(spec, locate, name=before.topology.name)
    except ConfigError as error:
        _, misformed = check_shape(MeshSpec, spec, locate)
        return Proposal(mesh=None, problems=error.problems, misformed=misformed)
    problems = [
        *judge(topology, locate, before.topology),
        *unchangeable(before.topology, topology, locate),
    ]
    if problems:
        return Proposal(mesh=None, problems=problems)
    return Proposal(mesh=Mesh(spec=spec, topology=topology))
