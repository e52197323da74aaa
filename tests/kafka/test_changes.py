"""A link comes and goes under load, on real brokers, and no worker is started anew."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from mesh.config.published import published_text
from mesh.config.topology_file import load_topology
from mesh.local.fleet import Fleet
from mesh.model.control import Change, Stage
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.interest.propagation import laggards
from mesh.transport.following import Follower
from mesh.transport.port import TopicPartition
from mesh.view.mesh_view import MeshView
from mesh.wire.control import decode_heartbeat, encode_change
from mesh.wire.keys import change_key, heartbeat_key, subscription_key
from tests.conftest import ClustersOf
from tests.kafka.test_kill import Load
from tests.patience import wait_until

pytestmark = pytest.mark.kafka


def topology_with(folder: Path, address: str, prefix: str, *pairs: str) -> tuple[Topology, Path]:
    links = [list(pair) for pair in pairs]
    spec = {
        "prefix": prefix,
        "kafka": {"k": {"bootstrap.servers": address}},
        "nodes": {name: {"kafka": "k"} for name in "abc"},
        "zones": {"Z": {"kind": "multi-hop", "links": links}},
    }
    file = folder / f"{'-'.join(pairs)}.yaml"
    document = {"apiVersion": "mesh/v1", "kind": "Mesh", "metadata": {"name": "m"}, "spec": spec}
    YAML().dump(document, file)
    return load_topology(file), file


def now_ms() -> int:
    return int(time.monotonic() * 1000)


class Watched:
    """What endpoints have, and what heartbeats say."""

    def __init__(self, fleet: Fleet, names: TopicNames) -> None:
        self.names = names
        self.kafka = fleet.kafka("k", "watch")
        self.follower = Follower(self.kafka, "watch", now_ms)
        self.status: dict[str, tuple[int, str, bool]] = {}
        self.came: dict[str, list[bytes]] = {"b": [], "c": []}

    def follow(self, *topics: str) -> None:
        self.follower.add([TopicPartition(t, p) for t in topics for p in range(4)])

    def look(self) -> None:
        for record in self.follower.poll():
            node = record.topic().removeprefix(self.names.prefix).split(".")[0]
            value = record.value() or b""
            if record.topic() == self.names.endpoint(node, "s"):
                self.came[node].append(value)
            elif record.key() == heartbeat_key() and (change := decode_heartbeat(value).change):
                self.status[node] = (change.number, str(change.stage), change.is_done)


def test_a_link_comes_and_goes_under_load(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """Spec: K27, K28."""
    [address] = kafka_clusters(1)
    prefix = f"t{time.monotonic_ns():x}."
    small, file = topology_with(tmp_path, address, prefix, "ab")
    large, _ = topology_with(tmp_path, address, prefix, "ab", "bc")
    names = TopicNames(prefix)
    fleet = Fleet.start(small, file, tmp_path)
    try:
        writer = fleet.kafka("k", "clients").writer("clients")
        for node in "bc":
            writer.produce(
                names.clients(node), json.dumps({}).encode(), subscription_key("s", ">"), 0
            )
        assert writer.flush() == 0
        for node in "abc":
            fleet.start_node(node)
        wait_settled(fleet, small)
        watched = Watched(fleet, names)
        watched.follow(*(names.control(node) for node in "abc"), names.endpoint("b", "s"))
        watched.follow(names.endpoint("c", "s"))
        load = Load(fleet, "a", 200)
        try:
            change_to(watched, writer, names, 2, large)
            # Below some of every key is looked for: a slow machine has none yet at the switch.
            wait_until(
                "c has every key",
                lambda: keys_at(watched, "c") == set(range(7)),
                so_far=lambda: watched.came["c"],
            )
            change_to(watched, writer, names, 3, small)
            before = len(watched.came["b"])
            wait_until("b goes on", lambda: has_more(watched, "b", before))
        finally:
            published = load.stop()
        wait_until(
            "b has everything",
            lambda: has_more(watched, "b", published - 1),
            so_far=lambda: len(watched.came["b"]),
        )
        assert len(set(watched.came["b"])) == len(watched.came["b"]) == published
        assert max(Counter(watched.came["c"]).values()) == 1
        numbers = [int(value) for value in watched.came["c"]]
        for key in range(7):  # of each partition c has one stretch
            some = sorted(number for number in numbers if number % 7 == key)
            assert some == list(range(some[0], some[-1] + 1, 7))
    finally:
        fleet.stop()


def wait_settled(fleet: Fleet, topology: Topology, without: str = "") -> None:
    """Wait until what is published is owed to all: nodes are ready before that. Spec: K24, K25.

    Args:
        fleet: Whose clients have subscribed.
        topology: Links that must have told of it.
        without: A node that is not there yet.
    """
    view = MeshView(topology, {"k": fleet.kafka("k", "settled")}, now_ms)
    view.refresh()
    wanted = {node: view.nodes[node].clients_offset for node in topology.nodes if node != without}

    def late() -> list[str]:
        view.refresh()
        return list(laggards(topology, view, wanted, {}, lambda *ends: without in ends))

    wait_until("all is owed", lambda: not late(), so_far=late)


def has_more(watched: Watched, node: str, count: int) -> bool:
    watched.look()
    return len(watched.came[node]) > count


def keys_at(watched: Watched, node: str) -> set[int]:
    watched.look()
    return {int(value) % 7 for value in watched.came[node]}


def change_to(
    watched: Watched, writer: object, names: TopicNames, number: int, target: Topology
) -> None:
    """Switch without holding anybody: no walk moves."""
    for stage in (Stage.SWITCH, Stage.RUN):
        change = Change(number, stage, published_text(target))
        writer.produce(names.config(), encode_change(change), change_key(), 0)
        assert writer.flush() == 0
        wanted = dict.fromkeys("abc", (number, str(stage), True))

        def is_done(wanted: dict[str, tuple[int, str, bool]] = wanted) -> bool:
            watched.look()
            return watched.status == wanted

        wait_until(f"stage {stage}", is_done, so_far=lambda: watched.status)
