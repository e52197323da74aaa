"""One Kafka cluster under two names."""

from __future__ import annotations

import pytest

from mesh.errors import StartError
from mesh.transport.identity import refuse_aliases
from mesh.transport.memory import MemoryKafka


def test_two_names_for_one_kafka_cluster_are_refused() -> None:
    """Spec: EMS-16, K4."""
    one, other = MemoryKafka("one"), MemoryKafka("other")
    refuse_aliases({"tokyo": one, "paris": other})
    with pytest.raises(StartError, match="kafka tokyo and alias are one Kafka cluster"):
        refuse_aliases({"tokyo": one, "paris": other, "alias": one})


def test_a_kafka_cluster_that_does_not_answer_is_left_out() -> None:
    """Spec: K4."""
    one = MemoryKafka("one")
    one.available = False
    refuse_aliases({"tokyo": one, "alias": one})
