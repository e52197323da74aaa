"""What a router remembers changes no answer: it says what one that has seen nothing says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.conditions import condition
from mesh.core.interest import Member
from mesh.core.interest_controls import Locals
from mesh.core.local_links import LocalLink
from mesh.core.matcher import ShapeIndex
from mesh.core.routes import PUBLISHED_HERE, Arrival
from mesh.core.routing import Router
from mesh.model.control import Interest, Ownership
from mesh.model.frames import MessageClass
from mesh.model.joins import Join
from mesh.model.topology import ZoneKind
from tests.property.effort import examples

FILTERS = ["a/>", "a/*", "a/1", "*/1", ">", "$mesh/x", "*/*/1", "a/*/>", "b", "a/1/1"]
SUBJECTS = ["a/1", "a/2", "a/3", "b", "b/1", "a/1/1", "a/2/1", "a/2/2", "$mesh/x", "c", "c/1"]
CONDITIONS = [
    condition(text) for text in ("subject != 'a/2'", "subject.startsWith('a')", "'k' in headers")
]
KINDS = [ZoneKind.ONE_HOP, ZoneKind.MULTI_HOP, ZoneKind.CLUSTER, ZoneKind.EXTERNAL]

filters = st.sampled_from(FILTERS)
links = st.builds(
    LocalLink,
    neighbour=st.sampled_from(["b", "c", "d"]),
    zone=st.sampled_from(["Y", "Z"]),
    kind=st.sampled_from(KINDS),
    locals=st.builds(
        Locals, st.lists(filters, max_size=1).map(tuple), st.lists(filters, max_size=1).map(tuple)
    ),
    direct_only=st.booleans(),
    when=st.lists(st.sampled_from(CONDITIONS), max_size=2).map(tuple),
)
joins = st.builds(
    LocalLink,
    neighbour=st.just("j"),
    zone=st.just("J"),
    kind=st.just(ZoneKind.JOIN),
    out=st.builds(
        Join,
        zone=st.just("W"),
        source=st.just("here"),
        target=st.just("j"),
        filter=filters,
    ),
)
interests = st.builds(Interest, durable=st.booleans(), live=st.booleans())


@st.composite
def routers(draw: st.DrawFn) -> Router:
    """Return a router of a node with some links, which some want some filters of."""
    ends = draw(st.lists(links, max_size=3, unique_by=lambda one: one.neighbour))
    router = Router(sorted([*ends, *draw(st.lists(joins, max_size=1))]))
    router.table._index = ShapeIndex(draw(st.sampled_from([1, 2, 64])))
    members = [Member("", "endpoint"), Member("", "other")]
    for link in ends:
        members += [Member(link.zone, link.neighbour, one) for one in Ownership]
    for filter_ in draw(st.lists(filters, max_size=8)):
        router.table.put(filter_, draw(st.sampled_from(members)), draw(interests))
    return router


arrivals = st.sampled_from(
    [PUBLISHED_HERE, Arrival("Z", "b"), Arrival("Y", "c", crossed_external=True)]
)


@given(routers(), arrivals, st.sampled_from(MessageClass), st.permutations(SUBJECTS))
@examples(400)
def test_a_router_that_remembers_says_what_a_fresh_one_says(
    router: Router, arrival: Arrival, message_class: MessageClass, subjects: list[str]
) -> None:
    """Subjects of which the same is decided share a route, and no others do. Spec: DESIGN 3."""
    for subject in subjects:
        fresh = Router(router.links, router.table)
        was, is_ = (one.route(subject, arrival, message_class) for one in (router, fresh))
        for name in ("neighbours", "endpoints", "refused", "asks", "widened", "addressed"):
            assert getattr(was, name) == getattr(is_, name), (subject, name)
