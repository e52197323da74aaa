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
