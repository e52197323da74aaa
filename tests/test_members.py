"""Lists that people read by: each member is one that the mesh says, and that some test sees."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

from mesh.core.chain import ChainVerdict
from mesh.model.control import StopReason
from mesh.model.reasons import DropReason
from mesh.model.state import LossReason
from mesh.model.topology import ZoneKind
from tests.sim.meshes import random_joined_topology
from tests.sim.swarm.draw import draw
from tests.sim.swarm.seeds import Family, Seed

ROOT = Path(__file__).parents[1]
OF_THE_SAME_WORD = {DropReason: (ChainVerdict, LossReason), StopReason: ()}
"""Lists of which a word is taken over as it is."""


def said_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what a module names of lists, but for what it is compared with."""
    if isinstance(tree, ast.Compare | ast.pattern):
        return
    if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Name):
        yield tree.value.id, tree.attr
    for child in ast.iter_child_nodes(tree):
        yield from said_in(child)


@cache
def said() -> frozenset[tuple[str, str]]:
    """Return the members of lists that some module of the mesh says."""
    files = [path for path in (ROOT / "mesh").rglob("*.py") if path.name != "reasons.py"]
    return frozenset(one for path in files for one in said_in(ast.parse(path.read_text())))


@cache
def words_of_tests() -> frozenset[str]:
    """Return the words of all tests, and the names of members in them."""
    found: dict[str, None] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found[node.value] = None
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found[f"{node.value.id}.{node.attr}"] = None
    return frozenset(found)


@pytest.mark.parametrize("kind", OF_THE_SAME_WORD, ids=lambda kind: kind.__name__)
def test_each_member_is_said_by_the_mesh_and_seen_by_a_test(kind: type[StrEnum]) -> None:
    """A reason that is never given leads people astray; one that no test sees may be wrong. R12."""
    taken_over = {one.value for other in OF_THE_SAME_WORD[kind] for one in other}
    given = {one for one in kind if (kind.__name__, one.name) in said() or one in taken_over}
    assert set(kind) - given == set()
    seen = {
        one
        for one in kind
        if {one.value, one.value.upper(), f"{kind.__name__}.{one.name}"} & words_of_tests()
    }
    assert set(kind) - seen == set()


def test_each_kind_of_zone_is_drawn() -> None:
    """By the topologies that others are compared on, and by the swarm, which adds some later."""
    rng = random.Random(1)
    compared = {zone.kind for _ in range(40) for zone in random_joined_topology(rng).zones.values()}
    assert compared == set(ZoneKind)
    plans = [draw(Seed(Family.JOINS, 10 * number)) for number in range(12)]
    swarm = {zone.kind for plan in plans for zone in plan.oracle.topology.zones.values()}
    assert swarm == set(ZoneKind)
