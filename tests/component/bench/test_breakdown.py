"""Where a message's CPU goes: what a sample counts for, and that parts add up to the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.breakdown import CALLED, COLLECTOR, OWN_THREADS, PYTHON, Row, part_of, shared_out

ROOT = Path(__file__).parents[3]
BASE = f"run ({ROOT}/mesh/worker/worker.py:7);step ({ROOT}/mesh/lane/ingress.py:40)"


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (BASE, "mesh/lane"),
        (
            f"{BASE};decode ({ROOT}/mesh/wire/frames.py:9);dict_lookup (libpython3.11.so)",
            "mesh/wire",
        ),
        (f"{BASE};consume (cimpl.cpython-311.so);memcpy (libc.so.6)", CALLED),
        (f"{BASE};0x12ab (librdkafka-2f1c.so.1)", CALLED),
        (f"{BASE};gc_collect_main (libpython3.11.so)", COLLECTOR),
        (f"go ({ROOT}/tests/bench/raw.py:3)", "tests/bench"),
        (f"read ({ROOT}/.venv/lib/python3.11/site-packages/x.py:1)", PYTHON),
        ("main (/usr/lib/python3.11/threading.py:1)", PYTHON),
    ],
)
def test_a_sample_counts_for_the_nearest_part(stack: str, part: str) -> None:
    assert part_of(stack) == part


def test_samples_share_out_what_python_cost() -> None:
    row = Row(total=4.0, parts={OWN_THREADS: 1.0, PYTHON: 3.0}, foreign=0.0)
    samples = f"{BASE} 2\n{BASE};x (cimpl.so) 1\n"
    assert shared_out(row, samples).parts == {
        OWN_THREADS: 1.0,
        "mesh/lane": 2.0,
        CALLED: 1.0,
    }
    assert shared_out(row, "").parts == row.parts
