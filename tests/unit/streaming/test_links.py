"""What crossed each link, and what did not. Spec: lab.md 2, K29."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.model.state import Dropped, Ledger, NotForwarded, SourceRange
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.links import OTHERS, REASON_MAX, REASONS_MAX, Links
from streaming.tables.rows import FramePlace, FrameRow, SourceKey, TopicPartition


@pytest.fixture
def links() -> Links:
    return Links.of(
        Topology(
            name="m",
            kafka={"k": DeclaredKafka(name="k")},
            nodes={name: Node(name=name, kafka="k") for name in "ab"},
            zones={"Z": Zone.full_mesh("Z", ZoneKind.ONE_HOP, ["a", "b"])},
        )
    )


def frames(topic: str, messages: int, *, is_repair: bool = False) -> FrameRow:
    place = FramePlace(0, -1, 0, 0)
    return FrameRow(
        place=TopicPartition(topic, 0),
        is_repair=is_repair,
        kind="data",
        zone="Z",
        path=("a",),
        chain=SourceKey("aa", 0),
        source=SourceKey("aa", 0),
        generation=0,
        frames=2,
        messages=messages,
        first=0,
        last=0,
        head=place,
        tail=place,
        broken=(),
        late=0,
    )


def test_messages_are_counted_at_the_sender_and_repairs_apart(links):
    links.frames([frames("mesh.a.to.b.g", 5), frames("mesh.a.to.b.d", 3)])
    links.frames([frames("mesh.a.to.b.g", 4, is_repair=True)])
    count = links.counts["a->b"]
    assert (count.messages, count.frames, count.repairs, count.direct) == (8, 4, 4, 3)
    assert links.counts["b->a"].messages == 0


def test_what_nodes_say_they_read_and_dropped_stands_beside_it(links):
    topic = "mesh.a.to.b.d"
    links.ledger(
        Ledger(
            node="b",
            lane=0,
            lane_epoch=1,
            sources=[
                SourceRange(topic, b"", 0, 0, 2, 9),
                SourceRange("mesh.b.in.d", b"", 0, 0, 2, 7),
            ],
            not_forwarded=[
                NotForwarded("a", "node_down", MessageClass.DIRECT, 2),
                NotForwarded("a", "filter", MessageClass.DIRECT, 0),
            ],
            dropped=[Dropped("stale_epoch", topic, 0, 4), Dropped("x", "strange", 0, 1)],
        )
    )
    assert links.counts["a->b"].direct_read == 9
    assert links.counts["a->b"].dropped == {"stale_epoch": 4}
    assert links.counts["b->a"].not_forwarded == {"node_down": 2}


def test_rates_are_over_the_time_since_the_last_one_and_end_with_a_zero(links):
    links.frames([frames("mesh.a.to.b.g", 10)])
    assert links.take_rates(2.0) == {"a->b": 5.0, "b->a": 0.0}
    links.changed.clear()
    assert links.take_rates(0.0) == {}
    assert links.take_rates(1.0)["a->b"] == 0.0
    assert list(links.changed) == ["a->b"]
    links.changed.clear()
    assert links.take_rates(1.0)["a->b"] == 0.0
    assert list(links.changed) == []


def test_a_ledger_of_a_stranger_makes_no_links_and_no_endless_reasons(links: Links) -> None:
    """Each is published, and a record has an end."""
    direct = MessageClass.DIRECT
    odd = [NotForwarded("b" * 300, "x", direct, 1), NotForwarded("b", "x" * 300, direct, 1)]
    odd += [NotForwarded("b", f"r{number}", direct, 1) for number in range(100)]
    links.ledger(Ledger(node="a", lane=0, lane_epoch=1, not_forwarded=odd))
    links.ledger(Ledger(node="\0", lane=0, lane_epoch=1, not_forwarded=odd))
    assert list(links.counts) == ["a->b", "b->a"]
    reasons = links.counts["a->b"].not_forwarded
    assert max(map(len, reasons)) == REASON_MAX
    assert (len(reasons), reasons[OTHERS]) == (REASONS_MAX + 1, 101 - REASONS_MAX)
