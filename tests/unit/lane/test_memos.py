"""What a lane remembers has an end, and is not forgotten by being looked up."""

from __future__ import annotations

from mesh.core.routes import Arrival
from mesh.lane.memos import TABLES_MAX, Memos, RoutedTable
from mesh.model.frames import MessageClass

WAY = (Arrival("Z", "b"), MessageClass.GUARANTEED)
TABLE = RoutedTable((), (), None, delivers=False)


def test_tables_that_fill_their_memo_are_kept_until_there_is_another_one() -> None:
    memos = Memos()
    for number in range(TABLES_MAX):
        memos.remember_table(memos.tables(*WAY), b"%d" % number, TABLE)
    assert len(memos.tables(*WAY)) == len(memos.tables(*WAY)) == TABLES_MAX
    memos.remember_table(memos.tables(*WAY), b"one more", TABLE)
    assert list(memos.tables(*WAY)) == [b"one more"]
