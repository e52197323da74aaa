"""A turn is called long for what it waited, not for a machine that is busy. Spec: DESIGN 4.2."""

from __future__ import annotations

import threading
import time

from mesh.worker.process.clock import BusyTime


def test_what_a_thread_waits_is_no_busy_time() -> None:
    busy, nobody = BusyTime(), threading.Event()
    before = busy.ms()
    assert not nobody.wait(0.3)
    assert busy.ms() - before < 250


def test_what_a_thread_runs_or_queues_for_a_processor_is() -> None:
    busy = BusyTime()
    begun, before = time.monotonic(), busy.ms()
    while busy.ms() - before < 100:
        assert time.monotonic() - begun < 60
    assert (time.monotonic() - begun) * 1000 >= 95
