"""What is known of consumers elsewhere travels with heartbeats. Spec: DESIGN 6, K32."""

from __future__ import annotations

from mesh.model.control import Heartbeat
from mesh.model.demands import QueueDemand
from mesh.node.demands import ANNOUNCED_MAX, Demands
from mesh.wire.control import decode_heartbeat, encode_heartbeat


def test_the_newest_of_each_member_is_handed_on() -> None:
    """Older ones change nothing, whichever way they come; a new incarnation is newer."""
    middle = Demands("b")
    middle.own["jobs"] = 7
    middle.hear([QueueDemand("Jobs", "a", 1, 5, 3), QueueDemand("jobs", "b", 9, 9, 9)], 0)
    middle.hear([QueueDemand("jobs", "a", 1, 4, 8), QueueDemand("jobs", "c", 1, 1, 1)], 0)
    assert middle.announced(2, 6) == [
        QueueDemand("jobs", "b", 2, 6, 7),
        QueueDemand("Jobs", "a", 1, 5, 3),
        QueueDemand("jobs", "c", 1, 1, 1),
    ]
    middle.hear([QueueDemand("jobs", "a", 2, 1, 0)], 0)
    assert middle.of("JOBS") == [
        QueueDemand("jobs", "a", 2, 1, 0),
        QueueDemand("jobs", "c", 1, 1, 1),
    ]
    assert middle.of("others") == []


def test_a_heartbeat_carries_them() -> None:
    """As an entry of `ext`, so older nodes pass over it."""
    beat = Heartbeat(3, 4, True, queues=(QueueDemand("jobs", "a", 1, 2, 500),))
    assert decode_heartbeat(encode_heartbeat(beat)) == beat
    assert decode_heartbeat(encode_heartbeat(Heartbeat(3, 4, True))).queues == ()


def test_a_member_whose_beats_stand_still_demands_nothing_whoever_repeats_it() -> None:
    """Nodes that hear of it from one another must not keep it alive for ever."""
    one, other = Demands("b"), Demands("c")
    one.hear([QueueDemand("jobs", "a", 1, 5, 3)], 0)
    for now in range(0, 20_000, 500):
        other.hear(one.announced(1, now), now)
        one.hear(other.announced(1, now), now)
        one.expire(now)
        other.expire(now)
    assert (one.of("jobs"), other.of("jobs")) == ([], [])
    one.hear([QueueDemand("jobs", "a", 1, 6, 3)], 20_000)
    assert [demand.room for demand in one.of("jobs")] == [3]


def test_a_queue_of_which_a_member_speaks_no_more_is_forgotten() -> None:
    demands = Demands("b")
    demands.hear([QueueDemand("old", "a", 1, 5, 3), QueueDemand("jobs", "a", 1, 5, 3)], 0)
    for beat in range(6, 10):
        demands.hear([QueueDemand("jobs", "a", 1, beat, 3)], 1_000 * beat)
    assert (len(demands.of("old")), len(demands.of("jobs"))) == (0, 1)


def test_who_comes_under_the_name_of_a_member_that_left_counts_its_beats_anew() -> None:
    """The former one may have had many epochs: its successor would demand nothing for minutes."""
    demands = Demands("b")
    demands.hear([QueueDemand("jobs", "a", 5, 90, 3)], 0)
    demands.keep(["b"])
    demands.hear([QueueDemand("jobs", "a", 1, 2, 7)], 1_000)
    assert [demand.room for demand in demands.of("jobs")] == [7]


def test_a_queue_without_room_is_told_while_it_is_news_and_costs_nothing_then() -> None:
    demands = Demands("a")
    for queue in range(5_000):
        demands.see(f"idle-{queue}", 0)
    demands.see("jobs", 9)
    counts = []
    for beat in range(8):
        counts.append(len(demands.announced(1, beat)))
        demands.see("jobs", 9)
    assert counts == [ANNOUNCED_MAX] * 4 + [1] * 4
    assert len(encode_heartbeat(Heartbeat(1, 1, True, queues=demands.announced(1, 9)))) < 100
    demands.see("jobs", 0)
    assert [one.room for one in demands.announced(1, 10)] == [0]


def test_a_heartbeat_stays_below_what_a_record_may_have() -> None:
    """With the longest names that there may be."""
    name = "n" * 64
    many = [QueueDemand(f"q{at:03}" + "q" * 60, name, 1 << 40, 1 << 40, 500) for at in range(3_000)]
    demands = Demands("b")
    demands.hear(many, 0)
    assert len(encode_heartbeat(Heartbeat(1, 1, True, queues=demands.announced(1, 1)))) < 500_000
