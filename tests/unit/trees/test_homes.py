"""Who may change the state of a tree node: each field has one module that does. Spec: style.md 3."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import mesh.trees
from mesh.trees.node import TreeState

HOMES = {
    "name": "node",
    "uuid": "node",
    "epoch": "node",
    "ids": "node",
    "realm": "realms",
    "settings": "links",
    "now_ms": "machine",
    "swept_ms": "machine",
    "outputs": "machine node",
    "counts": "node",
    "clock": "clocks",
    "colour": "colours",
    "realm_colour": "colours",
    "links": "links edges",
    "links_begun": "links",
    "trees": "node evicting",
    "under_way": "node",
    "remembered": "evicting",
    "hosts": "hosts",
    "seen": "node",
    "floods": "publishing",
    "beaten": "exclusives",
    "given": "node",
    "sessions": "sessions",
    "ready": "machine recovery sending",
    "questions": "machine sending",
    "asked_trees": "joining",
    "has_copied": "joining",
    "watching": "snooping",
    "recoveries": "recovery",
    "joins": "recovery",
    "heals": "heals",
    "far_hop_ms": "hop_times",
}
"""Field of `TreeState` -> the modules that may change it, or what is in it; others ask them.

Two modules share what one fills and the other empties within a step, and the edges of trees.
"""

CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end"}
CHANGES |= {"pop", "popitem", "popleft", "remove", "setdefault", "sort", "subtract", "update"}
"""Methods of containers that change them."""


def test_each_field_has_a_home() -> None:
    """A new one is given to somebody."""
    assert list(HOMES.keys() ^ {one.name for one in fields(TreeState)}) == []


def test_each_field_is_changed_at_home_only() -> None:
    """Who looks for the cause of a wrong value reads one file."""
    folder = Path(mesh.trees.__file__).parent
    strays = [
        f"{path.stem}:{line} changes {name}"
        for path in sorted(folder.glob("*.py"))
        for name, line in _changed(ast.parse(path.read_text(encoding="utf-8")))
        if path.stem not in HOMES.get(name, path.stem).split()
    ]
    assert strays == []


def test_a_change_is_seen_however_it_is_written() -> None:
    """Else the test above would hold whatever anybody wrote."""
    text = "node.a = 1; node.b.c += 1; del node.d[1]; node.e[1], x = y; node.f[2].g.pop(); node.h()"
    assert [name for name, _ in _changed(ast.parse(text))] == ["a", "b", "d", "e", "f"]


def _changed(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the fields of a node that a module changes, and where."""
    for at in ast.walk(tree):
        targets: list[ast.expr] = []
        match at:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                pass
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                targets = [target]
            case ast.Call(func=ast.Attribute(value=target, attr=name)) if name in CHANGES:
                targets = [target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if (name := _field(one)) is not None:
                    yield name, one.lineno


def _field(expression: ast.expr) -> str | None:
    """Return the field of a node through which an expression reaches what it names."""
    match expression:
        case ast.Attribute(value=ast.Name(id="node" | "self"), attr=name):
            return name
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
            return _field(inner)
    return None
