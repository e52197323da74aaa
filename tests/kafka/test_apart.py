"""Three nodes whose files close a ring that none of them shows, on real brokers."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from mesh.local.brokers import KafkaClusters
from mesh.local.fleet import Fleet
from mesh.model.control import LinkStatus
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.transport.following import Follower
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_heartbeat
from mesh.wire.keys import heartbeat_key, subscription_key
from tests.conftest import ClustersOf
from tests.kafka.test_changes import now_ms, topology_with, wait_settled
from tests.patience import wait_until

pytestmark = pytest.mark.kafka


class Seen:
    """What endpoints have, and how nodes see their links."""

    def __init__(self, fleet: Fleet, names: TopicNames, nodes: str = "abc") -> None:
        self.names = names
        self.follower = Follower(fleet.kafka("k", "watch"), "watch", now_ms)
        for node in nodes:
            topics = (names.control(node), names.endpoint(node, "s"))
            self.follower.add([TopicPartition(topic, p) for topic in topics for p in range(4)])
        self.links: dict[tuple[str, str], LinkStatus] = {}
        self.came: dict[str, Counter[bytes]] = {node: Counter() for node in nodes}

    def look(self) -> None:
        for record in self.follower.poll():
            node = record.topic().removeprefix(self.names.prefix).split(".")[0]
            if record.topic() == self.names.endpoint(node, "s"):
                self.came[node][record.value() or b""] += 1
            elif record.key() == heartbeat_key():
                beat = decode_heartbeat(record.value() or b"")
                others = {pair: link for pair, link in self.links.items() if pair[0] != node}
                self.links = others | {(node, link.neighbour): link for link in beat.links}

    def states(self) -> dict[str, str]:
        self.look()
        return {f"{a}{b}": link.state for (a, b), link in sorted(self.links.items())}


def test_a_ring_that_nobodys_file_shows(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """It is refused at both ends, carries nothing, and comes up when its cause is gone.

    Spec: K26, K27, EMS-15.
    """
    [address] = kafka_clusters(1)
    prefix = f"t{time.monotonic_ns():x}."
    pairs = {"a": ("ab", "ac"), "b": ("ab", "bc"), "c": ("bc", "ac")}
    whole, file = topology_with(tmp_path, address, prefix, "ab")
    names = TopicNames(prefix)
    fleet = Fleet(whole, file, tmp_path, {}, KafkaClusters({}))  # nothing is put in force
    try:
        for node, known in pairs.items():
            fleet.file = topology_with(tmp_path, address, prefix, *known)[1]
            fleet.start_node(node)
        writer = fleet.kafka("k", "clients").writer("clients")
        for node in pairs:
            wait_until(f"{node} serves", fleet.ready_file(node).exists)
            writer.produce(names.clients(node), b"{}", subscription_key("s", ">"), 0)
        assert writer.flush() == 0
        seen = Seen(fleet, names)
        up = {"ab": "up", "ac": "up", "ba": "up", "ca": "up"}
        wanted = {**up, "bc": "refused", "cb": "refused"}
        wait_until("links are so", lambda: seen.states() == wanted, so_far=seen.states)
        both = {seen.links[pair].reason for pair in (("b", "c"), ("c", "b"))}
        assert len(both) == 1
        assert "a -Z-> c and a -Z-> b -Z-> c" in both.pop()

        def is_everywhere(value: bytes) -> bool:
            seen.look()
            return all(value in came for came in seen.came.values())

        def publish(value: bytes) -> None:
            topic = names.ingress("b", MessageClass.GUARANTEED)
            headers = [(SUBJECT_HEADER, b"x/y")]
            writer.produce(topic, value, None, 0, headers=headers)
            assert writer.flush() == 0

        wait_settled(fleet, topology_with(tmp_path, address, prefix, "ab", "ac")[0])
        publish(b"1")
        wait_until("it has come", lambda: is_everywhere(b"1"), so_far=lambda: seen.came)
        for node, left in (("a", "ab"), ("c", "bc")):
            fleet.kill_node(node)
            seen.links = {pair: one for pair, one in seen.links.items() if node not in pair}
            fleet.file = topology_with(tmp_path, address, prefix, left)[1]
            fleet.start_node(node)
        wanted = {"ab": "up", "ba": "up", "bc": "up", "cb": "up"}
        wait_until("links are so", lambda: seen.states() == wanted, so_far=seen.states)
        wait_settled(fleet, topology_with(tmp_path, address, prefix, "ab", "bc")[0])
        publish(b"2")
        wait_until("it has come", lambda: is_everywhere(b"2"), so_far=lambda: seen.came)
        assert all(set(came.values()) == {1} for came in seen.came.values())
    finally:
        fleet.stop()


def test_an_open_link_gives_way_under_load(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """`a` closes the ring last: `b`-`c` loses, and nothing is lost or doubled. Spec: K27, K28."""
    [address] = kafka_clusters(1)
    prefix = f"t{time.monotonic_ns():x}."
    pairs = {"b": ("ab", "bc"), "c": ("bc", "ac"), "a": ("ab", "ac")}
    whole, file = topology_with(tmp_path, address, prefix, "ab")
    names = TopicNames(prefix)
    fleet = Fleet(whole, file, tmp_path, {}, KafkaClusters({}))
    writer = fleet.kafka("k", "clients").writer("clients")
    published = 0

    def start(node: str) -> None:
        fleet.file = topology_with(tmp_path, address, prefix, *pairs[node])[1]
        fleet.start_node(node)

    def publish() -> None:
        nonlocal published
        published += 1
        topic = names.ingress("b", MessageClass.GUARANTEED)
        headers = [(SUBJECT_HEADER, b"x/y")]
        writer.produce(topic, b"%d" % published, b"key", 0, headers=headers)
        assert writer.flush() == 0

    try:
        for node in "bc":
            start(node)
        for node in "bc":
            wait_until(f"{node} serves", fleet.ready_file(node).exists)
            writer.produce(names.clients(node), b"{}", subscription_key("s", ">"), 0)
        assert writer.flush() == 0
        seen = Seen(fleet, names, "bc")
        before = {"bc": "up", "cb": "up"}
        wait_until(
            "b-c is up",
            lambda: seen.states().items() >= before.items(),
            so_far=seen.states,
        )
        wait_settled(fleet, topology_with(tmp_path, address, prefix, "bc")[0], without="a")

        def reaches_both(value: bytes) -> bool:
            seen.look()
            return all(value in came for came in seen.came.values())

        publish()
        wait_until("it has come", lambda: reaches_both(b"1"), so_far=lambda: seen.came)
        start("a")
        after = {"bc": "refused", "cb": "refused", "ba": "up", "ca": "up"}

        def has_moved() -> bool:
            publish()
            return seen.states() == after

        wait_until("b-c gives way", has_moved, so_far=seen.states)
        publish()
        wait_until("it has come", lambda: reaches_both(b"%d" % published), so_far=lambda: seen.came)
        once = {b"%d" % number: 1 for number in range(1, published + 1)}
        assert all(came == once for came in seen.came.values())
    finally:
        fleet.stop()
