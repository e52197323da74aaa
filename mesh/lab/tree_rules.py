"""What may be wrong with a step of the tree layer, a line each. Spec: lab.md 5."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.config.nearest import nearest, node_fault
from mesh.lab.steps import Evict, Expect, Move, Role, Send, Step, TreeStep, Unrole
from mesh.model.names import name_fault
from mesh.model.topology import Topology
from mesh.model.trees import name_fault as role_fault


def tree_faults(step: TreeStep, topology: Topology) -> list[str | None]:
    """Return what is wrong with a step's values."""
    faults: list[str | None] = [node_fault(_where(step), topology.nodes), _named("tree", step.tree)]
    if not isinstance(step, Evict):
        faults.append(_named("role", step.role))
    if isinstance(step, Role | Unrole) and step.app is not None:
        faults.append(name_fault(step.app))
    if isinstance(step, Role) and step.extent == "realm":
        faults.append(_realm(step.node, topology, "extent realm"))
    if isinstance(step, Send):
        if step.local_realm:
            faults.append(_realm(step.node, topology, "local_realm"))
        if step.one_way and (step.one_instance or step.one_response):
            faults.append("one_way goes with neither one_instance nor one_response; drop one")
    return faults


def expected_of_trees(step: Expect, topology: Topology) -> str | None:
    """Return what is wrong with an expectation of sends, holders or parts."""
    if step.holder is not None:
        tree, slash, role = step.holder.rpartition("/")
        if not slash:
            return f"a holder is written `tree/role`, not {step.holder!r}"
        if "node" not in step.model_fields_set:
            return "`holder: tree/role` goes with `node: NAME`, or `node: null` for nobody"
        fault = _named("tree", tree) or _named("role", role)
        return fault or (None if step.node is None else node_fault(step.node, topology.nodes))
    in_parts = [node for part in step.parts or () for node in part]
    for node in (*in_parts, *(step.reached or ())):
        if (fault := node_fault(node, topology.nodes)) is not None:
            return fault
    twice = next((node for node in in_parts if in_parts.count(node) > 1), None)
    return None if twice is None else f"{twice} is listed twice; each node is in one part"


def sends_named_twice(steps: Sequence[Step]) -> str | None:
    """Return what is wrong with the names of sends: by them the file expects."""
    names = [step.name for step in steps if isinstance(step, Send)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        return f"two sends are called {twice[0]!r}; give each its own name"
    for step in steps:
        if isinstance(step, Expect) and step.send is not None and step.send not in names:
            return f"no send is called {step.send!r}{nearest(step.send, names)}"
    return None


def _where(step: TreeStep) -> str:
    return step.to if isinstance(step, Move) else step.node


def _named(what: str, name: str) -> str | None:
    fault = role_fault(name)
    return None if fault is None else f"{what}: {fault}"


def _realm(node: str, topology: Topology, what: str) -> str | None:
    declared = topology.nodes.get(node)
    if declared is None or declared.realm:
        return None
    return f"{what} needs a realm, and node {node} is in none; give it one in `nodes`"
