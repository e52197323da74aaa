"""What neighbours want is kept for later starts, without taking more of a core the more there is."""

from __future__ import annotations

from mesh.core.local_links import LocalLink
from mesh.core.scopes import ScopeReader
from mesh.model.control import Interest, Mark, Ownership, Scope
from mesh.model.interest_inputs import input_name
from mesh.model.topology import ZoneKind
from mesh.node.neighbour import Neighbour
from mesh.node.remembering import PER_FILTER_MS, REMEMBER_MS, Remembering
from mesh.node.rounds import Round

SCOPE = Scope("Z", "", Ownership.OWN)
MANY = 50_000
CAME = {("n", SCOPE): ["new"]}


def a_neighbour(count: int) -> Neighbour:
    """Return one that wants so many filters, proven."""
    view = {f"x/{number}": Interest() for number in range(count)}
    reader = ScopeReader(view=view, mark=Mark(1, 1, count, 0), proven=True)
    return Neighbour(LocalLink("n", "Z", ZoneKind.CLUSTER), scopes={SCOPE: reader})


def kept_when(count: int, until_ms: int) -> list[int]:
    """Return when the whole is kept, of a neighbour that wants something else at each look."""
    neighbour, remembering = a_neighbour(count), Remembering()
    view, found = neighbour.scopes[SCOPE].view, []
    for now in range(0, until_ms, 100):
        del view[next(iter(view))]
        view[f"new/{now}"] = Interest()
        if list(remembering.look({"n": neighbour}, [], now)):
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
    list(remembering.look({"n": neighbour}, [], 0))
    neighbour.scopes[SCOPE].view.clear()
    assert not list(remembering.look({"n": neighbour}, [], 100))
    (kept,) = remembering.look({"n": neighbour}, [], 100, at_once=True)
    assert kept.filters == ()


def test_who_has_read_less_than_the_lanes_route_by_keeps_nothing() -> None:
    """What a former leader has kept is newer than what a lagging one would write there. K21."""
    neighbour, remembering, heard = a_neighbour(3), Remembering(), input_name("n", SCOPE)
    lanes = [{heard: (1, 2)}, {heard: (1, 3)}]
    round_ = Round({heard: (1, 1)}, {}, {}, new_filters={("n", SCOPE): ["x/0"]})
    assert not list(remembering.add({"n": neighbour}, lanes, round_))
    assert not list(remembering.look({"n": neighbour}, lanes, 0))
    neighbour.scopes[SCOPE].mark = Mark(1, 2, 3, 0)
    (kept,) = remembering.look({"n": neighbour}, lanes, 10_000)
    assert (kept.number, len(kept.filters)) == (2, 3)


def test_a_version_by_which_nothing_came_is_told_once() -> None:
    """Who finds a later one in a lane knows by that whether something may lack here."""
    neighbour, remembering, heard = a_neighbour(3), Remembering(), input_name("n", SCOPE)
    list(remembering.look({"n": neighbour}, [], 0))
    neighbour.scopes[SCOPE].mark = Mark(1, 3, 3, 0)
    round_ = Round({heard: (1, 2)}, {}, {})
    (written,) = remembering.add({"n": neighbour}, [], round_)
    assert (written.epoch, written.number, written.filters, written.is_more) == (1, 2, (), True)
    assert not list(remembering.add({"n": neighbour}, [], round_))


def test_what_cannot_be_kept_with_its_round_is_kept_with_the_next() -> None:
    """A topic that is read anew tells again what is in force, and that is no news. K21."""
    neighbour, remembering, heard = a_neighbour(1), Remembering(), input_name("n", SCOPE)
    list(remembering.look({"n": neighbour}, [], 0))
    assert not list(remembering.add({"n": neighbour}, [], Round({}, {}, {}, new_filters=CAME)))
    (written,) = remembering.add({"n": neighbour}, [], Round({heard: (1, 2)}, {}, {}))
    assert (written.number, written.filters, written.is_more) == (2, ("new",), True)


def test_what_an_old_mark_proves_replaces_nothing_that_was_acknowledged() -> None:
    """A topic that has lost its end lacks what came last, and its writer may be dead. K21, K23."""
    neighbour, remembering = a_neighbour(3), Remembering()
    reader = neighbour.scopes[SCOPE]
    reader.mark = Mark(1, 5, 3, 0)
    list(remembering.look({"n": neighbour}, [{}], 0))
    reader.begin_again(has_lost_end=True)
    reader.view["x/0"] = Interest()
    reader.mark, reader.proven = Mark(1, 3, 1, 0), True
    assert not list(remembering.look({"n": neighbour}, [{}], 10_000))
    reader.mark = Mark(2, 1, 1, 0)
    (kept,) = remembering.look({"n": neighbour}, [{}], 20_000)
    assert (kept.epoch, kept.filters) == (2, ("x/0",))


def test_what_is_not_proven_is_kept_as_what_the_lanes_route_by() -> None:
    """A start without a proof goes by an older version than that of the mark it has read. K21."""
    neighbour, remembering, heard = a_neighbour(3), Remembering(), input_name("n", SCOPE)
    reader = neighbour.scopes[SCOPE]
    reader.mark, reader.proven = Mark(1, 5, 4, 0), False
    round_ = Round({heard: (1, 2)}, {}, {}, new_filters=CAME)
    (written,) = remembering.add({"n": neighbour}, [{heard: (1, 2)}], round_)
    assert (written.epoch, written.number, len(written.filters)) == (1, 2, 3)
