"""What stays away from a link: decided by the topology alone, the same at both ends."""

from __future__ import annotations

import random

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.interest import Member
from mesh.core.interest_controls import Locals, controls_barring, covers
from mesh.core.local_links import local_links
from mesh.core.routes import PUBLISHED_HERE, Arrival
from mesh.core.routing import Router
from mesh.model.control import Interest, Ownership, Scope
from mesh.model.frames import MessageClass
from mesh.model.reasons import Reason
from mesh.node.offers import link_of, offered
from tests.sim.controls import SUBJECTS
from tests.sim.drawn import random_filter
from tests.sim.meshes import naive_matches

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {
            "Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]},
            "J": {"kind": "join", "from": "b", "to": "d", "filter": "acme/>"},
        },
        "interest": [
            {"node": "b", "local": "acme/private/>"},
            {"node": "c", "local": "news"},
            {"node": "c", "static": "prices"},
        ],
    }
)
G = MessageClass.GUARANTEED


def router(node: str, *filters: str) -> Router:
    """The router of a node whose neighbours and one endpoint all want these filters."""
    made = Router(local_links(TOPOLOGY, node))
    for filter_ in filters:
        made.table.put(filter_, Member("", "here"), Interest())
        for link in made.links:
            made.table.put(filter_, Member(link.zone, link.neighbour), Interest())
    return made


def test_both_ends_refuse_what_one_keeps_local() -> None:
    """Spec: EMS-11, lab.md 2 (`filter`)."""
    at_a = router("a", ">").route("acme/private/x", PUBLISHED_HERE, G)
    assert (at_a.neighbours, at_a.endpoints) == ((), ("here",))
    assert at_a.refused == (("b", Reason.FILTER),)
    at_b = router("b", ">").route("acme/private/x", PUBLISHED_HERE, G)
    assert (at_b.neighbours, at_b.endpoints) == ((), ("here",))
    assert dict(at_b.refused) == dict.fromkeys("acd", Reason.FILTER)


def test_what_is_local_at_one_neighbour_goes_to_the_others() -> None:
    """Spec: EMS-11."""
    route = router("b", ">").route("news", PUBLISHED_HERE, G)
    assert route.neighbours == ("a",)
    assert dict(route.refused) == {"c": Reason.FILTER, "d": Reason.FILTER}  # d: by its join
    assert router("b", ">").route("acme/x", PUBLISHED_HERE, G).neighbours == ("a", "c", "d")


def test_the_forwarding_table_comes_first_and_interest_last() -> None:
    """Of the reasons that apply the first counts. Spec: lab.md 2."""
    back = router("a", ">").route("acme/private/x", Arrival("Z", "b"), G)
    assert back.refused == (("b", Reason.ARRIVAL_LINK),)
    unwanted = router("a").route("acme/private/x", PUBLISHED_HERE, G)
    assert unwanted.refused == (("b", Reason.FILTER),)


@pytest.mark.parametrize(
    ("filter_", "is_offered"),
    [
        ("acme/private/x", False),
        ("acme/private/>", False),
        ("acme/private/*/y", False),
        ("acme/*", True),
        ("acme/>", True),
        (">", True),
        ("news", True),  # local at c alone: others read the same scope
    ],
)
def test_nothing_is_offered_of_what_lies_wholly_within(filter_: str, is_offered: bool) -> None:
    """Spec: EMS-11, K22."""
    links = local_links(TOPOLOGY, "b")
    scope = Scope("Z", "a", Ownership.OWN)
    members = ((Member("", "here"), Interest()),)
    assert (offered(filter_, members, scope, link_of(links, scope)) is not None) is is_offered


def test_addresses_are_offered_whatever_is_local() -> None:
    """They prove the topology legal. Spec: K26."""
    assert not Locals((">", "*/*")).hides("$node/u")
    assert not Locals((">", "*/*")).bars("$node/u")


def test_an_endpoint_that_is_not_exported_is_offered_to_nobody() -> None:
    """Unless another one wants the same. Spec: DMR-12."""
    links, scope = local_links(TOPOLOGY, "b"), Scope("Z", "a", Ownership.OWN)
    quiet, loud = Member("", "quiet", noexport=True), Member("", "loud")
    link = link_of(links, scope)
    assert offered("x", ((quiet, Interest()),), scope, link) is None
    assert offered(
        "x", ((loud, Interest(durable=False)), (quiet, Interest())), scope, link
    ) == Interest(durable=False)


def test_both_kinds_of_endpoint_are_delivered_to() -> None:
    """Spec: DMR-12."""
    made = router("a")
    made.table.put("x", Member("", "quiet", noexport=True), Interest())
    made.table.put(">", Member("", "quiet"), Interest())
    assert made.route("x", PUBLISHED_HERE, G).endpoints == ("quiet",)


def test_who_bars_a_subject_is_named_in_the_order_of_the_way() -> None:
    assert [str(one) for one in controls_barring(TOPOLOGY, "abc", "acme/private/x")] == [
        "acme/private/> is local at b"
    ]
    assert not list(controls_barring(TOPOLOGY, "ab", "news"))


@pytest.mark.parametrize("seed", range(300))
def test_covering_is_what_subjects_say(seed: int) -> None:
    """Tried on every subject that could tell two such filters apart. Spec: K26."""
    rng = random.Random(f"covers {seed}")
    wide, narrow = (rng.choice([random_filter(rng), ">", "*/>", "a/>"]) for _ in range(2))
    selected = [one for one in SUBJECTS if naive_matches(narrow, one)]
    assert covers(wide, narrow) == all(naive_matches(wide, one) for one in selected)
