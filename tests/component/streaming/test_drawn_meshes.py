"""Faults in drawn meshes are found and nothing else, by an auditor without Spark. DESIGN 7.

So it is with Spark in `tests/streaming/test_trials.py`, for one mesh; many more here:
`python -m tests.streaming --plain --count 2000`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.streaming.plain_bench import PlainTrial
from tests.streaming.trial import Account


@pytest.mark.parametrize("seed", ["suite/0", "suite/1", "t1/19"])
def test_what_is_planted_is_found_and_a_healthy_mesh_is_certified(
    tmp_path: Path, seed: str
) -> None:
    account = Account()
    PlainTrial(None, tmp_path, seed, account).run()
    assert account.wrong == []
    assert account.certified > 0
