"""Records stay for a time after their reader has passed them."""

from __future__ import annotations

from mesh.runtime.topics.retention import CHECK_MS, Retention
from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

PLACE = TopicPartition("mesh.a.in.g", 0)


def test_only_what_was_passed_long_ago_is_deletable() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    retention.passed({PLACE: 5}, 0)
    retention.passed({PLACE: 9}, 600)
    assert retention.deletable(999) == {}
    assert retention.deletable(1000) == {PLACE: 5}
    assert retention.deletable(1000) == {}
    assert retention.deletable(5000) == {PLACE: 9}


def test_it_looks_once_a_minute() -> None:
    """Spec: K5."""
    retention = Retention(keep_ms=1000)
    assert retention.is_due(CHECK_MS)
    assert not retention.is_due(CHECK_MS + 1)
    assert retention.is_due(2 * CHECK_MS)


def test_a_worker_trims_what_its_readers_have_passed(mesh: SmallMesh) -> None:
    """Ingress by its own progress, outboxes by the neighbour's, endpoints by the slowest group."""
    for value in (b"1", b"2", b"3"):
        mesh.publish(value, [subject("x")])
        mesh.run(500)
    endpoint = TopicPartition(mesh.names.endpoint("c", "s"), 0)
    mesh.kafka.commit_group("billing", {endpoint: 2})
    mesh.run(CHECK_MS)
    mesh.kafka.commit_group("billing", {endpoint: 600})
    kept = TopicPartition("mesh.a.in.g", 0)
    assert mesh.kafka.admin().starts([kept, endpoint]) == {kept: 0, endpoint: 0}
    for worker in mesh.world.workers.values():
        worker._upkeep._retention.keep_ms = CHECK_MS
    mesh.run(2 * CHECK_MS)
    passed = [PLACE, TopicPartition("mesh.a.to.b.g", 0), endpoint]
    starts = mesh.kafka.admin().starts(passed)
    assert starts[PLACE] == 3
    assert starts[passed[1]] > 0
    assert starts[endpoint] == mesh.kafka.admin().ends([endpoint])[endpoint]
