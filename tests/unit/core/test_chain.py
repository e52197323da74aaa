"""The chain decides duplicate, gap and order."""

from __future__ import annotations

import pytest

from mesh.core.chain import Chains, Verdict
from mesh.model.frames import Chain, SourcePartition

SOURCE = SourcePartition(b"t" * 16, 0)
OTHER = SourcePartition(b"t" * 16, 1)


def link(previous: int, first: int, last: int, source: SourcePartition = SOURCE) -> Chain:
    return Chain(source=source, previous=previous, first=first, last=last)


@pytest.mark.parametrize(
    ("chain", "verdict"),
    [
        (link(9, 10, 12), Verdict.ACCEPT),
        (link(9, 15, 20), Verdict.ACCEPT),
        (link(4, 5, 9), Verdict.DUPLICATE),
        (link(4, 5, 7), Verdict.DUPLICATE),
        (link(7, 8, 12), Verdict.PARTIAL),
        (link(12, 13, 14), Verdict.GAP),
    ],
)
def test_verdict_after_offset_nine(chain: Chain, verdict: Verdict) -> None:
    """Spec: K11."""
    chains = Chains(last={SOURCE: 9})
    assert chains.judge(chain) is verdict
    moves = verdict in (Verdict.ACCEPT, Verdict.PARTIAL)
    assert chains.last[SOURCE] == (chain.last if moves else 9)


def test_nothing_known_accepts_only_a_beginning() -> None:
    """Spec: K11."""
    assert Chains().judge(link(-1, 5, 6)) is Verdict.ACCEPT
    assert Chains().judge(link(4, 5, 6)) is Verdict.GAP


def test_after_a_gap_only_the_fitting_frame_is_accepted_and_other_sources_go_on() -> None:
    """Spec: K11."""
    chains = Chains(last={SOURCE: 9})
    assert chains.judge(link(12, 13, 14)) is Verdict.GAP
    assert chains.judge(link(14, 15, 16)) is Verdict.WAITING
    assert chains.judge(link(-1, 0, 3, OTHER)) is Verdict.ACCEPT
    assert chains.judge(link(9, 10, 16)) is Verdict.ACCEPT
    assert chains.judge(link(16, 17, 17)) is Verdict.ACCEPT


def test_direct_frames_jump_over_what_is_lost() -> None:
    """Spec: DESIGN 6."""
    chains = Chains(last={SOURCE: 9})
    chains.jump(link(20, 21, 25))
    assert chains.last[SOURCE] == 25


def test_a_frame_that_was_accepted_unread_may_leave_one_hole_of_one_source() -> None:
    """Whose it was is unknown, but it was one frame: later holes are found as ever. Spec: K11."""
    chains = Chains(last={SOURCE: 9, OTHER: 4}, is_forgiven=True)
    assert chains.judge(link(4, 5, 5, OTHER)) is Verdict.ACCEPT
    assert chains.judge(link(12, 13, 14)) is Verdict.ACCEPT
    assert chains.judge(link(20, 21, 22)) is Verdict.GAP
    assert chains.judge(link(9, 10, 10, OTHER)) is Verdict.GAP


def test_a_gap_that_no_repair_can_close_is_given_up_once() -> None:
    """Spec: K11, K20."""
    chains = Chains(last={SOURCE: 9}, broken={SOURCE}, given_up={SOURCE})
    assert chains.judge(link(12, 13, 14), is_repair=True) is Verdict.ACCEPT
    assert chains.judge(link(20, 21, 22), is_repair=True) is Verdict.WAITING
