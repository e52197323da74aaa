"""Workers share lanes by the group protocol. Spec: K15."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.transport.port import Membership
from tests.contract.conftest import Stand


def _settle(stand: Stand, members: Sequence[Membership], sizes: Sequence[int]) -> None:
    def is_shared() -> bool:
        for member in members:
            member.poll()
        lanes = [member.lanes() for member in members]
        together = [lane for owned in lanes for lane in owned]
        assert len(together) == len(set(together)), "two members own one lane"
        return sorted(map(len, lanes)) == sorted(sizes)

    stand.wait(is_shared, pace_s=0.01)


def test_members_share_the_partitions_evenly(stand: Stand) -> None:
    """One has all, two have half each, and never does a lane have two owners."""
    topic = stand.topic(4)
    first = stand.kafka.membership("first", f"group.{topic}", topic)
    _settle(stand, [first], [4])
    second = stand.kafka.membership("second", f"group.{topic}", topic)
    _settle(stand, [first, second], [2, 2])
    third = stand.kafka.membership("third", f"group.{topic}", topic)
    _settle(stand, [first, second, third], [1, 1, 2])


def test_lanes_of_a_leaver_go_to_the_others_soon(stand: Stand) -> None:
    """A clean close takes the leaver out of the group; nobody waits for the member timeout."""
    topic = stand.topic(3)
    first = stand.kafka.membership("first", f"group.{topic}", topic)
    second = stand.kafka.membership("second", f"group.{topic}", topic)
    _settle(stand, [first, second], [1, 2])
    kept = second.lanes()
    first.close()
    assert first.lanes() == frozenset()
    assert len(stand.kafka.admin().group_members(f"group.{topic}")) == 1
    _settle(stand, [second], [3])
    assert kept < second.lanes()


def test_owned_lanes_stay_through_a_rebalance(stand: Stand) -> None:
    """Who keeps a lane never loses it on the way, so it can work on."""
    topic = stand.topic(4)
    first = stand.kafka.membership("first", f"group.{topic}", topic)
    _settle(stand, [first], [4])
    second = stand.kafka.membership("second", f"group.{topic}", topic)
    seen: list[frozenset[int]] = []

    def is_shared() -> bool:
        first.poll()
        second.poll()
        seen.append(first.lanes())
        return len(second.lanes()) == 2

    stand.wait(is_shared, pace_s=0.01)
    assert all(first.lanes() <= lanes for lanes in seen)


def test_lanes_that_move_away_are_told_while_nobody_else_has_them(stand: Stand) -> None:
    """Who gives them up commits first; the group waits for that. Spec: K15, K18."""
    topic = stand.topic(4)
    first = stand.kafka.membership("first", f"group.{topic}", topic)
    _settle(stand, [first], [4])
    second = stand.kafka.membership("second", f"group.{topic}", topic)
    offers: list[tuple[frozenset[int], frozenset[int]]] = []

    def giving_up(lanes: frozenset[int]) -> None:
        second.poll()
        offers.append((lanes, second.lanes()))

    first.giving_up = giving_up
    _settle(stand, [first, second], [2, 2])
    assert offers == [(second.lanes(), frozenset())]
    first.close()
    assert len(offers) == 1, "who leaves gives up before that"


def test_a_group_says_whether_it_has_members(stand: Stand) -> None:
    """Who comes to a node that nobody serves need not wait. Spec: K15."""
    topic = stand.topic(1)
    group = f"group.{topic}"
    admin = stand.kafka.admin()
    assert not admin.has_members(group)
    member = stand.kafka.membership("one", group, topic)
    _settle(stand, [member], [1])
    assert admin.has_members(group)
    member.close()
    stand.wait(lambda: not admin.has_members(group), pace_s=0.05)


def test_more_members_than_lanes_leave_some_idle(stand: Stand) -> None:
    """A spare worker owns nothing until somebody leaves."""
    topic = stand.topic(1)
    one = stand.kafka.membership("one", f"group.{topic}", topic)
    two = stand.kafka.membership("two", f"group.{topic}", topic)
    _settle(stand, [one, two], [0, 1])
    owner, spare = (one, two) if one.lanes() else (two, one)
    owner.close()
    _settle(stand, [spare], [1])
    spare.close()
    spare.close()


def test_groups_do_not_disturb_each_other(stand: Stand) -> None:
    """Two groups on one topic both have all of it."""
    topic = stand.topic(2)
    members = [stand.kafka.membership("m", f"group.{topic}.{name}", topic) for name in "ab"]

    def have_all() -> bool:
        for member in members:
            member.poll()
        return all(member.lanes() == {0, 1} for member in members)

    stand.wait(have_all, pace_s=0.01)
