"""Selectors as a Mesh file says them: `spec.selectors`. Spec: EMS-14."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from mesh.config.conditions import condition_fault
from mesh.config.located import KeyPath, Locate
from mesh.config.nearest import nearest
from mesh.config.shapes import StrictModel
from mesh.errors import Problem
from mesh.model.selectors import Selector

Ends = Sequence[str]


class SelectorSpec(StrictModel):
    """What messages must meet to leave on a link in one direction."""

    link: Annotated[list[str], Field(min_length=2, max_length=2)] = Field(
        description="The two nodes, in any order."
    )
    from_: str = Field(alias="from", description="The end that messages leave.")
    when: str = Field(description="A condition in CEL over subject and headers.")


def selectors_of(specs: Sequence[SelectorSpec]) -> Sequence[Selector]:
    """Return the selectors that a checked file declares, in its order."""
    return tuple(
        Selector(source=one.from_, target=_other(one.link, one.from_), when=one.when)
        for one in specs
    )


def written_selectors(selectors: Sequence[Selector]) -> Sequence[Mapping[str, object]]:
    """Return selectors as `selectors_of` reads them back."""
    return [
        {"link": [one.source, one.target], "from": one.source, "when": one.when}
        for one in selectors
    ]


def selector_problems(
    spec: Mapping[str, object],
    locate: Locate,
    nodes: Mapping[str, object],
    linked: Sequence[Ends],
    joins: Sequence[Ends],
) -> Iterator[Problem]:
    """Yield what is wrong with selectors that their shape alone does not show.

    Args:
        spec: What stands under `spec`, as read.
        locate: Places of paths below it.
        nodes: Those that are declared.
        linked: Ends of all links, joins among them.
        joins: Source and target of each join: no other direction of such a link sends.
    """
    listed = spec.get("selectors")
    pairs = {frozenset(ends) for ends in linked}
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        declared = item if isinstance(item, Mapping) else {}
        path: KeyPath = ("selectors", index)
        for code, message, key in _faults(declared, nodes, pairs, joins):
            yield Problem(code=code, message=message, where=locate((*path, key)))


def _faults(
    declared: Mapping[str, object],
    nodes: Mapping[str, object],
    pairs: set[frozenset[str]],
    joins: Sequence[Ends],
) -> Iterator[tuple[str, str, str]]:
    """Yield (code, message, key) for one selector."""
    when = declared.get("when")
    if isinstance(when, str) and (fault := condition_fault(when)) is not None:
        yield "BAD_CONDITION", fault, "when"
    listed, source = declared.get("link"), declared.get("from")
    ends = [end for end in listed if isinstance(end, str)] if isinstance(listed, list) else []
    unknown = [end for end in ends if end not in nodes]
    for end in unknown:
        hint = nearest(end, list(nodes)) or "; none is declared"
        yield "UNKNOWN_NODE", f"no node is called {end[:80]!r}{hint}", "link"
    if len(ends) != 2 or unknown:
        return
    if frozenset(ends) not in pairs:
        message = f"{ends[0]} and {ends[1]} are not linked; remove the selector or link them"
        yield "UNKNOWN_LINK", message, "link"
        return
    if not isinstance(source, str):
        return
    if source not in ends:
        message = f"{source[:80]!r} is not an end of the link; write {ends[0]} or {ends[1]}"
        yield "UNKNOWN_NODE", message, "from"
        return
    way = (source, _other(ends, source))
    if way[::-1] in [tuple(one) for one in joins] and way not in [tuple(one) for one in joins]:
        message = f"the join leads from {way[1]} to {way[0]} only; write from: {way[1]}"
        yield "ONE_WAY", message, "from"


def _other(ends: Ends, source: str) -> str:
    return ends[1] if ends[0] == source else ends[0]
