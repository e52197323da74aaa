"""The shape index finds exactly the filters that `matches` selects, and covers the surplus."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.interest import InterestTable, Member
from mesh.core.matcher import SHAPES_MAX, Shape
from mesh.model.control import Wish
from mesh.model.subject import matches
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
        table.put(filter_, ANYONE, Wish())
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
        table.put(filter_, ANYONE, Wish())
    assert table.shape_count() <= SHAPES_MAX + 1
    assert table.widened_count() > 0
    found = {filter_ for filter_, _ in table.matching("a/b/c/d/e/f/g")}
    assert found == set(filters)
    for filter_ in filters:
        table.put(filter_, ANYONE, None)
    assert (table.shape_count(), table.widened_count()) == (0, 0)
    assert list(table.matching("a/b/c/d/e/f/g")) == []


@given(filter_=FILTER, shape_of=FILTER, subject=SUBJECT)
@examples(500)
def test_a_covering_filter_matches_whatever_the_covered_one_does(
    filter_: str, shape_of: str, subject: str
) -> None:
    """Spec: DESIGN 3."""
    wider = Shape.of(shape_of).covers(filter_.split("/"))
    if wider is not None and matches(filter_, subject):
        assert matches(wider, subject)
