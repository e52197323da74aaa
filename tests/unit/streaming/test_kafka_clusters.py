"""Several Kafka clusters: what concerns one of them never holds up the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from mesh.errors import TransportUnavailableError
from streaming.job.kafka_clusters import RETRY_S, AuditedKafkaClusters
from streaming.tables.rows import TopicPartition


class Brokers:
    """A Kafka cluster with some topics, that may be away."""

    def __init__(self, *topics: str) -> None:
        self.names = topics
        self.is_away = False
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.is_away:
            raise TransportUnavailableError("away")

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._ask()
        return {place: 5 for place in places if place.topic in self.names}

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._ask()
        return dict.fromkeys(places, 9)

    def topics(self) -> Iterable[str]:
        self._ask()
        return self.names

    def described(self, topics: list[str]) -> Mapping[str, tuple[str, int]]:
        self._ask()
        return {one: (f"id of {one}", 2) for one in topics}


class World:
    """a is in k1, b in k2."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.k1 = Brokers(
            "mesh.a.in.g", "mesh.a.ep.s", "mesh.a.control", "mesh.a.x.y", "mesh.ab.ep.s"
        )
        self.k2 = Brokers("mesh.b.in.g")
        homes = {"a": "k1", "b": "k2"}
        brokers = {"k1": self.k1, "k2": self.k2}
        self.kafka_clusters = AuditedKafkaClusters(
            "mesh.", brokers, homes, clock=lambda: self.now_s
        )


A, B = TopicPartition("mesh.a.in.g", 0), TopicPartition("mesh.b.in.g", 0)


def test_a_topic_of_the_same_name_is_at_home_in_one_kafka_cluster() -> None:
    kafka_clusters = World().kafka_clusters
    assert kafka_clusters.is_at_home("k1", A.topic)
    assert not kafka_clusters.is_at_home("k2", A.topic)
    assert kafka_clusters.is_at_home("k2", "mesh.zz.in.g")  # a change may yet bring the node
    assert kafka_clusters.is_at_home("k2", "mesh.config")


def test_who_does_not_answer_is_left_alone_for_a_while_and_others_are_asked_on() -> None:
    world = World()
    world.k2.is_away = True
    assert world.kafka_clusters.beginnings([A, B]) == {A: 5}
    assert (world.kafka_clusters.can_read([A]), world.kafka_clusters.can_read([A, B])) == (
        True,
        False,
    )
    assert world.kafka_clusters.ends()("b") is None
    assert world.kafka_clusters.ids_of("k2", ["mesh.b.in.g"]) == {}
    assert world.k2.asked == 1
    world.now_s += RETRY_S
    world.k2.is_away = False
    assert world.kafka_clusters.beginnings([A, B]) == {A: 5, B: 5}
    assert world.kafka_clusters.can_read([A, B])


def test_what_is_not_read_is_not_asked() -> None:
    world = World()
    world.kafka_clusters.unread["k2"] = "wrong password"
    assert world.kafka_clusters.ends()("b") is None
    assert world.k2.asked == 0


def test_the_ends_of_a_node_are_those_of_what_it_and_its_clients_write() -> None:
    """Heartbeats and progress say nothing that must be awaited; nor do other nodes' topics."""
    ends = World().kafka_clusters.ends()("a")
    assert ends is not None
    topics = {place.topic for place in ends}
    assert topics == {"mesh.a.in.g", "mesh.a.ep.s"}
    assert len(ends) == 4


def test_all_is_read_up_to_where_the_slowest_kafka_cluster_is() -> None:
    kafka_clusters = World().kafka_clusters
    assert kafka_clusters.read_s == -inf
    kafka_clusters.read.update({"k1": 90.0, "k2": 70.0})
    assert kafka_clusters.read_s == 70.0
    assert AuditedKafkaClusters("mesh.").read_s == inf


def test_a_kafka_cluster_without_nodes_holds_nobody_up() -> None:
    """One of the file that is switched off, or that a change has left behind."""
    world = World()
    world.kafka_clusters.read = {"k1": 50.0}
    assert world.kafka_clusters.read_s == -inf
    world.kafka_clusters.needed = {"k1": None}
    assert world.kafka_clusters.read_s == 50.0
    assert (world.kafka_clusters.is_needed("k1"), world.kafka_clusters.is_needed("k2")) == (
        True,
        False,
    )


def test_a_kafka_cluster_that_nobody_knows_how_to_reach_is_never_read() -> None:
    """A change has brought it: blocks were forgotten of which its nodes may lack something."""
    world = World()
    world.kafka_clusters.read = {"k1": 50.0, "k2": 50.0}
    world.kafka_clusters.needed = dict.fromkeys(("k1", "k2", "k3"))
    assert world.kafka_clusters.read_s == -inf


def test_how_far_was_read_is_told_by_the_time_of_day():
    kafka_clusters = AuditedKafkaClusters("mesh.", clock=lambda: 50.0, read={"k1": 47.5})
    assert kafka_clusters.read_ms("k1", 1_700_000_000_000) == 1_699_999_997_500
    assert kafka_clusters.read_ms("k2", 1_700_000_000_000) is None


def test_a_kafka_cluster_is_asked_once_for_all_its_nodes() -> None:
    world = World()
    world.kafka_clusters.homes["c"] = "k1"
    world.k1.names = (*world.k1.names, "mesh.c.ledger", "mesh.b.ledger")
    ends, before = world.kafka_clusters.ends(), world.k1.asked
    ends("a")
    asked = world.k1.asked - before
    assert ends("c") == {TopicPartition("mesh.c.ledger", at): 9 for at in range(2)}
    assert world.k1.asked - before == asked
    assert ends("b") is not None
    assert not any(place.topic == "mesh.b.ledger" for place in ends("b") or ())
