"""A reader proves that it holds a scope, or keeps what it may not yet remove."""

from __future__ import annotations

from mesh.core.scopes import ScopeReader, ScopeWriter
from mesh.model.control import Interest, Mark

WANTED = Interest()


def written(*filters: str) -> ScopeWriter:
    writer = ScopeWriter()
    for filter_ in filters:
        writer.change(filter_, None, WANTED)
    return writer


def test_a_mark_that_agrees_proves_and_brings_into_force() -> None:
    """Spec: K23."""
    reader = ScopeReader()
    reader.advert("a", WANTED)
    reader.advert("b/>", WANTED)
    assert reader.marked(written("a", "b/>").next_mark(1)) == {"a": WANTED, "b/>": WANTED}
    assert reader.proven


def test_without_a_proof_additions_count_and_removals_wait() -> None:
    """Spec: K23."""
    reader = ScopeReader()
    writer = written("a", "lost")
    reader.advert("a", WANTED)
    assert reader.marked(writer.next_mark(1)) == {"a": WANTED}
    assert not reader.proven
    reader.advert("a", None)
    writer.change("a", WANTED, None)
    assert reader.marked(writer.next_mark(1)) == {}
    assert dict(reader.in_force()) == {"a": WANTED}
    reader.advert("lost", WANTED)
    assert reader.marked(writer.next_mark(1)) == {"lost": WANTED, "a": None}
    assert reader.proven


def test_old_marks_played_again_change_nothing() -> None:
    """Spec: K23, reliability.md R8."""
    reader = ScopeReader()
    old = Mark(1, 1, 0, 0)
    reader.marked(Mark(2, 1, 0, 0))
    reader.advert("a", WANTED)
    assert reader.marked(old) == {}
    assert reader.mark == Mark(2, 1, 0, 0)


def test_events_out_of_order_leave_no_wrong_number() -> None:
    """Spec: K-8: a removal before its addition must not go negative."""
    reader = ScopeReader()
    reader.advert("a", None)
    reader.advert("a", WANTED)
    reader.advert("a", WANTED)
    assert reader.marked(written("a").next_mark(1)) == {"a": WANTED}
    assert reader.proven


def test_what_was_acknowledged_for_guaranteed_is_stronger_than_what_was_read_for_direct() -> None:
    """A filter that only direct endpoints wanted when it was read. Spec: K21, K23."""
    direct, writer, reader = Interest(durable=False, live=True), ScopeWriter(), ScopeReader()
    writer.change("a", None, direct)
    reader.advert("a", direct)
    reader.marked(writer.next_mark(1))
    both = Interest(durable=True, live=True)
    assert reader.recall(["a"], (1, 3)) == {"a": both}
    assert dict(reader.in_force()) == {"a": both}
    reader.advert("a", direct)
    assert reader.marked(writer.next_mark(1)) == {}  # older than what was acknowledged
    assert dict(reader.in_force()) == {"a": both}
    assert reader.marked(writer.next_mark(1)) == {"a": direct}  # as new: it has ended since
    assert dict(reader.in_force()) == {"a": direct}


def test_what_is_acknowledged_is_weakened_by_no_older_mark_if_it_was_read_itself() -> None:
    """Wanted for guaranteed, then for direct alone, then for guaranteed again. Spec: K21, K24."""
    direct, writer, reader = Interest(durable=False), written("a"), ScopeReader()
    reader.advert("a", WANTED)
    reader.marked(writer.next_mark(1))
    assert reader.recall(["a"], (1, 3)) == {}
    reader.advert("a", direct)
    writer.change("a", WANTED, direct)
    assert reader.marked(writer.next_mark(1)) == {}
    assert dict(reader.in_force()) == {"a": WANTED}


def test_what_is_in_force_stays_so_where_everything_is_read_again() -> None:
    """What a node remembers is stronger than what was read for direct alone. Spec: K21, K23."""
    reader = ScopeReader()
    reader.advert("a", Interest(durable=False))
    reader.marked(Mark(1, 1, 1, 0))
    assert reader.freeze(["a"]) == {"a": WANTED}
    reader.begin_again()
    assert dict(reader.in_force()) == {"a": WANTED}


def test_a_withdrawal_without_a_proof_leaves_what_was_remembered() -> None:
    """Though what was read of it last was wanted for direct alone. Spec: K21, K23."""
    direct, writer, reader = Interest(durable=False), ScopeWriter(), ScopeReader()
    writer.change("a", None, direct)
    reader.advert("a", direct)
    reader.marked(writer.next_mark(1))
    assert reader.recall(["a"], (1, 3)) == {"a": WANTED}
    reader.advert("a", None)
    writer.change("a", direct, None)
    assert reader.marked(writer.next_mark(1)) == {}
    assert dict(reader.in_force()) == {"a": WANTED}
    assert reader.marked(writer.next_mark(1)) == {"a": None}


def test_an_advert_for_direct_alone_without_a_proof_leaves_what_is_frozen_for_guaranteed() -> None:
    """A stranger may have written it; direct messages may go by it at once. Spec: K21, K23."""
    direct, writer, reader = Interest(durable=False), ScopeWriter(), ScopeReader()
    assert reader.freeze(["a"]) == {"a": Interest(durable=True, live=False)}
    reader.advert("a", direct)
    assert reader.marked(Mark(1, 1, 7, 7)) == {"a": Interest(durable=True, live=True)}
    writer.number = 1
    writer.change("a", None, direct)
    assert reader.marked(writer.next_mark(1)) == {"a": direct}


def test_nor_what_was_proven_before() -> None:
    direct, writer, reader = Interest(durable=False), written("a"), ScopeReader()
    reader.advert("a", WANTED)
    reader.marked(writer.next_mark(1))
    reader.advert("a", direct)
    assert reader.marked(Mark(1, 2, 7, 7)) == {}
    assert dict(reader.in_force()) == {"a": WANTED}
    writer.number = 2
    writer.change("a", WANTED, direct)
    assert reader.marked(writer.next_mark(1)) == {"a": direct}
