"""Who takes a lane over while its former owner's transaction is open does not rest. Spec: K16."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from mesh.transport.kafka import RealKafka
from mesh.transport.port import TopicSpec
from tests.conftest import ClustersOf
from tests.patience import wait_until

pytestmark = pytest.mark.kafka


def _spent_s(action: Callable[[], object]) -> float:
    began_s = time.monotonic()
    action()
    return time.monotonic() - began_s


def test_a_successor_of_an_open_transaction_does_not_rest(kafka_clusters: ClustersOf) -> None:
    """The client library alone rests for half a second; the best of both are compared in one run.

    On a busy machine the best of a few says nothing yet. Who rests is never the quicker one.
    """
    servers = kafka_clusters(1)[0]
    mark = uuid.uuid4().hex[:8]
    kafka = RealKafka("k", {"bootstrap.servers": servers})
    topic, identity = f"taking.{mark}", f"id.{mark}"
    kafka.admin().create([TopicSpec(name=topic, partitions=1)])
    rests_s: list[float] = []
    takes_s: list[float] = []

    def is_quicker() -> bool:
        for spent_s in rests_s, takes_s:
            former = kafka.writer("former", identity)
            former.begin()
            former.produce(topic, b"open", None, 0)
            former.flush()
            if spent_s is takes_s:
                spent_s.append(_spent_s(lambda: kafka.writer("successor", identity).close()))
            else:
                client = Producer({"bootstrap.servers": servers, "transactional.id": identity})
                spent_s.append(_spent_s(client.init_transactions))
            former.close()
        return min(takes_s) < 0.8 * min(rests_s)

    wait_until("a successor is quicker", is_quicker, so_far=lambda: (takes_s, rests_s))
    kafka.close()
