"""What may be wrong with a step of the tree layer, a line each. Spec: lab.md 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.config.nearest import nearest, node_fault
from mesh.lab.steps import Evict, Expect, Move, Role, Send, TreeStep, Unrole
from mesh.model.names import name_fault
from mesh.model.topology import Topology
from mesh.model.trees import Address, TreeId, tree_id
from mesh.model.trees import name_fault as role_fault

_OF_THE_MESH = "$"
"""Trees whose names begin so have the nodes themselves on them."""


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
    if step.parts is not None and [] in step.parts:
        return "a part has at least one node; leave the empty one out"
    listed = [node for part in step.parts or () for node in part] or step.reached or []
    for node in listed:
        if (fault := node_fault(node, topology.nodes)) is not None:
            return fault
    twice = next((node for node in listed if listed.count(node) > 1), None)
    if twice is None:
        return None
    why = "a node is reached or not" if step.parts is None else "each node is in one part"
    return f"{twice} is listed twice; {why}"


class TreeNames:
    """Follows the steps of a scenario: which roles were taken, and what was sent, by then.

    Args:
        written: All steps of the file, as it has them: a send may come before the role.
    """

    def __init__(self, written: Sequence[Mapping[str, object]]) -> None:
        self._trees = _trees_of_roles(written)
        self._sends: dict[str, None] = {}
        self._spelled: dict[Address, str] = {}  # as results call it: as it was first written
        self._taken: dict[Address, None] = {}

    def follow(self, step: TreeStep | Expect) -> list[str]:
        """Take the next step, in itself a right one; return what is wrong with it by then."""
        if isinstance(step, Expect):
            return self._unknown(step)
        if (fault := self._unknown_tree(step)) is not None:
            return [fault]
        if isinstance(step, Role | Send | Move):
            address = Address(tree_id(step.tree), step.role)
            self._spelled.setdefault(address, f"{step.tree}/{step.role}")
            if isinstance(step, Role):
                self._taken[address] = None
        if isinstance(step, Send):
            if step.name in self._sends:
                return [f"two sends are called {step.name!r}; give each its own name"]
            self._sends[step.name] = None
        return []

    def _unknown_tree(self, step: TreeStep) -> str | None:
        """Return that a step does nothing, because no step takes a role on its tree.

        A send is told that nobody has the role: a file that takes none at all may be about that.
        """
        known = self._trees
        if known is None or tree_id(step.tree) in known or step.tree.startswith(_OF_THE_MESH):
            return None
        if isinstance(step, Send) and not known:
            return None
        hint = nearest(step.tree, list(known.values())) or "; add a step `role`"
        return f"no step takes a role on a tree {step.tree!r}{hint}"

    def _unknown(self, step: Expect) -> list[str]:
        """Return that no step before made what something is expected of."""
        if step.send is not None and step.send not in self._sends:
            return [f"no send before is called {step.send!r}{nearest(step.send, [*self._sends])}"]
        held = [self._spelled[address] for address in self._taken]
        if step.holder is not None and step.holder not in held:
            hint = nearest(step.holder, held) or "; add a step `role` before"
            return [f"no step before takes a role {step.holder!r}{hint}"]
        return []


def _trees_of_roles(written: Sequence[Mapping[str, object]]) -> Mapping[TreeId, str] | None:
    """Return each tree as it is first spelled; None if a step does not say which one it means."""
    found: dict[TreeId, str] = {}
    for role in [step["role"] for step in written if "role" in step]:
        tree = role.get("tree") if isinstance(role, Mapping) else None
        if not isinstance(tree, str) or role_fault(tree) is not None:
            return None
        found.setdefault(tree_id(tree), tree)
    return found


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
