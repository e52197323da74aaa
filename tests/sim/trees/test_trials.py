"""Random trials of the tree layer, and that a seed means the same on every machine.

Spec: tree_layer 10, 11 (56).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.trees.trial import run_trial

ROOT = Path(__file__).parents[3]
DIGESTS = (
    "from tests.sim.trees.trial import run_trial\n"
    "print([run_trial(seed, 7).digest for seed in range(6)])"
)


@pytest.mark.parametrize("block", range(4))
def test_random_lives_break_no_rule(block: int) -> None:
    """Spec: tree_layer 11 (56); a seed that fails here fails in `python -m tests.sim.trees`."""
    calls = 0
    for seed in range(50 * block, 50 * block + 50):
        calls += run_trial(seed, 9).quiet_calls
    assert calls >= 250


@pytest.mark.parametrize(("seed", "nodes"), [(2151, 9), (2503, 25), (710, 6)])
def test_lives_that_broke_a_rule_once_break_none(seed: int, nodes: int) -> None:
    """One-way messages that learned of no late route; a copy that came where its role had moved."""
    assert run_trial(seed, nodes).calls


def test_a_seed_tells_the_same_under_every_hash_seed() -> None:
    """Spec: tree_layer 10 (I10)."""
    told = set()
    for hash_seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        told.add(done.stdout)
    assert len(told) == 1
