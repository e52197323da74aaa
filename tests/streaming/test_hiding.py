"""What somebody would try who wants the auditor to certify a fault, or to say nothing of it."""

from __future__ import annotations

import pytest

from mesh.model.control import Identity, TopicIdentity
from mesh.wire.control import encode_identity
from streaming.tables.rows import TopicPartition
from tests.streaming.conftest import Bench
from tests.streaming.planted import topic_id

pytestmark = pytest.mark.spark

DIRECT = b'{"class": "direct"}'
ABC = ["a", "b", "c"]


def found(bench: Bench) -> list[tuple]:
    """Return (kind, link or endpoint, first, last) of all findings, sorted."""
    bench.settle()
    return told(bench)


def told(bench: Bench) -> list[tuple]:
    return sorted(
        (one.kind.value, one.link or one.endpoint, one.first, one.last)
        for one in bench.auditor.state.register.findings.values()
    )


def delete(bench: Bench, topic: str, below: int, partition: int = 0) -> None:
    """Have the log of a partition begin at an offset."""
    bench.begins[TopicPartition(topic, partition)] = below
    log = bench.plant.logs[topic, partition]
    log[:below] = [None] * below


def compact(bench: Bench, topic: str, *gone: int, partition: int = 0) -> None:
    """Have a topic keep the newest record of each key alone, and some records be gone already."""
    bench.compacted.append(topic)
    for offset in gone:
        bench.plant.logs[topic, partition][offset] = None


# -- behind an unsubscribe ------------------------------------------------------------------


def test_a_loss_that_was_found_stays_one_when_the_subscription_ends(bench, plant):
    """The mesh sent nothing any more: so nothing came below the cut that ends what is owed."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    plant.publish("a", "acme/x", 5)
    plant.progress("a", "a.in.g", 0, 10)
    missing = [("missing", "c/s1", 5, 9)]
    assert found(bench) == missing
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>", None))
    assert found(bench) == missing
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (10, 5, False)


def test_nothing_is_proven_before_it_is_known_where_a_subscription_ended(bench, plant):
    """The subscriber's lane never says that it knows of the end: so nothing would be owed."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[4])
    plant.subscribe("c", "s1", "acme/>", None)
    assert found(bench) == []
    assert [one.reason for one in bench.auditor.state.certifier.waiting] != []
    assert not [one for one in bench.certificates.values() if one.equal]


def test_a_loss_stays_one_when_its_node_calls_itself_otherwise(bench, plant):
    """Lanes have told what they know of it under the uuid that it had."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[3])
    missing = [("missing", "c/s1", 3, 3)]
    assert found(bench) == missing
    other = Identity(node="c", uuid="x", epoch=2, cluster_id="x", lanes=1, topics=[])
    plant.put("c.control", 0, b"identity", encode_identity(other))
    assert found(bench) == missing
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (5, 4, False)


def test_who_asks_under_subjects_of_its_own_for_ever_is_certified(bench, plant):
    """Each answer has a subscription that ends with it; of long ago they used to be unexpected."""
    for number in range(60):
        key = f"reply/{number}"
        plant.cuts_everywhere("b", plant.subscribe("b", "s1", key))
        plant.carry(1, ["b/s1"], subject=key)
        plant.cuts_everywhere("b", plant.subscribe("b", "s1", key, None))
    for number in range(600):
        plant.subscribe("b", "s2", f"other/{number}")
        plant.subscribe("b", "s2", f"other/{number}", None)
    assert found(bench) == []
    assert bench.auditor.state.interest.pruned > 0
    (certificate,) = [one for one in bench.certificates.values() if one.endpoint == "b/s1"]
    assert (certificate.delivered, certificate.equal) == (60, True)


# -- behind a log that was deleted ----------------------------------------------------------


def test_a_copy_is_one_also_if_the_first_is_deleted(bench, plant):
    """Of an endpoint that is consumed the mesh deletes what every group has read."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    assert found(bench) == []
    delete(bench, "mesh.c.ep.s1", 5)
    plant.deliver("c/s1", [2], ABC)
    assert ("duplicate", "c/s1", 2, 2) in found(bench)
    assert not [one for one in bench.certificates.values() if one.equal]


def test_a_direct_copy_is_one_also_if_the_first_is_deleted(bench, plant):
    plant.subscribe("b", "s1", "acme/>", DIRECT)
    plant.publish("a", "acme/x", 5, letter="d")
    plant.deliver("b/s1", range(5), ["a", "b"], origin="a.in.d")
    assert found(bench) == []
    delete(bench, "mesh.b.ep.s1", 5)
    plant.deliver("b/s1", [2], ["a", "b"], origin="a.in.d")
    assert found(bench) == [("duplicate", "b/s1", 2, 2)]


def test_what_was_consumed_and_deleted_is_not_missing(bench, plant):
    """A block that must be read again message by message, of which the endpoint has a part."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    bench.settle()
    delete(bench, "mesh.c.ep.s1", 5)
    plant.carry(5, ["c/s1"], lost=[2])
    assert [one for one in found(bench) if one[0] == "missing"] == []


def test_what_was_consumed_before_it_was_read_is_not_missing_and_not_proven(bench, plant):
    """A fresh auditor, or one that was away: from the first message on that it finds all is owed."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(9, ["c/s1"])
    delete(bench, "mesh.c.ep.s1", 6)
    plant.carry(9, ["c/s1"], lost=[2])
    bench.taken["mesh.c.ep.s1", 0] = 6
    assert found(bench) == [("missing", "c/s1", 11, 11), ("unproven", "c/s1", 0, 5)]
    (certificate,) = bench.certificates.values()
    assert (certificate.delivered, certificate.equal, certificate.sure) == (11, False, False)


def test_where_all_that_was_read_came_what_was_consumed_is_no_proof(bench, plant):
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(9, ["c/s1"])
    delete(bench, "mesh.c.ep.s1", 6)
    bench.taken["mesh.c.ep.s1", 0] = 6
    assert found(bench) == [("unproven", "c/s1", 0, 5)]
    (certificate,) = bench.certificates.values()
    assert (certificate.delivered, certificate.equal, certificate.sure) == (3, True, False)


def test_a_copy_in_an_endpoint_that_was_recreated_is_one(bench, plant):
    """The first one is gone with the former topic; what it had is not missing either."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    bench.settle()
    bench.ids["mesh.c.ep.s1"] = "ab" * 16
    plant.logs["mesh.c.ep.s1", 0].clear()
    plant.progress("c", "b.to.c.g", 0, 1)
    bench.take()
    bench.wait(15)
    assert [one for one in told(bench) if one[0] != "unproven"] == []
    plant.deliver("c/s1", [2], ABC)
    bench.settle()
    assert [one for one in told(bench) if one[0] == "missing"] == []
    assert not [one for one in bench.certificates.values() if one.equal]


# -- behind marks ---------------------------------------------------------------------------


def test_a_direct_copy_in_another_partition_is_found(bench, plant):
    plant.subscribe("b", "s1", "acme/>", DIRECT)
    plant.publish("a", "acme/x", 5, letter="d")
    plant.deliver("b/s1", range(5), ["a", "b"], origin="a.in.d")
    plant.deliver("b/s1", [2], ["a", "b"], origin="a.in.d", at=1)
    assert found(bench) != []


def test_guaranteed_messages_of_one_source_in_two_partitions_are_out_of_order(bench, plant):
    """Each partition has them in order, and nobody who reads both does."""
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(6, [])
    plant.deliver("b/s1", [0, 2, 4], ["a", "b"])
    plant.deliver("b/s1", [1, 3, 5], ["a", "b"], at=1)
    assert [one[:2] for one in found(bench)] == [("disorder", "b/s1")]


def test_a_direct_copy_of_a_generation_that_nobody_told_of_is_found(bench, plant):
    plant.subscribe("b", "s1", "acme/>", DIRECT)
    plant.publish("a", "acme/x", 5, letter="d")
    plant.deliver("b/s1", range(5), ["a", "b"], origin="a.in.d")
    plant.deliver("b/s1", [2], ["a", "b"], origin="a.in.d", generation=1)
    assert found(bench) != []


def test_frames_of_a_generation_that_nobody_told_of_are_found(bench, plant):
    plant.carry(5, [])
    plant.frame("a->b", range(5), path=["a"], source="a.in.g", generation=1)
    assert found(bench) != []


def test_only_what_is_addressed_to_a_queue_is_moved(bench, plant):
    """A node with a queue may not send on anything at all, as often as it likes."""
    queue = b'{"kind": "queue", "policy": "any"}'
    for node in "bc":
        plant.cuts_everywhere(node, plant.subscribe(node, "q", "other/>", queue))
    plant.carry(5, [])
    for _ in range(2):
        plant.frame("b->c", range(5), path=["b"], source="b.ep.q")
    assert ("unplanned-path", "b->c", 0, 4) in found(bench)


# -- of frames ------------------------------------------------------------------------------


def test_a_frame_of_a_topic_that_does_not_exist_is_forged(bench, plant):
    plant.frame("a->b", range(5), path=["a"], source="a.in.g", origin="a.in.x")
    bench.take()
    bench.wait(80)
    assert ("forged-origin", "a->b", 0, 4) in told(bench)


def test_a_frame_that_names_another_node_than_its_topic_is_forged(bench, plant):
    plant.frame("b->c", range(5), path=["b"], source="b.in.g", origin="b.in.g")
    plant.ids["mesh.b.in.g"] = topic_id("mesh.a.in.g")
    plant.frame("b->c", range(5, 9), path=["b"], source="b.in.g", origin="b.in.g")
    assert ("forged-origin", "b->c", 5, 8) in found(bench)


def test_a_guaranteed_message_on_a_direct_outbox_is_found(bench, plant):
    plant.publish("a", "acme/x", 5)
    plant.frame("a->b", range(5), path=["a"], source="a.in.g", letter="d")
    assert ("unexpected", "a->b", 0, 4) in found(bench)


def test_a_node_names_its_own_topics_alone(bench, plant):
    """Else what is forged is of a node that nobody knows, and waits for it for ever."""
    ghost = TopicIdentity("mesh.ghost.in.g", topic_id("mesh.ghost.in.g"), 1)
    identity = Identity(node="b", uuid="uuid-b", epoch=1, cluster_id="x", lanes=1, topics=[ghost])
    plant.put("b.control", 0, b"identity", encode_identity(identity))
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(2, ["b/s1"])
    plant.deliver("b/s1", [0], ["a", "b"], origin="ghost.in.g")
    bench.take()
    bench.wait(80)
    assert ("forged-origin", "b/s1", 0, 0) in told(bench)


# -- behind others --------------------------------------------------------------------------


def test_a_topic_of_nobody_on_two_kafka_clusters_blinds_nobody(bench, plant):
    """Of each Kafka cluster it is another topic: how much is new of it says nothing of lag."""
    lengths = {"k1": 0, "k2": 10_000_000}
    before = bench.auditor.positions
    place = TopicPartition("mesh.ghost.in.g", 0)
    bench.auditor.positions = lambda name, batch: {**before(name, batch), place: lengths[name]}
    for _ in range(2):
        plant.beat()
        bench.take()
    assert not bench.auditor.lagging


def test_what_is_deleted_while_the_auditor_lags_is_told(bench, plant):
    """Spark skips it without a word, and the next time brokers are asked all seems well."""
    plant.publish("a", "acme/x", 5)
    plant.progress("a", "a.in.g", 0, 5)
    assert found(bench) == []
    bench.auditor.offsets_max = 10
    plant.publish("a", "acme/x", 10)
    delete(bench, "mesh.a.in.g", 8)
    bench.take()
    bench.wait(61)
    plant.publish("a", "acme/x", 1)
    assert found(bench) == [("unproven", "", 5, 7)]


def test_what_is_deleted_between_two_batches_is_told(bench, plant):
    """Brokers were asked just now, and the next time all seems well: it begins too late."""
    plant.publish("a", "acme/x", 5)
    plant.progress("a", "a.in.g", 0, 5)
    assert found(bench) == []
    plant.publish("a", "acme/x", 10)
    delete(bench, "mesh.a.in.g", 8)
    assert found(bench) == [("unproven", "", 5, 7)]


def test_what_is_deleted_up_to_the_end_between_two_batches_is_told(bench, plant):
    plant.publish("a", "acme/x", 5)
    assert found(bench) == []
    plant.publish("a", "acme/x", 3)
    delete(bench, "mesh.a.in.g", 8)
    assert found(bench) == [("unproven", "", 5, 7)]


def test_what_compaction_removed_before_it_was_read_is_unproven(bench, plant):
    """A loss of it would be none: it is neither in the ingress nor in the endpoint."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[2])
    compact(bench, "mesh.a.in.g", 2, 3)
    assert found(bench) == [("unproven", "", 0, 4)]
    assert bench.certificates == {}


def test_what_transactions_of_clients_leave_out_is_no_compaction(bench, plant):
    """Their ends take offsets, and so does what was given up."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(2, ["c/s1"])
    plant.logs["mesh.a.in.g", 0] += [None, None]
    plant.carry(2, ["c/s1"])
    assert found(bench) == []
    assert [(one.expected, one.equal) for one in bench.certificates.values()] == [(4, True)]


def test_an_ingress_that_is_compacted_and_was_read_whole_is_certified(bench, plant):
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(4, ["c/s1"])
    compact(bench, "mesh.a.in.g")
    assert found(bench) == []
    assert [(one.expected, one.equal) for one in bench.certificates.values()] == [(4, True)]


def test_a_lane_tells_of_what_it_reads_alone(bench, plant):
    """A cut of somebody else would say that a lane knows what it does not."""
    version = plant.subscribe("c", "s1", "acme/>")
    plant.cut("b", "a.in.g", 10**6, "c", version)
    plant.carry(5, [])
    assert found(bench) == [("unexpected", "", 0, 0)]
    assert not bench.auditor.state.interest.lanes.cuts


def test_an_account_that_nobody_can_read_is_told(bench, plant):
    """The auditor alone reads it: from where on something is owed may be in it."""
    plant.put("a.ledger", 0, b"0", b"\xff")
    assert found(bench) == [("unexpected", "", 0, 0)]


# -- read late ------------------------------------------------------------------------------


def test_a_loss_is_found_where_its_node_is_known_late(bench, plant):
    """What is owed rests on uuids: until then all may come, and nothing must."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[3])
    bench.take("mesh.c.control")
    bench.wait(5)
    assert found(bench) == [("missing", "c/s1", 3, 3)]
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (5, 4, False)
