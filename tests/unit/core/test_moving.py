"""Where messages of a queue go once they wait in the queue of one member. Spec: DESIGN 6, EMS-12."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.moving import WINDOW, Part, is_client, room_for, target_of
from mesh.core.queues import Nearness
from mesh.model.demands import QueueDemand

CHAIN = topology_from_mapping(
    {
        "kafka": {"k": None},
        "nodes": {name: {"kafka": "k"} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["c", "d"]]}},
    }
)


def _demand(node: str, room: int) -> QueueDemand:
    return QueueDemand("jobs", node, 1, 1, room)


def test_what_is_demanded_leaves_room_for_what_is_under_way() -> None:
    """Two demands together, and what waits, are a window at most."""
    assert room_for(0, 0) == 0
    assert room_for(2, 0) == WINDOW // 2
    assert room_for(1, WINDOW) == 0
    for waiting in range(0, WINDOW, 50):
        assert waiting + room_for(1, 0) + room_for(1, waiting) <= WINDOW or not room_for(1, waiting)


@pytest.mark.parametrize(
    ("part", "consumers", "demands", "home", "target"),
    [
        (Part.ANY, 0, [], None, None),
        (Part.ANY, 0, [("d", 5), ("c", 1)], None, "c"),
        (Part.ANY, 0, [("d", 5), ("c", 0)], None, "d"),
        (Part.ANY, 1, [("c", 5)], None, None),
        (Part.HOME, 0, [("b", 0), ("a", 1)], "b", "a"),
        (Part.HOME, 1, [("a", 1), ("c", 9)], "b", "c"),
        (Part.HOME, 0, [("d", 9)], "b", None),
        (Part.PROXY, 0, [("b", 0)], "b", "b"),
        (Part.PROXY, 0, [], None, None),
        (Part.PROXY, 1, [("b", 9)], "b", None),
    ],
)
def test_messages_move_where_somebody_consumes(
    part: Part,
    consumers: int,
    demands: list[tuple[str, int]],
    home: str | None,
    target: str | None,
) -> None:
    """`any`: only from where nobody does, the nearest. `home`: to its neighbours, and back."""
    node = "b" if part is Part.HOME else "a"
    known = [_demand(*one) for one in demands]
    assert target_of(part, consumers, known, home, Nearness(CHAIN, node)) == target


def test_movers_are_no_clients() -> None:
    assert is_client("my-service-1")
    assert is_client("mesh-client-queue")
    assert is_client("furniture-mover")  # else its messages would be taken away from it
    assert not is_client("mesh-a-mover")
    assert not is_client("mover")
