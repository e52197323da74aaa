"""What the doctor mends, and what it leaves to a person."""

from __future__ import annotations

from mesh.errors import TransportDeniedError
from mesh.operate.doctor import Category
from mesh.operate.doctor.fixes import Fix, fixes_of, mend
from tests.component.admin_faults import AdminFaults
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import examination, failed


def mended(mesh: Mesh) -> list[Fix]:
    at = examination(mesh)
    return list(mend(at, list(fixes_of(at))))


def test_nothing_wrong_nothing_mended(mesh: Mesh) -> None:
    mesh.pause(3.0)
    assert mended(mesh) == []


def test_missing_topics_are_made_with_their_settings(mesh: Mesh) -> None:
    mesh.pause(3.0)
    mesh.world.kafka["left"].delete_topic("mesh.a.dlq")
    [made] = mended(mesh)
    assert (made.kafka, made.node, made.spec.name, made.is_new) == ("left", "a", "mesh.a.dlq", True)
    assert failed(mesh, Category.TOPICS) == {}


def test_wrong_settings_are_set_and_told_before_and_after(mesh: Mesh) -> None:
    mesh.pause(3.0)
    topic = mesh.world.kafka["left"].topics["mesh.a.in.g"]
    topic.settings |= {"retention.ms": "604800000", "max.message.bytes": "1000", "other": "stays"}
    [set_] = mended(mesh)
    assert set_.before == {"retention.ms": "604800000", "max.message.bytes": "1000"}
    assert set_.spec.settings == {"retention.ms": "-1", "max.message.bytes": "1000000"}
    assert (set_.is_new, set_.withheld, set_.refusal) == (False, "", "")
    assert topic.settings["other"] == "stays"
    assert failed(mesh, Category.TOPICS) == {}


def test_what_would_delete_records_is_left_alone(mesh: Mesh) -> None:
    """Less retention, and deletion by age where records were only compacted."""
    mesh.pause(3.0)
    topics = mesh.world.kafka["left"].topics
    topics["mesh.a.ledger"].settings |= {"retention.ms": "-1", "message.timestamp.type": "x"}
    topics["mesh.a.in.d"].settings["retention.bytes"] = "-1"
    topics["mesh.a.dlq"].settings["cleanup.policy"] = "compact"
    found = mended(mesh)
    assert {(one.spec.name, tuple(one.spec.settings), bool(one.withheld)) for one in found} == {
        ("mesh.a.ledger", ("message.timestamp.type",), False),
        ("mesh.a.ledger", ("retention.ms",), True),
        ("mesh.a.in.d", ("retention.bytes",), True),
        ("mesh.a.dlq", ("cleanup.policy",), True),
    }
    assert topics["mesh.a.ledger"].settings["retention.ms"] == "-1"
    assert topics["mesh.a.ledger"].settings["message.timestamp.type"] == "LogAppendTime"


def test_a_policy_that_keeps_everything_is_safe(mesh: Mesh) -> None:
    mesh.pause(3.0)
    topics = mesh.world.kafka["left"].topics
    topics["mesh.a.control"].settings["cleanup.policy"] = "delete"
    [set_] = mended(mesh)
    assert (set_.withheld, topics["mesh.a.control"].settings["cleanup.policy"]) == ("", "compact")


def test_partitions_are_never_touched(mesh: Mesh) -> None:
    """Spec: K2."""
    mesh.pause(3.0)
    kafka = mesh.world.kafka["left"]
    mesh.world.kill("a")
    spec = next(one for one in examination(mesh).node_topics("a") if one.name == "mesh.a.dlq")
    kafka.delete_topic("mesh.a.dlq")
    kafka.admin().create([type(spec)(name=spec.name, partitions=9, settings=spec.settings)])
    assert mended(mesh) == []
    assert "9 partitions instead of 2" in failed(mesh, Category.TOPICS).popitem()[1]


def test_a_refusal_is_told_in_the_brokers_words(mesh: Mesh) -> None:
    mesh.pause(3.0)
    kafka = mesh.world.kafka["left"]
    kafka.topics["mesh.a.in.g"].settings["retention.ms"] = "1"
    kafka.faults = AdminFaults(change=TransportDeniedError("Cluster authorization failed."))
    [refused] = mended(mesh)
    assert refused.refusal == "Cluster authorization failed."
