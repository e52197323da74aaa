"""What neighbours want is kept for later starts, without taking more of a core the more there is."""

from __future__ import annotations

from mesh.core.routing import LocalLink
from mesh.core.scopes import ScopeReader
from mesh.model.control import Mark, Ownership, Scope, Wish
from mesh.model.topology import ZoneKind
from mesh.node.neighbour import Neighbour
from mesh.node.remembering import PER_FILTER_MS, REMEMBER_MS, Remembering

SCOPE = Scope("Z", "", Ownership.OWN)
MANY = 50_000


def a_neighbour(count: int) -> Neighbour:
    """Return one that wants so many filters, proven."""
    view = {f"x/{number}": Wish() for number in range(count)}
    reader = ScopeReader(view=view, mark=Mark(1, 1, count, 0), proven=True)
    return Neighbour(LocalLink("n", "Z", ZoneKind.CLUSTER), scopes={SCOPE: reader})


def kept_when(count: int, until_ms: int) -> list[int]:
    """Return when the whole is kept, of a neighbour that wants something else at each look."""
    neighbour, remembering = a_neighbour(count), Remembering()
    view, found = neighbour.scopes[SCOPE].view, []
    for now in range(0, until_ms, 100):
        del view[next(iter(view))]
        view[f"new/{now}"] = Wish()
        if list(remembering.look({"n": neighbour}, now)):
            found.append(now)
    return found


def test_a_few_filters_are_kept_every_two_seconds() -> None:
    """Spec: K21."""
    assert kept_when(10, 6_001) == [0, REMEMBER_MS + 100, 2 * REMEMBER_MS + 200]


def test_many_filters_are_kept_the_more_seldom() -> None:
    """Spec: K21: what is withdrawn meanwhile only waits a little longer."""
    first, second, *_ = kept_when(MANY, 10_000)
    assert second - first == REMEMBER_MS + MANY * PER_FILTER_MS


def test_what_must_be_kept_now_does_not_wait() -> None:
    """A link that is being disabled freezes what its neighbour wants. Spec: K21."""
    neighbour, remembering = a_neighbour(MANY), Remembering()
    list(remembering.look({"n": neighbour}, 0))
    neighbour.scopes[SCOPE].view.clear()
    assert not list(remembering.look({"n": neighbour}, 100))
    (kept,) = remembering.look({"n": neighbour}, 100, at_once=True)
    assert kept.filters == ()
