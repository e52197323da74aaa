"""What a lane remembers has an end, and is not forgotten by being looked up."""

from __future__ import annotations

from mesh.core.routes import Arrival
from mesh.lane.memos import PLANS_MAX, Memos, TablePlan
from mesh.model.frames import MessageClass

WAY = (Arrival("Z", "b"), MessageClass.GUARANTEED)
PLAN = TablePlan((), (), None, delivers=False)


def test_plans_that_fill_their_memo_are_kept_until_there_is_another_one() -> None:
    memos = Memos()
    for number in range(PLANS_MAX):
        memos.remember_plan(memos.plans(*WAY), b"%d" % number, PLAN)
    assert len(memos.plans(*WAY)) == len(memos.plans(*WAY)) == PLANS_MAX
    memos.remember_plan(memos.plans(*WAY), b"one more", PLAN)
    assert list(memos.plans(*WAY)) == [b"one more"]
