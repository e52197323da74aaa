"""What is held until what may excuse it has been read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from streaming.audits.pending import Pending
from streaming.job.plain import from_plain, to_plain
from streaming.tables.rows import SourceKey


@dataclass(slots=True)
class Holder:
    """Part of a state."""

    held: Pending[SourceKey, str] = field(default_factory=Pending)


def test_what_comes_again_waits_since_the_first_time() -> None:
    held: Pending[str, int] = Pending()
    held.hold("a", 1, 10.0)
    held.hold("a", 2, 15.0)
    held.hold("b", 1, 15.0)
    held.hold("b", 2, 19.0, lambda known, more: known + more)
    assert not held.hold("c", 1, 15.0, held_max=2)
    assert held.hold("b", 0, 15.0, held_max=2)
    assert list(held.take_due(10.0, 19.9)) == []
    assert list(held.take_due(10.0, 20.0)) == [("a", 1)]
    assert list(held.take_due(10.0, 25.0)) == [("b", 3)]
    assert not held


def test_by_another_clock_it_has_waited_as_long() -> None:
    held: Pending[str, int] = Pending()
    held.hold("a", 1, 10.0)
    held.go_ahead(1000.0)
    assert held == {"a": (1010.0, 1)}


def test_a_snapshot_holds_it_like_any_dictionary() -> None:
    made = Holder()
    made.held.hold(SourceKey("aa", 1), "x", 5.0)
    plain = json.loads(json.dumps(to_plain(made)))
    assert plain == [[[["aa", 1], [5.0, "x"]]]]
    again = from_plain(Holder, plain)
    assert again == made
    assert isinstance(again.held, Pending)
