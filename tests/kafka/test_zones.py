"""A zone is made, grows and goes by `mesh zone` under load, on real brokers.

The topology file stays as it was: commands go by what is in force.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mesh.local.fleet import Fleet
from mesh.model.topics import TopicNames
from mesh.wire.keys import subscription_key
from tests.conftest import ClustersOf
from tests.kafka.test_changes import Watched, has_more, topology_with
from tests.kafka.test_kill import Load
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka


def mesh(file: Path, *words: str) -> Any:
    """Run a command that must be well; return what it prints for scripts."""
    command = [sys.executable, "-m", "mesh", *words, "-f", str(file), "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def states(file: Path) -> dict[str, dict[str, str]]:
    return {one["node"]: one["links"] for one in mesh(file, "status")["nodes"]}


def test_a_zone_is_made_grows_and_goes_under_load(
    kafka_clusters: ClustersOf, tmp_path: Path
) -> None:
    """Each endpoint has one stretch of each key, without gap or double. Spec: UM-8, K27, K28."""
    [address] = kafka_clusters(1)
    prefix = f"t{time.monotonic_ns():x}."
    topology, file = topology_with(tmp_path, address, prefix)
    names = TopicNames(prefix)
    fleet = Fleet.start(topology, file, tmp_path)
    try:
        writer = fleet.kafka("k", "clients").writer("clients")
        for node in "bc":
            key = subscription_key("s", ">")
            writer.produce(names.clients(node), json.dumps({}).encode(), key, 0)
        assert writer.flush() == 0
        for node in "abc":
            fleet.start_node(node)
        for node in "abc":
            wait_until(f"{node} serves", fleet.ready_file(node).exists)
        watched = Watched(fleet, names)
        watched.follow(names.endpoint("b", "s"), names.endpoint("c", "s"))
        load = Load(fleet, "a", 200)
        try:
            mesh(file, "zone", "create", "P", "--kind", "one-hop", "--nodes", "a,b", "--exclusive")
            wait_until("b gets some", lambda: has_more(watched, "b", 50))
            mesh(file, "zone", "add", "P", "c")
            wait_until("c gets some", lambda: has_more(watched, "c", 50))
            assert states(file)["c"] == {"a": "up", "b": "up"}
            gone = mesh(file, "zone", "delete", "P", "--allow-delete")
        finally:
            published = load.stop()
        assert f"{prefix}a.to.b.g" in [one["topic"] for one in gone["deleted"]]
        assert states(file) == {"a": {}, "b": {}, "c": {}}
        left = mesh(file, "zone", "list")["zones"]
        assert [(one["zone"], one["active"]) for one in left] == [("Z", False)]
        watched.look()
        for node in "bc":
            came = [int(value) for value in watched.came[node]]
            assert max(Counter(came).values()) == 1
            assert len(came) < published
            for key in range(7):
                some = [number for number in came if number % 7 == key]
                assert some == list(range(some[0], some[-1] + 1, 7)), (node, key)
    finally:
        fleet.stop()
