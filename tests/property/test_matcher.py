"""The shape index finds exactly the filters that `matches` selects, and covers the surplus."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.core import interest, routing
from mesh.core.interest import InterestTable, Member
from mesh.core.local_links import LocalLink
from mesh.core.matcher import SHAPES_MAX, Shape
from mesh.core.queues import Attractions
from mesh.core.routes import PUBLISHED_HERE
from mesh.core.routing import Router
from mesh.model.control import Interest
from mesh.model.frames import MessageClass
from mesh.model.queues import Attraction, MemberKind
from mesh.model.subject import matches
from mesh.model.topology import ZoneKind
from tests.property.effort import examples

LEVEL = st.sampled_from(["a", "b", "c", "$x"])
SUBJECT = st.lists(LEVEL, min_size=1, max_size=5).map("/".join)
FILTER = st.builds(
    lambda levels, tail: "/".join([*levels, ">"] if tail else levels),
    st.lists(st.sampled_from(["a", "b", "c", "*"]), min_size=1, max_size=5),
    st.booleans(),
)

ANYONE = Member("", "e")


@given(filters=st.sets(FILTER, max_size=40), gone=st.sets(FILTER, max_size=10), subject=SUBJECT)
@examples(400)
def test_match_agrees_with_the_one_matcher(filters: set[str], gone: set[str], subject: str) -> None:
    """Spec: DESIGN 2, K26."""
    table = InterestTable()
    for filter_ in [*sorted(filters), ">"]:
        table.put(filter_, ANYONE, Interest())
    for filter_ in sorted(gone):
        table.put(filter_, ANYONE, None)
    found = [filter_ for filter_, _ in table.matching(subject)]
    left = (filters | {">"}) - gone
    assert found == sorted(filter_ for filter_ in left if matches(filter_, subject))


def hostile_filters() -> list[str]:
    """Return filters of 2^7 shapes: every choice of literal and star at seven levels."""
    choices = [[]]
    for level in "abcdefg":
        choices = [[*c, x] for c in choices for x in (level, "*")]
    return ["/".join(c) for c in choices]


def test_surplus_shapes_are_widened_never_missed() -> None:
    """Spec: DESIGN 3: at most 64 wildcard shapes; a surplus one is covered, so nothing is lost."""
    table = InterestTable()
    filters = hostile_filters()
    for filter_ in filters:
        table.put(filter_, ANYONE, Interest())
    assert len(table._index.shapes) <= SHAPES_MAX + 1
    assert table._index.widened
    found = [filter_ for filter_, _ in table.matching("a/b/c/d/e/f/g")]
    assert len(found) <= SHAPES_MAX + 2
    assert all(any(matches(wider, one.replace("*", "x")) for wider in found) for one in filters)
    for filter_ in filters:
        table.put(filter_, ANYONE, None)
    assert not table._index.shapes
    assert not table._index.widened
    assert list(table.matching("a/b/c/d/e/f/g")) == []


def test_surplus_filters_cost_the_same_however_many_there_are() -> None:
    """16,384 of one client against 128: a new subject takes no longer. Spec: DESIGN 3."""
    costs = []
    for levels in (7, 14):
        table = InterestTable()
        for choice in itertools.product(*((chr(97 + at), "*") for at in range(levels))):
            table.put("/".join(choice), ANYONE, Interest())
        subject = "/".join(chr(97 + at) for at in range(levels - 1)) + "/other"
        table.put("quiet/*/x", Member("", "late"), Interest())
        assert [m.name for _, members in table.matching("quiet/y/z") for m, _ in members] == ["e"]
        costs.append(sum(1 for _ in table.matching(subject)))
    assert max(costs) <= SHAPES_MAX + 2


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by each filter or shape that a subject is compared with."""
    steps: list[str] = []
    applied_to, of_interest = Shape.applied_to, interest.matches

    def apply(shape: Shape, levels: Sequence[str]) -> str | None:
        steps.append("shape")
        return applied_to(shape, levels)

    def match(filter_: str, subject: str) -> bool:
        steps.append("filter")
        return of_interest(filter_, subject)

    monkeypatch.setattr(Shape, "applied_to", apply)
    monkeypatch.setattr(interest, "matches", match)
    monkeypatch.setattr(routing, "matches", match)
    return steps


def test_a_new_subject_is_compared_with_few_filters_however_many_are_hostile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 16,384 filters of one client: a step takes a microsecond, so a tenth of a millisecond.

    Spec: DESIGN 3. The figure itself: `python -m tests.bench.hostile`.
    """
    router = Router([])
    for choice in itertools.product(*((chr(97 + at), "*") for at in range(14))):
        router.table.put("/".join(choice), ANYONE, Interest())
    router.table.put("quiet/*/x", Member("", "late"), Interest())
    steps = counted(monkeypatch)
    subject = "/".join(chr(97 + at) for at in range(13)) + "/other"
    route = router.route(subject, PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert route.endpoints == ("e",)
    assert len(steps) <= 3 * (SHAPES_MAX + 2)
    steps.clear()
    route = router.route("quiet/y/z", PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert (route.endpoints, route.widened) == (("e",), ("e",))
    route = router.route("quiet/y/x", PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert (route.endpoints, route.widened) == (("e", "late"), ("e",))
    assert len(steps) <= 6 * (SHAPES_MAX + 2)


def test_copies_that_a_wider_filter_selects_are_known_by_their_link() -> None:
    """A neighbour that asks for the very subject has none of them. Spec: DESIGN 3."""
    links = [LocalLink(name, "Z", ZoneKind.MULTI_HOP) for name in "bc"]
    router = Router(links)
    for filter_ in hostile_filters():
        router.table.put(filter_, Member("Z", "b"), Interest())
    router.table.put("quiet/*/x", Member("Z", "c"), Interest())
    route = router.route("quiet/y/x", PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert (route.neighbours, route.widened) == (("b", "c"), ("b",))
    route = router.route("a/b/c/d/e/f/g", PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert (route.neighbours, route.widened) == (("b",), ())


def test_of_queues_each_shape_is_one_step_and_nothing_is_widened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many filters of few shapes, as of one node's queues, and more shapes than channels have."""
    attractions = Attractions()
    shapes = list(itertools.product(*((chr(97 + at), "*") for at in range(7))))
    for choice in shapes:
        for number in range(20):
            filter_ = "/".join((*choice, f"n{number}"))
            attractions.add(Attraction("q", "a", MemberKind.ANY, filter_))
    steps = counted(monkeypatch)
    found = attractions.matching("a/b/c/d/e/f/g/n3")
    assert len(found) == len(shapes)
    assert attractions.matching("x/b/c/d/e/f/g/n3") != found
    assert len(steps) <= 2 * len(shapes)


def test_needless_copies_go_to_who_has_too_many_shapes_and_to_nobody_else() -> None:
    """Members with a few surplus filters get exactly what they ask for. Spec: DESIGN 3."""
    table = InterestTable()
    for filter_ in hostile_filters():
        table.put(filter_, ANYONE, Interest())
    late = Member("", "late")
    table.put("x/*/y/*/z", late, Interest(durable=False))
    for subject, wanting in (("x/1/y/2/z", ["e", "late"]), ("x/1/y/2/w", ["e"])):
        found = {member.name for _, members in table.matching(subject) for member, _ in members}
        assert sorted(found) == wanting
    table.put("x/*/y/*/z", late, None)
    found = {member.name for _, members in table.matching("x/1/y/2/z") for member, _ in members}
    assert found == {"e"}


@given(filters=st.lists(st.tuples(FILTER, st.sampled_from("abc"), st.booleans()), max_size=80))
@examples(100)
def test_who_has_surplus_filters_is_known_as_they_come_and_go(
    filters: list[tuple[str, str, bool]],
) -> None:
    """Nobody who wants a subject is missed, and nothing is left in the end."""
    table, wanted = InterestTable(), set()
    for filter_ in hostile_filters():
        table.put(filter_, ANYONE, Interest())
    for filter_, name, is_there in filters:
        table.put(filter_, Member("", name), Interest() if is_there else None)
        (wanted.add if is_there else wanted.discard)((filter_, name))
        for subject in ("a/b/c", "a/a", "b/c/c/a", "$x/a"):
            names = {one.name for _, members in table.matching(subject) for one, _ in members}
            assert {name for filter_, name in wanted if matches(filter_, subject)} <= names
    for filter_, name in wanted:
        table.put(filter_, Member("", name), None)
    for filter_ in hostile_filters():
        table.put(filter_, ANYONE, None)
    assert (len(table._index.shapes), table._index.widened, table._surplus) == (0, {}, {})


@given(filter_=FILTER, shape_of=FILTER, subject=SUBJECT)
@examples(500)
def test_a_covering_filter_matches_whatever_the_covered_one_does(
    filter_: str, shape_of: str, subject: str
) -> None:
    """Spec: DESIGN 3."""
    wider = Shape.of(shape_of).covers(filter_.split("/"))
    if wider is not None and matches(filter_, subject):
        assert matches(wider, subject)
