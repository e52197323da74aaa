"""Scenario files: a topology, steps and expectations. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from mesh.config.located import Document, Locate, read_document
from mesh.config.merge_patch import merged
from mesh.config.nearest import node_fault
from mesh.config.shapes import StrictModel, check_shape
from mesh.config.topology_file import refuse_other_kinds, topology_from_mapping, topology_of
from mesh.config.topology_models import Metadata
from mesh.core.legality import judge
from mesh.errors import ConfigError, Problem, wrong_input
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.reading import Steps, problem
from mesh.lab.step_rules import faults_of_all
from mesh.lab.steps import Step, Storm
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario file, checked.

    Attributes:
        name: Its name.
        seed: Of everything random.
        audit: Whether the real auditor watches (kafka backend).
        topology: The mesh it runs on.
        steps: What happens, one after another.
        workers: Worker processes of nodes that have more than one; at most as many as lanes.
        proposals: What each `apply` step leads to, by the number of the step.
        apart: Files of nodes that are configured apart; then nothing is put in force.
    """

    name: str
    seed: int
    audit: bool
    topology: Topology
    steps: Sequence[Step]
    workers: Mapping[str, int] = field(default_factory=dict)
    proposals: Mapping[int, Proposal] = field(default_factory=dict)
    apart: Mapping[str, Topology] = field(default_factory=dict)

    @property
    def uses_trees(self) -> bool:
        """Whether any step needs the tree layer, which the simulator leaves out otherwise."""
        return any(step.is_of_trees for step in self.steps)


def with_storm(
    scenario: Scenario,
    path: str | Path,
    *,
    seed: int | None,
    seconds: float | None,
    rate: int | None = None,
) -> Scenario:
    """Return a scenario with another seed, length or load of its storm; None leaves it as it is.

    Raises:
        ConfigError: It has no storm.
    """
    wanted = {"seed": seed, "seconds": seconds, "rate": rate}
    changes = {name: value for name, value in wanted.items() if value is not None}
    steps = [
        step.model_copy(update=changes) if isinstance(step, Storm) else step
        for step in scenario.steps
    ]
    if not any(isinstance(step, Storm) for step in steps):
        message = "there is no storm in it; add a step `storm: {}`, or use `mesh lab run`"
        raise wrong_input(str(path), message, code="NO_STORM")
    return replace(scenario, steps=tuple(steps), seed=scenario.seed if seed is None else seed)


class _Spec(StrictModel):
    seed: int = 0
    audit: bool = False
    mesh: dict[str, object]
    workers: dict[str, int] = Field(default_factory=dict)
    apart: dict[str, dict[str, object]] = Field(default_factory=dict)
    steps: list[dict[str, object]]


class _ScenarioFile(StrictModel):
    schema_: str | None = Field(None, alias="$schema")
    apiVersion: Literal["mesh/v1"]  # noqa: N815 - as in the file
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: _Spec


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ConfigError: Something is wrong with it, or its mesh is illegal; lists all problems,
            located.
    """
    document = read_document(path)
    refuse_other_kinds(document, "Scenario")
    model, problems = check_shape(_ScenarioFile, document.value, document.where)
    if model is None:
        raise ConfigError(problems)
    mesh: Mesh | None = None
    try:
        mesh, locate = _mesh(document, model, Path(path).parent)
        problems += judge(mesh.topology, locate)
    except ConfigError as error:
        problems += error.problems
    spec = model.spec
    read = Steps(mesh, spec.steps, spec.workers, is_audited=spec.audit)
    for index, written in enumerate(spec.steps):
        read.add(document.within("spec", "steps", index), written)
    problems += read.problems
    if mesh is not None:
        problems += _workers(document, model.spec.workers, read.known)
    apart: dict[str, Topology] = {}
    if mesh is not None and model.spec.apart:
        apart, faults = _apart(document, model.spec.apart, mesh)
        problems += faults
        if any(step.word == "apply" for step in read.steps):
            text = "nodes that are configured apart follow no change; leave out apart, or apply"
            problems.append(problem("BAD_STEP", text, document.within("spec", "apart")))
    if (fault := faults_of_all(read.steps)) is not None:
        problems.append(problem("BAD_STEP", fault, document.within("spec", "steps")))
    if problems or mesh is None:
        raise ConfigError(problems)
    return Scenario(
        name=model.metadata.name,
        seed=model.spec.seed,
        audit=model.spec.audit,
        topology=mesh.topology,
        steps=tuple(read.steps),
        workers=model.spec.workers,
        proposals=read.proposals,
        apart=apart,
    )


def _mesh(document: Document, model: _ScenarioFile, folder: Path) -> tuple[Mesh, Locate]:
    """Return the mesh of a scenario, inline or in a file beside it, and where its parts stand."""
    mesh = model.spec.mesh
    if set(mesh) == {"file"}:
        if not (isinstance(name := mesh["file"], str) and name):
            where = document.within("spec", "mesh", "file")
            raise wrong_input(where.where(), "must name a topology file", code="WRONG_TYPE")
        file = read_document(folder / name)
        part = file.within("spec")
        return Mesh(topology=topology_of(file), spec=part.value), part.where
    if "file" in mesh:
        text = "names a file with all of the mesh, so it stands alone; remove it, or the rest"
        at = document.within("spec", "mesh", "file").where()
        raise wrong_input(at, text, code="CONFLICTING_KEYS")
    part = document.within("spec", "mesh")
    topology = topology_from_mapping(mesh, part.where, name=model.metadata.name)
    return Mesh(topology=topology, spec=mesh), part.where


def _apart(
    document: Document, apart: Mapping[str, Mapping[str, object]], mesh: Mesh
) -> tuple[dict[str, Topology], list[Problem]]:
    """Return the topology that stands in the file of each node that is configured apart."""
    found: dict[str, Topology] = {}
    problems: list[Problem] = []
    for node, patch in apart.items():
        part = document.within("spec", "apart", node)
        if (fault := node_fault(node, mesh.topology.nodes)) is not None:
            problems.append(problem("BAD_VALUE", fault, part))
            continue
        try:
            own = topology_from_mapping(merged(mesh.spec, patch), part.where)
        except ConfigError as error:
            problems += error.problems
            continue
        own = replace(own, name=mesh.topology.name)
        if node not in own.nodes:
            problems.append(problem("BAD_VALUE", f"its own file leaves {node} out", part))
        elif own.kafka != mesh.topology.kafka or own.prefix != mesh.topology.prefix:
            text = "a node's own file may differ in nodes and zones, not in kafka and prefix"
            problems.append(problem("BAD_VALUE", text, part))
        elif other := next(
            (name for name, one in own.nodes.items() if mesh.topology.nodes.get(name) != one), ""
        ):
            text = f"{other} is another node in the mesh; a file may leave nodes out, no more"
            problems.append(problem("BAD_VALUE", text, part))
        else:
            problems += judge(own, part.where)
            found[node] = own
    return found, problems


def _workers(
    document: Document, workers: Mapping[str, int], known: Sequence[Topology]
) -> list[Problem]:
    """Return what is wrong with the numbers of workers; nodes may come by a change."""
    nodes = {name: node for topology in known for name, node in topology.nodes.items()}
    problems: list[Problem] = []
    for node, count in workers.items():
        lanes = nodes[node].lanes if node in nodes else 0
        if not 1 <= count <= lanes:
            part = document.within("spec", "workers", node)
            text = f"{node} has {lanes} lanes, so 1 to {lanes} workers; got {count}"
            problems.append(problem("BAD_VALUE", node_fault(node, nodes) or text, part))
    return problems
