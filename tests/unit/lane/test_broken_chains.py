"""When repairs are asked for again, and which holes are passed without one."""

from __future__ import annotations

from mesh.lane.broken_chains import REPAIR_MS, BrokenChains
from mesh.model.frames import SourcePartition, TopicPartition

AT = TopicPartition("mesh.a.to.b.g", 0)
KEY = AT, SourcePartition(bytes(16), 0)


def test_each_try_waits_twice_as_long_as_the_one_before_up_to_a_limit() -> None:
    """Each repair sends all that is missing. Spec: K11."""
    chains = BrokenChains()
    for attempts in range(8):
        chains.repair_asked(KEY, attempts, 0)
        due_ms = min(REPAIR_MS.most, REPAIR_MS.first * 2**attempts)
        assert list(chains.due_ms) == [due_ms]
        assert (chains.due(due_ms - 1), chains.due(due_ms)) == ([], [KEY])
    chains.mended(KEY)
    assert list(chains.due_ms) == []


def test_an_accepted_frame_has_one_hole_there_be_expected() -> None:
    """Whose frame it was nobody can tell. Spec: K20."""
    chains = BrokenChains()
    chains.expect_hole(AT)
    assert chains.expects_hole(AT)
    chains.hole_passed(AT)
    assert not chains.expects_hole(AT)


def test_a_frame_that_could_not_be_read_counts_until_a_repair_is_asked_for() -> None:
    """That may bring it in a form that can be read. And it explains one hole, not two."""
    chains = BrokenChains()
    chains.note_unreadable(AT)
    chains.repair_comes(KEY, 0, 0)
    assert chains.has_unreadable(AT)
    chains.repair_asked(KEY, 1, 0)
    assert not chains.has_unreadable(AT)
    chains.note_unreadable(AT)
    chains.unreadable_passed(AT)
    assert not chains.has_unreadable(AT)


def test_an_outbox_that_is_left_leaves_nothing_behind() -> None:
    """Links come and go, and what comes by the same name later is another outbox."""
    chains = BrokenChains()
    chains.repair_asked(KEY, 0, 0)
    chains.expect_hole(AT)
    chains.note_unreadable(AT)
    chains.leave(["mesh.c.to.b.g"])
    assert chains != BrokenChains()
    chains.leave([AT.topic])
    assert chains == BrokenChains()
