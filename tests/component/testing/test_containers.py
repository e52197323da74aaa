"""What of a mesh in containers needs no Docker engine."""

from __future__ import annotations

import pytest

from mesh.errors import ConfigError
from mesh.testing.containers import MeshContainers


@pytest.mark.parametrize("name", ["k" * 64, "1", "42", "k-"])
def test_a_kafka_cluster_that_no_host_can_be_called_is_refused_at_once(name: str) -> None:
    """Its nodes would end over their file, once all brokers have been started."""
    with pytest.raises(ConfigError, match=f"spec.kafka.{name}: is a host's name in the network"):
        MeshContainers({"kafka": {name: {}}, "nodes": {"a": {}}})


def test_all_others_are() -> None:
    MeshContainers({"kafka": {"K-1": {}, "1e3": {}}, "nodes": {"a": {"kafka": "K-1"}}})
