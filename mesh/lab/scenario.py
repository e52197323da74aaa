"""Scenario files: a topology, steps and expectations. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mesh.config.located import Document, read_document
from mesh.config.shapes import StrictModel, check_shape, nearest
from mesh.config.topology_file import topology_from_mapping, topology_of
from mesh.errors import ConfigError, Problem
from mesh.model.names import name_fault
from mesh.model.subject import filter_fault, subject_fault
from mesh.model.topology import Topology

TIMEOUT_S = 60.0

ClassName = Literal["guaranteed", "direct"]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]
Timeout = Annotated[float | int | None, Field(gt=0)]


class _Timed(StrictModel):
    timeout: Timeout = None


class Subscribe(_Timed):
    """Write a subscription; returns when Kafka has acknowledged it."""

    node: str
    endpoint: str
    filter: str
    kind: Literal["channel", "queue"] = "channel"
    class_: ClassName = Field("guaranteed", alias="class")


class Unsubscribe(_Timed):
    """Write the end of a subscription."""

    node: str
    endpoint: str
    filter: str


class Settle(_Timed):
    """Wait until every subscription is known everywhere."""


class Publish(_Timed):
    """Publish messages at a node, whether or not it runs."""

    node: str
    subject: str
    count: int = Field(1, ge=1, le=10_000_000)
    class_: ClassName = Field("guaranteed", alias="class")
    key: str | None = None
    payload: str = ""


class Drain(_Timed):
    """Wait until nothing is left to read but what waits for the stopped and the cut."""


class NodeStep(_Timed):
    """Kill, stop or start a node: written as its name."""

    node: str


class LinkStep(_Timed):
    """Cut, heal, disable or enable a link."""

    link: Pair


class Expect(_Timed):
    """Judge cumulative counts at once."""

    endpoint: str | None = None
    link: str | None = None
    count: int | None = Field(None, ge=0)
    messages: int | None = Field(None, ge=0)
    frames: int | None = Field(None, ge=0)
    control: int | None = Field(None, ge=0)
    ordered: bool | None = None


Step = Subscribe | Unsubscribe | Settle | Publish | Drain | NodeStep | LinkStep | Expect

_KINDS: Mapping[str, type[StrictModel]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "settle": Settle,
    "publish": Publish,
    "drain": Drain,
    "kill": NodeStep,
    "stop": NodeStep,
    "start": NodeStep,
    "cut": LinkStep,
    "heal": LinkStep,
    "expect": Expect,
}
_NOT_YET = ("apply", "disable", "enable")


@dataclass(frozen=True, slots=True)
class NamedStep:
    """One step of a scenario: its word in the file, and what it says."""

    word: str
    step: Step

    @property
    def timeout_s(self) -> float:
        """How long it may take, in seconds; virtual ones on the simulator."""
        return float(self.step.timeout or TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario file, checked.

    Attributes:
        name: Its name.
        seed: Of everything random.
        audit: Whether the real auditor watches (kafka backend).
        topology: The mesh it runs on.
        steps: What happens, one after another.
    """

    name: str
    seed: int
    audit: bool
    topology: Topology
    steps: Sequence[NamedStep]


class _Metadata(StrictModel):
    name: str


class _Spec(StrictModel):
    seed: int = 0
    audit: bool = False
    mesh: dict[str, object]
    steps: list[dict[str, object]]


class _ScenarioFile(StrictModel):
    schema_: str | None = Field(None, alias="$schema")
    apiVersion: Literal["mesh/v1"]  # noqa: N815 - as in the file
    kind: Literal["Scenario"]
    metadata: _Metadata
    spec: _Spec


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file.

    Raises:
        ConfigError: Something is wrong with it; lists all problems, located.
    """
    document = read_document(path)
    model, problems = check_shape(_ScenarioFile, document.value, document.where)
    if model is None:
        raise ConfigError(problems)
    topology: Topology | None = None
    try:
        topology = _topology(document, model.spec.mesh, Path(path).parent)
    except ConfigError as error:
        problems += error.problems
    steps: list[NamedStep] = []
    for index, written in enumerate(model.spec.steps):
        part = document.within("spec", "steps", index)
        step, faults = _step(part, written, topology)
        problems += faults
        if step is not None:
            steps.append(step)
    if problems or topology is None:
        raise ConfigError(problems)
    return Scenario(
        name=model.metadata.name,
        seed=model.spec.seed,
        audit=model.spec.audit,
        topology=topology,
        steps=tuple(steps),
    )


def _topology(document: Document, mesh: Mapping[str, object], folder: Path) -> Topology:
    """Return the mesh of a scenario: inline, or in a file beside it."""
    if set(mesh) == {"file"}:
        return topology_of(read_document(folder / str(mesh["file"])))
    part = document.within("spec", "mesh")
    return topology_from_mapping(mesh, part.where, name=str(document.name))


def _step(
    part: Document, written: Mapping[str, object], topology: Topology | None
) -> tuple[NamedStep | None, list[Problem]]:
    if len(written) != 1:
        return None, [_problem("BAD_STEP", "write one word with its mapping per step", part)]
    [(word, value)] = written.items()
    inner = part.within(word)
    if word in _NOT_YET:
        return None, [_problem("NOT_YET", f"step {word} is not supported yet; remove it", inner)]
    model = _KINDS.get(word)
    if model is None:
        text = f"unknown step {word!r}{nearest(word, list(_KINDS))}"
        return None, [_problem("UNKNOWN_STEP", text, part)]
    if model is NodeStep and isinstance(value, Mapping) and "node" not in value:
        return None, [_problem("BAD_STEP", f"write `{word}: {{node: NAME}}`", inner)]
    step, problems = check_shape(model, {} if value is None else value, inner.where)
    if step is None:
        return None, problems
    faults = [_problem("BAD_VALUE", text, inner) for text in _faults(step, topology)]
    return NamedStep(word, step), faults  # type: ignore[arg-type] # one of the models of Step


def _faults(step: StrictModel, topology: Topology | None) -> list[str]:
    """Return what is wrong with a step's values."""
    if topology is None:
        return []
    faults: list[str | None] = []
    match step:
        case Subscribe() | Unsubscribe():
            faults += [_node(step.node, topology), filter_fault(step.filter)]
            faults.append(name_fault(step.endpoint))
            if isinstance(step, Subscribe) and step.kind == "queue":
                faults.append("kind queue is not supported yet; use channel")
        case Publish():
            faults += [_node(step.node, topology), subject_fault(step.subject)]
        case NodeStep():
            faults.append(_node(step.node, topology))
        case LinkStep():
            faults.append(_link(step.link, topology))
        case Expect():
            faults.append(_expected(step, topology))
        case _:
            pass
    return [fault for fault in faults if fault is not None]


def _node(name: str, topology: Topology) -> str | None:
    if name in topology.nodes:
        return None
    return f"no node {name!r}{nearest(name, list(topology.nodes))}"


def _link(ends: Sequence[str], topology: Topology) -> str | None:
    if any(sorted(ends) == sorted(link.ends) for link in topology.links):
        return None
    return f"no link between {ends[0]} and {ends[1]}"


def _expected(step: Expect, topology: Topology) -> str | None:
    if (step.endpoint is None) == (step.link is None):
        return "expect either `endpoint: node/name` or `link: a->b`"
    if step.endpoint is not None:
        node, slash, name = step.endpoint.partition("/")
        if not (slash and name):
            return f"an endpoint is written `node/name`, not {step.endpoint!r}"
        return _node(node, topology)
    source, arrow, target = (step.link or "").partition("->")
    if not (arrow and target):
        return f"a link is written `a->b`, not {step.link!r}"
    return _link((source, target), topology)


def _problem(code: str, message: str, part: Document) -> Problem:
    return Problem(code=code, message=message, where=part.where())
