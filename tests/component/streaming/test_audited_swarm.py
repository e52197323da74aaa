"""Real nodes amid storms are at fault in nothing; what is planted in their records is found.

The auditor has no Spark here, and reads along in pieces. Many more schedules:
`python -m tests.component.streaming --seeds 0:400`. DESIGN 7, K29-K31.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.component.streaming.audited_swarm import AuditedSchedule
from tests.sim.swarm.seeds import Family, seeds

STILL, CHANGING = (Family.PLAIN, Family.JOINS), (Family.CHANGES, Family.OUTAGES, Family.LOSSES)
KINDS_MIN = 3
"""So many kinds of faults are planted, or this proves little."""


@pytest.mark.parametrize(("families", "count"), [(STILL, 6), (CHANGING, 2)])
def test_what_real_nodes_write_is_no_fault_and_what_is_planted_is_found(
    families: Sequence[Family], count: int, tmp_path: Path
) -> None:
    """And what is certified came, exactly."""
    planted: Counter[str] = Counter()
    certified, wrong = 0, []
    for seed in [one for family in families for one in seeds(family, range(count))]:
        one = AuditedSchedule(seed, tmp_path)
        one.run()
        planted.update([] if one.planted is None else [one.planted.kind])
        certified += one.certified
        wrong += [f"{seed}: {text}" for text in one.wrong]
    assert wrong == []
    assert certified > 0
    assert len(planted) >= KINDS_MIN or families is CHANGING
