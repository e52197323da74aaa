"""Copies that nobody behind a link asked for: told once it is sure that nobody did. DESIGN 3."""

from __future__ import annotations

import re

import pytest

from mesh.model.control import Subscription
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.joins import Join
from mesh.model.state import Cut
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.eras import Eras
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.link_reach import LinkReach
from streaming.audits.names import Names
from streaming.audits.needless_copies import (
    NEEDLESS_WAIT_S,
    NeedlessCopies,
    asked_patterns,
    unmatched,
)
from streaming.audits.paths import LinkPlan
from streaming.job.state import State
from streaming.tables.filters import SHAPES_MAX
from streaming.tables.rows import NeedlessRow, SourceKey, TopicPartition

SOURCE = SourceKey("aa", 0)
NAMES = Names(topics={"aa": "mesh.a.in.g"}, uuids={node: f"uuid-{node}" for node in "abcd"})


def mesh(*zones: Zone, **more: object) -> Topology:
    """Nodes a to f on one Kafka cluster."""
    return Topology(
        name="m",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={name: Node(name=name, kafka="k") for name in "abcdef"},
        zones={zone.name: zone for zone in zones},
        **more,
    )


def joining(source: str, target: str) -> Join:
    return Join(zone="J", source=source, target=target, filter="acme/>")


ROW = mesh(Zone.of_links("Z", ZoneKind.MULTI_HOP, [("a", "b"), ("b", "c"), ("b", "d")]))


def row(subject: str, topic: str = "mesh.a.to.b.g", newest: int = 5) -> NeedlessRow:
    place = TopicPartition(topic, 0)
    return NeedlessRow(place, SOURCE, 0, None, subject, 1, newest, newest + 1, newest, 7, 7)


def judged(
    interest: SubscriptionHistory, *rows: NeedlessRow, topology: Topology = ROW, **ends: int
):
    """Return what is found needless; `ends`: node -> offset at which it left `acme/*`."""
    needless, eras = NeedlessCopies("mesh."), Eras.of(topology)
    for node, offset in ends.items():
        needless.end(node, "acme/*", offset)
    assert list(needless.judge(interest, eras, NAMES, 0.0)) == []
    assert not [*needless.absorb(rows, interest, eras, 100.0)]
    assert list(needless.judge(interest, eras, NAMES, 100.0 + NEEDLESS_WAIT_S - 1)) == []
    found = list(needless.judge(interest, eras, NAMES, 100.0 + NEEDLESS_WAIT_S))
    assert needless.held == {}
    return [(one.kind.value, one.link, one.count, one.ids[0]) for one in found]


def wanting(node: str, filter_: str, **more: bool) -> SubscriptionHistory:
    interest = SubscriptionHistory()
    interest.subscribe(EndpointKey(node, "s"), filter_, Subscription(**more), 0)
    return interest


def test_what_nobody_behind_the_link_asks_for_is_needless() -> None:
    told = ("needless-copy", "a->b", 1, "mesh.a.in.g/0/0/5-6")
    assert judged(wanting("c", "acme/*"), row("other/x")) == [told]
    assert judged(wanting("a", "acme/*"), row("acme/x")) == [told]
    assert judged(wanting("c", "acme/*"), row("acme/x")) == []


def test_who_asks_elsewhere_is_not_behind_the_link() -> None:
    here, there = row("acme/x", "mesh.b.to.c.g"), row("acme/x", "mesh.b.to.d.g")
    assert [one[1] for one in judged(wanting("c", "acme/*"), here, there)] == ["b->d"]


def test_a_subscription_that_attracts_nothing_asks_for_nothing() -> None:
    assert len(judged(wanting("c", "acme/*", noexport=True), row("acme/x"))) == 1


def test_of_a_filter_that_was_left_the_origins_cut_tells_from_when_on() -> None:
    """Before it, or as long as it is not known, the copy was asked for. Spec: K25."""
    left = SubscriptionHistory()
    assert judged(left, row("acme/x"), c=9) == []
    left.lanes.cut(Cut("mesh.a.in.g", b"", 0, 5, "uuid-c", 8))
    assert judged(left, row("acme/x"), c=9) == []
    left.lanes.cut(Cut("mesh.a.in.g", b"", 0, 6, "uuid-c", 9))
    assert judged(left, row("acme/x", newest=5), c=9) == []
    assert len(judged(left, row("acme/x", newest=6), c=9)) == 1
    assert len(judged(left, row("acme/x", newest=6), c=3, d=4)) == 0


@pytest.mark.parametrize("is_left", [True, False])
def test_a_filter_of_a_recreated_clients_topic_excuses_what_was_routed_before_that_was_known(
    is_left: bool,
) -> None:
    """No lane ever knows of an offset of the former one: the filter excused copies for good."""
    state, place = State.of(ROW), TopicPartition("mesh.c.clients", 0)
    state.names, state.needless.is_open = NAMES, True
    state.interest.subscribe(EndpointKey("c", "s"), "acme/*", Subscription(), 600)
    if is_left:
        state.interest.unsubscribe(EndpointKey("c", "s"), "acme/*", 900)
        state.needless.end("c", "acme/*", 900)
    state.forget_recreated(place, "ff", 0)
    state.interest.lanes.cut(Cut("mesh.a.in.g", b"", 0, 6, "uuid-c", 0))
    found = []
    for newest in (5, 6):
        rows = [row("acme/x", newest=newest)]
        assert not [*state.needless.absorb(rows, state.interest, state.eras, 100.0)]
        told = state.needless.judge(state.interest, state.eras, NAMES, 200.0)
        found.append([one.kind.value for one in told])
    assert found == [[], ["needless-copy"]]


def test_before_all_was_read_once_nothing_is_held() -> None:
    """On an old mesh compaction may have deleted what was asked for then."""
    needless = NeedlessCopies("mesh.")
    assert not [*needless.absorb([row("other/x")], SubscriptionHistory(), Eras.of(ROW), 0.0)]
    assert needless.held == {}


def test_suspicions_beyond_a_number_are_reported(monkeypatch) -> None:
    """While a Kafka cluster is not read nothing is judged: what came then was left out."""
    monkeypatch.setattr("streaming.audits.needless_copies.HELD_MAX", 2)
    needless = NeedlessCopies("mesh.", is_open=True)
    rows = [row(f"acme/{number}") for number in range(5)]
    told = SubscriptionHistory(), Eras.of(ROW)
    findings = [*needless.absorb(rows, *told, 100.0), *needless.absorb(rows, *told, 101.0)]
    assert len(needless.held) == 2
    assert {(one.kind.value, one.link, one.count) for one in findings} == {("unproven", "a->b", 1)}
    assert (len(findings), len({one.id for one in findings})) == (6, 1)


def test_what_has_been_requested_by_now_makes_room_and_takes_none(monkeypatch) -> None:
    """Whoever subscribes to all of a busy mesh may be read after the first that came by it."""
    monkeypatch.setattr("streaming.audits.needless_copies.HELD_MAX", 2)
    needless, eras = NeedlessCopies("mesh.", is_open=True), Eras.of(ROW)
    early = [row(f"acme/{number}") for number in range(2)]
    assert not [*needless.absorb(early, SubscriptionHistory(), eras, 100.0)]
    interest = wanting("c", "acme/*")
    late = [row("acme/9"), row("other/x"), row("other/y"), row("acme/8")]
    assert not [*needless.absorb(late, interest, eras, 101.0)]
    assert [key.subject for key in needless.held] == ["other/x", "other/y"]
    assert len([*needless.absorb([row("other/z"), row("acme/7")], interest, eras, 102.0)]) == 1


def test_of_a_filter_that_was_left_too_long_ago_to_be_known_nothing_is_proven(monkeypatch) -> None:
    """A link that lagged behind a thousand filters that were left had needless copies."""
    monkeypatch.setattr("streaming.audits.needless_copies.ENDED_MAX", 2)
    interest, eras, needless = (
        SubscriptionHistory(),
        Eras.of(ROW),
        NeedlessCopies("mesh.", is_open=True),
    )
    for offset, filter_ in enumerate(["acme/*", "x/1", "x/2"], 7):
        needless.end("c", filter_, offset)
        interest.lanes.cut(Cut("mesh.a.in.g", b"", 0, 5 + offset, "uuid-c", offset))
    rows = [row("acme/x", newest=11), row("acme/y", newest=20)]
    assert not [*needless.absorb(rows, interest, eras, 100.0)]
    found = needless.judge(interest, eras, NAMES, 100.0 + NEEDLESS_WAIT_S)
    assert [one.kind.value for one in found] == ["unproven", "needless-copy"]


def test_what_stands_in_the_topology_is_asked_for() -> None:
    static = InterestControl("c", ControlKind.STATIC, "acme/>")
    topology = mesh(*ROW.zones.values(), interest=(static,))
    assert judged(SubscriptionHistory(), row("acme/x"), topology=topology) == []
    assert len(judged(SubscriptionHistory(), row("other/x"), topology=topology)) == 1


def test_with_more_shapes_than_a_node_looks_up_nothing_is_told() -> None:
    """A surplus filter is widened: the one exception to exactness. Spec: DESIGN 3."""
    interest = SubscriptionHistory()
    for number in range(SHAPES_MAX + 1):
        stars = format(number + 1, "b").replace("0", "x/").replace("1", "*/")
        interest.subscribe(EndpointKey("c", "s"), f"{stars}end", Subscription(), number)
    assert judged(interest, row("other")) == []
    assert asked_patterns("mesh.", interest, Eras.of(ROW)) == {}


def test_spark_is_given_one_expression_for_each_link() -> None:
    patterns = asked_patterns("mesh.", wanting("c", "acme/*"), Eras.of(ROW))
    selected = {
        topic: bool(re.search(text.replace(r"\z", r"\Z"), "acme/x"))
        for topic, text in patterns.items()
    }
    assert selected == {
        "mesh.a.to.b": True,
        "mesh.b.to.a": False,
        "mesh.b.to.c": True,
        "mesh.b.to.d": False,
        "mesh.c.to.b": False,
        "mesh.d.to.b": True,
    }


def test_more_than_frames_are_matched_against_is_reported(monkeypatch) -> None:
    patterns = asked_patterns("mesh.", wanting("c", "acme/*"), Eras.of(ROW))
    assert unmatched(patterns) is None
    monkeypatch.setattr("streaming.audits.needless_copies.BYTES_MAX", 20)
    finding = unmatched(patterns)
    assert finding is not None
    assert finding.kind.value == "unproven"


@pytest.mark.parametrize(
    ("topology", "link", "nodes"),
    [
        (mesh(Zone.full_mesh("Z", ZoneKind.ONE_HOP, "abc")), "ab", "b"),
        (mesh(Zone.full_mesh("Z", ZoneKind.CLUSTER, "abc")), "ab", "b"),
        (ROW, "ab", "bcd"),
        (ROW, "cb", "abd"),
        (
            mesh(
                Zone.full_mesh("Z", ZoneKind.ONE_HOP, "ab"),
                Zone.full_mesh("Y", ZoneKind.ONE_HOP, "bc"),
            ),
            "ab",
            "bc",
        ),
        (
            mesh(
                Zone.of_links("X", ZoneKind.EXTERNAL, [("a", "b")]),
                Zone.of_links("Y", ZoneKind.EXTERNAL, [("b", "c")]),
                Zone.full_mesh("C", ZoneKind.CLUSTER, "bd"),
            ),
            "ab",
            "bd",
        ),
        (
            mesh(
                Zone.full_mesh("Z", ZoneKind.ONE_HOP, "ab"),
                Zone.of_join(joining("b", "c")),
            ),
            "ab",
            "bc",
        ),
        (mesh(Zone.of_join(joining("a", "b"))), "ab", ""),
    ],
)
def test_behind_a_link_are_those_that_the_rules_let_a_message_come_to(
    topology: Topology, link: str, nodes: str
) -> None:
    behind = LinkReach.of(topology, LinkPlan.of(topology))
    assert "".join(behind.nodes[link[0], link[1]]) == nodes


def test_where_a_join_takes_from_stands_to_be_sent_there() -> None:
    join = Zone.of_join(joining("b", "c"))
    topology = mesh(Zone.full_mesh("Z", ZoneKind.ONE_HOP, "ab"), join)
    assert judged(SubscriptionHistory(), row("acme/x"), topology=topology) == []
    assert len(judged(SubscriptionHistory(), row("other/x"), topology=topology)) == 1
    assert judged(SubscriptionHistory(), row("acme/x", "mesh.b.to.c.g"), topology=topology) == []
