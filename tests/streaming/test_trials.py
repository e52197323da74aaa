"""Faults planted in random meshes that really ran: each is found, and nothing else. DESIGN 7.

Many more: `python -m tests.streaming --count 200`.
"""

from __future__ import annotations

import pytest

from tests.streaming.faults import PLANTED
from tests.streaming.trial import Account, Trial

pytestmark = pytest.mark.spark


def test_a_fault_of_each_kind_is_found_in_a_drawn_mesh_and_nothing_else(spark, tmp_path):
    """Healthy, it is certified, and nothing is found however long it stands."""
    account = Account()
    Trial(spark, tmp_path, "suite/0", account).run()
    assert account.wrong == []
    assert len(account.planted) > len(PLANTED)
    assert account.certified > 0
