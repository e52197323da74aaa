"""Records without a transaction never make anybody wait for a partition that takes none. D3."""

from __future__ import annotations

import pytest

from mesh.transport.kafka import RealKafka
from tests.mock_cluster import NOT_ENOUGH_REPLICAS, PRODUCE, mock_cluster


@pytest.mark.parametrize("fault", ["no leader", "too few copies in sync"])
def test_reports_are_taken_without_waiting_and_what_is_left_is_given_up(fault: str) -> None:
    """Neither the loop each second nor who gives lanes up waits as long as brokers may take.

    Had either waited until the client gives the record up, it would be reported, and not left.
    """
    with mock_cluster() as brokers:
        brokers.create("ep", partitions=2)
        kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
        if fault == "no leader":
            brokers.lead("ep", 1, -1)  # before anybody writes: the mock cluster dies of it else
        writer = kafka.writer("direct")
        writer.produce("ep", b"fine", b"k", 0)
        assert writer.flush() == 0
        if fault != "no leader":
            brokers.push(PRODUCE, [NOT_ENOUGH_REPLICAS] * 100)
        writer.produce("ep", b"lost", b"k", 1)
        assert writer.failed() == 0
        assert writer.pending() == 1
        assert writer.flush(0.3) == 1
        assert writer.pending() == 0
        kafka.close()
