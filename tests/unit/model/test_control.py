"""What a node says that it has read of a neighbour."""

from __future__ import annotations

from mesh.model.control import LinkState, OutboxPosition

FIRST, SECOND = b"1" * 16, b"2" * 16


def at(partition: int, read: int, topic_id: bytes = FIRST) -> OutboxPosition:
    return OutboxPosition("to.b", topic_id, partition, read, read)


def test_what_a_link_state_does_not_name_stays_as_it_was_said_last() -> None:
    """A leader that has just begun knows some lanes or none. Spec: K24."""
    former = LinkState(1, 5, (at(0, 10), at(1, 20)))
    assert LinkState(2, 7).after(former) == LinkState(2, 7, former.positions)
    known = LinkState(2, 8, (at(1, 21),)).after(former)
    assert known == LinkState(2, 8, (at(1, 21), at(0, 10)))


def test_of_a_topic_that_was_recreated_the_former_positions_are_forgotten() -> None:
    """They are offsets of another log. Spec: K3, K24."""
    former = LinkState(1, 5, (at(0, 10), at(1, 20)))
    told = LinkState(1, 6, (at(0, 1, SECOND),))
    assert told.after(former) == told


def test_what_was_said_last_holds_where_it_says_less() -> None:
    """Also of one position alone that goes back: its reader's progress was lost. Spec: K24."""
    told = LinkState(2, 1, (at(0, 3),))
    assert told.after(LinkState(1, 5, (at(0, 10),))) == told
    assert told.after(None) == told
