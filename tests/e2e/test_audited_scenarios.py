"""A scenario on real brokers, with the auditor beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ClustersOf
from tests.kafka.test_scenarios import run_on_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_the_auditor_follows_walks_that_move(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """How many of the messages on their way go the old walk is chance; nothing is wrong with any.

    Spec: lab.md 2, DESIGN 7, K28, K31.
    """
    _, real = run_on_kafka("apply-move-walk", kafka_clusters(2), tmp_path, audit=True)
    assert real["audit"]["findings"] == []
    certificates = real["audit"]["certificates"]
    assert {one["endpoint"] for one in certificates} == {"c/s", "d/s"}
    assert all(one["equal"] for one in certificates)
