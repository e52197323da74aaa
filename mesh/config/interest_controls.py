"""`spec.interest` of a Mesh file: its shape, what it must mean, as values, and as it is written.

Spec: DESIGN 3, EMS-11, UM-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from mesh.config.located import KeyPath, Locate
from mesh.config.nearest import nearest
from mesh.config.shapes import StrictModel
from mesh.errors import Problem
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.subject import filter_fault

_KEY = "interest"
_KEYS = {"node", *(kind.value for kind in ControlKind)}


class InterestSpec(StrictModel):
    """One control of interest at one node: `static` or `local`."""

    node: str = Field(description="Where it is in force.")
    static: str | None = Field(
        None, description="Filter that is always wanted there, although no client wants it."
    )
    local: str | None = Field(
        None, description="Filter of subjects that cross no link of the node, in either direction."
    )


def interest_problems(
    listed: object, nodes: Mapping[str, object], locate: Locate
) -> Iterator[Problem]:
    """Yield what is wrong with the controls of a spec; what has the wrong shape is passed over.

    Args:
        listed: What stands under `interest`.
        nodes: Those that are declared.
        locate: Places of paths below the spec.
    """
    first: dict[tuple[str, str, str], int] = {}
    for index, one in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(one, Mapping):
            continue
        for path, code, message in _faults(one, nodes):
            yield Problem(code=code, message=message, where=locate((_KEY, index, *path)))
        kinds = _kinds(one)
        node = one.get("node")
        if len(kinds) == 1 and isinstance(node, str) and isinstance(one[kinds[0]], str):
            at = first.setdefault((node, kinds[0], one[kinds[0]]), index)
            if at != index:
                message = f"says the same as {_KEY}[{at}]; remove one of the two"
                where = locate((_KEY, index))
                yield Problem(code="DUPLICATE_CONTROL", message=message, where=where)


def _kinds(one: Mapping[object, object]) -> Sequence[str]:
    return [kind.value for kind in ControlKind if one.get(kind.value) is not None]


def _faults(
    one: Mapping[object, object], nodes: Mapping[str, object]
) -> Iterator[tuple[KeyPath, str, str]]:
    node, kinds = one.get("node"), _kinds(one)
    if isinstance(node, str) and node not in nodes:
        hint = nearest(node, list(nodes)) or "; none is declared"
        yield ("node",), "UNKNOWN_NODE", f"no node is called {node[:80]!r}{hint}"
    if not kinds and not one.keys() - _KEYS:  # a misspelt one is reported by its shape
        yield (), "MISSING_KEY", "say what it does: give static or local, with a filter"
    if len(kinds) > 1:
        message = "has static and local; keep one, and list the other as a control of its own"
        yield (), "CONFLICTING_KEYS", message
    for kind in kinds:
        filter_ = one[kind]
        if isinstance(filter_, str) and (fault := filter_fault(filter_)) is not None:
            yield (kind,), "WRONG_VALUE", fault


def controls_of(specs: Sequence[InterestSpec]) -> tuple[InterestControl, ...]:
    """Return the controls that a file lists, in the one order that they have as values."""
    found = [
        InterestControl(one.node, kind, filter_)
        for one in specs
        for kind, filter_ in ((ControlKind.STATIC, one.static), (ControlKind.LOCAL, one.local))
        if filter_ is not None
    ]
    return tuple(sorted(found))


def controls_written(controls: Sequence[InterestControl]) -> Mapping[str, object]:
    """Return what of a spec describes these controls: nothing if there are none."""
    written = [{"node": one.node, one.kind.value: one.filter} for one in controls]
    return {_KEY: written} if written else {}
