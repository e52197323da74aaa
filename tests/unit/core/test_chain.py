"""The chain decides duplicate, gap and order."""

from __future__ import annotations

import pytest

from mesh.core.chain import ChainVerdict, judge
from mesh.model.frames import NONE_OFFSET, Chain, SourcePartition, position_in_chain

SOURCE = SourcePartition(b"t" * 16, 0)
LAST = 9


def link(previous: int, first: int, last: int) -> Chain:
    return Chain(source=SOURCE, previous=previous, first=first, last=last)


@pytest.mark.parametrize(
    ("chain", "verdict"),
    [
        (link(9, 10, 12), ChainVerdict.ACCEPT),
        (link(9, 15, 20), ChainVerdict.ACCEPT),
        (link(4, 5, 9), ChainVerdict.DUPLICATE),
        (link(4, 5, 7), ChainVerdict.DUPLICATE),
        (link(7, 8, 12), ChainVerdict.PARTIAL),
        (link(12, 13, 14), ChainVerdict.GAP),
    ],
)
def test_verdict_after_offset_nine(chain: Chain, verdict: ChainVerdict) -> None:
    """Spec: K11."""
    assert judge(chain, LAST) is verdict


def test_nothing_known_accepts_only_a_beginning() -> None:
    """Spec: K11."""
    assert judge(link(-1, 5, 6), NONE_OFFSET) is ChainVerdict.ACCEPT
    assert judge(link(4, 5, 6), NONE_OFFSET) is ChainVerdict.GAP


@pytest.mark.parametrize(
    ("chain", "verdict"),
    [
        (link(14, 15, 16), ChainVerdict.WAITING),
        (link(9, 10, 16), ChainVerdict.ACCEPT),
        (link(7, 8, 12), ChainVerdict.PARTIAL),
        (link(4, 5, 9), ChainVerdict.DUPLICATE),
    ],
)
def test_while_a_gap_is_known_only_what_fits_is_accepted(
    chain: Chain, verdict: ChainVerdict
) -> None:
    """Spec: K11."""
    assert judge(chain, LAST, is_broken=True) is verdict


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_hole_that_nobody_asks_for_is_passed_and_repeats_are_not(is_broken: bool) -> None:
    """Spec: K11, K20."""
    found = [
        judge(chain, LAST, is_broken=is_broken, is_excused=True)
        for chain in (link(12, 13, 14), link(7, 8, 12), link(4, 5, 9))
    ]
    assert found == [ChainVerdict.ACCEPT, ChainVerdict.PARTIAL, ChainVerdict.DUPLICATE]


def test_after_a_loss_at_the_end_offsets_come_again_as_other_positions() -> None:
    """Whoever has not heard of the loss misses what came before, and asks. Spec: K10, K11."""
    announced = position_in_chain(1, 5) - 1
    assert judge(link(9, announced, announced), LAST) is ChainVerdict.ACCEPT
    again = position_in_chain(1, 5)
    assert judge(link(announced, again, again), announced) is ChainVerdict.ACCEPT
    assert judge(link(announced, again, again), LAST) is ChainVerdict.GAP
    assert judge(link(9, announced, announced), again) is ChainVerdict.DUPLICATE


def test_a_loss_may_be_announced_between_two_positions() -> None:
    """It takes the place of none. Spec: K10, K11."""
    assert judge(link(9, 9, 9), LAST, is_gap=True) is ChainVerdict.ACCEPT
    assert judge(link(8, 8, 8), LAST, is_gap=True) is ChainVerdict.DUPLICATE
    assert judge(link(9, 9, 9), LAST) is ChainVerdict.DUPLICATE
    assert judge(link(9, 10, 10), LAST) is ChainVerdict.ACCEPT
