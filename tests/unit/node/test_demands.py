"""What is known of consumers elsewhere travels with heartbeats. Spec: DESIGN 6, K32."""

from __future__ import annotations

from mesh.codec.control import decode_heartbeat, encode_heartbeat
from mesh.model.control import Heartbeat
from mesh.model.demands import QueueDemand
from mesh.node.demands import Demands


def test_the_newest_of_each_member_is_handed_on() -> None:
    """Older ones change nothing, whichever way they come; a new incarnation is newer."""
    middle = Demands("b")
    middle.own["jobs"] = 7
    middle.hear([QueueDemand("Jobs", "a", 1, 5, 3), QueueDemand("jobs", "b", 9, 9, 9)])
    middle.hear([QueueDemand("jobs", "a", 1, 4, 8), QueueDemand("jobs", "c", 1, 1, 1)])
    assert middle.told(2, 6) == [
        QueueDemand("jobs", "b", 2, 6, 7),
        QueueDemand("Jobs", "a", 1, 5, 3),
        QueueDemand("jobs", "c", 1, 1, 1),
    ]
    middle.hear([QueueDemand("jobs", "a", 2, 1, 0)])
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
