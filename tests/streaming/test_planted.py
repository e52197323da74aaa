"""Every kind of fault, planted once: exactly it is found, with the right names. Spec: DESIGN 7."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mesh.model.control import Heartbeat, Stop
from mesh.model.frames import MessageClass, position_in_chain
from mesh.wire.control import encode_stop
from mesh.wire.keys import repair_key, stop_key
from streaming.tables.rows import TopicPartition
from tests.streaming.conftest import Bench, kafka_frame
from tests.streaming.planted import Plant, topic_id

pytestmark = pytest.mark.spark


def found(bench):
    """Return (kind, link or endpoint, path, first, last) of all findings, sorted."""
    bench.settle()
    return sorted(
        (one.kind.value, one.link or one.endpoint, ">".join(one.path), one.first, one.last)
        for one in bench.auditor.state.register.findings.values()
    )


def test_frames_that_come_back_are_a_loop(bench, plant):
    """b sends a message to a, where it was published; and c's path names b twice."""
    offsets = plant.publish("a", "acme/x", 5)
    plant.frame("b->a", offsets, path=["a", "b"], source="a.to.b.g", span=(0, 0))
    plant.frame("b->c", offsets, path=["a", "b", "a", "b"], source="a.to.b.g", span=(0, 0))
    assert found(bench) == [
        ("loop", "b->a", "a>b", 0, 4),
        ("loop", "b->c", "a>b>a>b", 0, 4),
    ]


def test_a_delivery_over_a_link_that_is_not_there_is_an_unplanned_path(bench, plant):
    """a and c are not linked; a path must begin where the message was published and end here."""
    plant.subscribe("c", "s1", "acme/>")
    plant.carry(3, [])
    plant.deliver("c/s1", [0], ["a", "c"])
    plant.deliver("c/s1", [1], ["b", "c"])
    plant.deliver("c/s1", [2], ["a", "b"])
    kinds = found(bench)
    assert [one for one in kinds if one[0] == "unplanned-path"] == [
        ("unplanned-path", "c/s1", "a>b", 2, 2),
        ("unplanned-path", "c/s1", "a>c", 0, 0),
        ("unplanned-path", "c/s1", "b>c", 1, 1),
    ]


def test_a_frame_in_a_zone_that_its_link_is_not_in_is_an_unplanned_path(bench, plant):
    offsets = plant.publish("a", "acme/x", 2)
    plant.frame("a->b", offsets, path=["a"], source="a.in.g", zone="Y")
    assert found(bench) == [("unplanned-path", "a->b", "a", 0, 1)]


def test_a_message_twice_in_one_outbox_is_a_duplicate_unless_it_is_a_repair(bench, plant):
    """Found within one batch and across two; a repair frame may repeat, if it was asked for."""
    offsets = plant.publish("a", "acme/x", 10)
    asked = repair_key(topic_id("mesh.a.in.g"), 0, 0, MessageClass.GUARANTEED)
    plant.put("b.to.a.c", 0, asked, b"")
    plant.frame("a->b", offsets[:5], path=["a"], source="a.in.g")
    plant.frame("a->b", offsets[5:], path=["a"], source="a.in.g")
    plant.frame("a->b", offsets[:5], path=["a"], source="a.in.g", flags=1, previous=-1)
    assert found(bench) == []
    plant.frame("a->b", offsets[8:], path=["a"], source="a.in.g", previous=9)
    assert found(bench) == [("duplicate", "a->b", "", 8, 9)]
    plant.frame("a->b", [10, 12], path=["a"], source="a.in.g", previous=9)
    plant.frame("a->b", [11, 12], path=["a"], source="a.in.g", previous=12)
    assert found(bench)[0][:2] == ("disorder", "a->b")
    (twice,) = [
        one for one in bench.auditor.state.register.findings.values() if one.kind == "duplicate"
    ]
    assert twice.ids == tuple(f"mesh.a.in.g/0/0/{offset}" for offset in (8, 9, 12))


def test_what_follows_a_frame_that_was_sent_twice_is_no_gap(bench, plant):
    """The chain goes on where it was furthest, and not where the second copy ended."""
    told = {"path": ["a"], "source": "a.in.g"}
    offsets = plant.publish("a", "acme/x", 12)
    plant.frame("a->b", offsets[:5], **told)
    plant.frame("a->b", offsets[5:10], **told)
    plant.frame("a->b", offsets[:5], **told, previous=-1)
    plant.frame("a->b", offsets[10:], **told, previous=9)
    assert found(bench) == [("duplicate", "a->b", "", 0, 4)]


def test_split_frames_that_share_a_stretch_but_no_message_are_no_duplicate(bench, plant):
    """Both speak for the offsets 0 to 9: the intervals overlap, the messages do not."""
    plant.publish("a", "acme/x", 10)
    plant.frame("a->b", [0, 2, 4, 9], path=["a"], source="a.in.g")
    plant.frame("a->b", [10, 11], path=["a"], source="a.in.g")
    assert found(bench) == []
    key = next(iter(bench.auditor.state.origins.reached))
    bench.auditor.state.origins.reached[key] = 20
    plant.frame("a->b", [12, 15], path=["a"], source="a.in.g")
    assert found(bench) == []


def test_a_message_that_enters_a_node_over_two_links_is_a_duplicate(bench, plant):
    offsets = plant.publish("a", "acme/x", 4)
    plant.frame("a->b", offsets, path=["a"], source="a.in.g")
    plant.frame("c->b", offsets[2:], path=["a", "c"], source="a.to.c.g", span=(0, 0))
    assert found(bench) == [
        ("duplicate", "c->b, a->b", "", 2, 3),
        ("unplanned-path", "c->b", "a>c", 2, 3),
    ] or found(bench) == [
        ("duplicate", "a->b, c->b", "", 2, 3),
        ("unplanned-path", "c->b", "a>c", 2, 3),
    ]


def test_a_frame_that_is_not_there_is_a_gap(bench, plant):
    """Within a batch and across two batches: the range that was sent and is not there. K11."""
    offsets = plant.publish("a", "acme/x", 30)
    plant.frame("a->b", offsets[:5], path=["a"], source="a.in.g")
    plant.frame("a->b", offsets[10:15], path=["a"], source="a.in.g", previous=9)
    assert found(bench) == [("gap", "a->b", "", 5, 9)]
    plant.frame("a->b", offsets[20:], path=["a"], source="a.in.g", previous=19)
    assert found(bench) == [("gap", "a->b", "", 5, 9), ("gap", "a->b", "", 15, 19)]


def test_a_gap_after_an_announced_loss_is_told_although_offsets_came_again(bench, plant):
    """An operator accepted a truncation: the chain goes on at the announcement. K9, K11."""
    told = {"path": ["a"], "source": "a.in.g"}
    plant.publish("a", "acme/x", 40)
    plant.frame("a->b", range(30), **told)
    again = {**told, "generation": 1}
    plant.frame("a->b", (10, 29), **again, span=(9, 9), is_gap=True)
    plant.frame("a->b", range(10, 15), **again)
    plant.frame("a->b", range(18, 20), **again, previous=position_in_chain(1, 17))
    assert ("gap", "a->b", "", 15, 17) in found(bench)
    plant.frame("a->b", range(22, 24), **again, previous=position_in_chain(1, 21))
    assert [one for one in found(bench) if one[0] == "gap"] == [
        ("gap", "a->b", "", 15, 17),
        ("gap", "a->b", "", 20, 21),
        ("gap", "a->b", "a", 10, 29),
    ]


def test_what_nobody_wanted_and_what_direct_frames_lost_is_no_gap(bench, plant):
    """Source offsets may be skipped; direct frames may be lost. K11, DESIGN 6."""
    plant.frame("a->b", [0, 1], path=["a"], source="a.in.g")
    plant.frame("a->b", [7, 9], path=["a"], source="a.in.g")
    plant.frame("a->b", [0], path=["a"], source="a.in.d", origin="a.in.d", letter="d")
    plant.frame("a->b", [9], path=["a"], source="a.in.d", origin="a.in.d", letter="d", previous=8)
    assert found(bench) == []


def test_direct_messages_are_read_or_counted_as_discarded(bench, plant):
    """Frames in the outbox against what its reader says. DESIGN 6, K18."""
    told = {"path": ["a"], "source": "a.in.d", "origin": "a.in.d", "letter": "d"}
    for offsets in ([0, 1], [2], [3, 4, 5], [6]):
        plant.frame("a->b", offsets, **told)
    plant.tell_read("b", "a.to.b.d", 0, 2, 3, [("stale_epoch", 1)])
    plant.tell_read("b", "a.to.b.d", 2, 4, 1, [("takeover", 1)])
    assert found(bench) == []
    plant.frame("a->b", [7, 8], **told)
    plant.frame("a->b", [9], **told)
    plant.tell_read("b", "a.to.b.d", 4, 6, 1)
    assert found(bench) == [("unaccounted", "a->b", "", 4, 5)]


def test_copies_that_nobody_behind_a_link_asked_for_are_needless(spark, tmp_path):
    """Also on the second link, and of a filter that was left: from the cut on. DESIGN 3, K25."""
    plant = Plant()
    plant.identities()
    bench = Bench(spark, plant, tmp_path)
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/*"))
    plant.carry(3, ["c/s1"])
    assert found(bench) == []
    offsets = plant.publish("a", "other/x", 2)
    at = plant.frame("a->b", offsets, path=["a"], source="a.in.g", subject="other/x")
    assert found(bench) == [("needless-copy", "a->b", "", 3, 4)]
    relayed = {"path": ["a", "b"], "source": "a.to.b.g", "span": (at, at), "subject": "other/x"}
    plant.frame("b->c", offsets, **relayed)
    needless = [("needless-copy", "a->b", "", 3, 4), ("needless-copy", "b->c", "", 3, 4)]
    assert found(bench) == needless
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/*", None))
    bench.take()
    offsets = plant.publish("a", "acme/x")
    plant.frame("b->c", offsets, path=["a", "b"], source="a.to.b.g", span=(at, at), previous=at)
    assert found(bench) == [needless[0], ("needless-copy", "b->c", "", 3, 5)]


def test_deliveries_twice_or_late_are_named_for_every_class(bench, plant):
    """Direct messages have no certificate, but they too come at most once and in order."""
    plant.subscribe("b", "s1", "acme/>", b'{"class": "direct"}')
    plant.publish("a", "acme/x", 9, letter="d")
    plant.deliver("b/s1", [0, 1, 3, 2, 4], ["a", "b"], origin="a.in.d")
    assert found(bench) == [("disorder", "b/s1", "", 2, 2)]
    plant.deliver("b/s1", [5, 3], ["a", "b"], origin="a.in.d")
    assert found(bench) == [("disorder", "b/s1", "", 2, 2), ("duplicate", "b/s1", "", 3, 3)]


def test_direct_messages_for_somebody_else_are_unexpected(bench, plant):
    """Of those that come before their subscription is read nothing is said."""
    plant.publish("a", "acme/x", 4, letter="d")
    plant.publish("a", "other/x", 2, letter="d")
    plant.deliver("b/s1", [0, 1], ["a", "b"], origin="a.in.d")
    bench.take()
    plant.subscribe("b", "s1", "acme/*", b'{"class": "direct"}')
    plant.deliver("b/s1", [2, 3], ["a", "b"], origin="a.in.d")
    assert found(bench) == []
    plant.deliver("b/s1", [4, 5], ["a", "b"], origin="a.in.d", subject="other/x")
    assert found(bench) == [("unexpected", "b/s1", "", 4, 5)]


def test_a_direct_message_without_a_subject_is_excused_by_none_beside_it(bench, plant):
    """Both are read before their subscription is known, and sets leave out what is null."""
    plant.publish("a", "acme/x", 2, letter="d")
    plant.subscribe("b", "s1", ">", b'{"class": "direct"}')
    plant.deliver("b/s1", [0, 1], ["a", "b"], origin="a.in.d")
    log = plant.logs["mesh.b.ep.s1", 0]
    log[-1] = replace(log[-1], headers=log[-1].headers[-1:])
    assert found(bench) == [("unexpected", "b/s1", "", 0, 1)]


def of_many_subjects(plant) -> None:
    """Have 60 direct messages come, one of which nobody has requested; its subject sorts last."""
    for number in range(60):
        subject = "zz/x" if number == 41 else f"acme/{number}"
        plant.publish("a", subject, 1, letter="d")
        plant.deliver("b/s1", [number], ["a", "b"], origin="a.in.d", subject=subject)


@pytest.mark.parametrize("is_read_together", [True, False])
def test_of_direct_messages_of_many_subjects_each_is_judged(bench, plant, is_read_together):
    """An auditor that begins late reads all of them before it knows a subscription."""
    of_many_subjects(plant)
    if not is_read_together:
        bench.take()
    plant.subscribe("b", "s1", "acme/*", b'{"class": "direct"}')
    assert found(bench) == [("unexpected", "b/s1", "", 41, 41)]
    (one,) = bench.auditor.state.register.findings.values()
    assert (one.count, one.evidence) == (1, ("mesh.b.ep.s1/0@41",))


def test_of_many_subjects_that_are_deleted_before_they_are_read_again_is_nothing_known(
    bench, plant
):
    of_many_subjects(plant)
    bench.take()
    bench.begins[TopicPartition("mesh.b.ep.s1", 0)] = 50
    plant.subscribe("b", "s1", "acme/*", b'{"class": "direct"}')
    bench.take()
    assert [(one.kind, one.count) for one in bench.auditor.state.register.findings.values()] == [
        ("unproven", 60)
    ]


def test_a_duplicate_of_a_guaranteed_message_spoils_its_certificate(bench, plant):
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(6, ["b/s1"])
    plant.deliver("b/s1", [4], ["a", "b"])
    assert found(bench) == [("duplicate", "b/s1", "", 4, 4)]
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (6, 7, False)


def test_deliveries_that_nobody_asked_for_or_published_are_unexpected(bench, plant):
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(4, ["b/s1"])
    plant.carry(2, ["b/s1"], subject="other/x")
    plant.deliver("b/s1", [40], ["a", "b"])
    assert found(bench) == [("unexpected", "b/s1", "", 4, 40)]
    (finding,) = bench.auditor.state.register.findings.values()
    assert finding.ids == tuple(f"mesh.a.in.g/0/0/{offset}" for offset in (4, 5, 40))


def test_what_comes_of_a_block_that_was_certified_for_good_is_judged(bench, plant):
    """Its messages are read again for it: it was dropped without a word."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.cuts_everywhere("c", plant.subscribe("c", "s2", "acme/>"))
    plant.carry(5, ["c/s1"])
    plant.deliver("c/s2", range(3), ["a", "b", "c"])
    bench.settle()
    blocks, place = bench.auditor.state.certifier.blocks, TopicPartition("mesh.a.in.g", 0)
    del blocks.open[place][0]
    blocks.dropped[place] = 0
    bench.auditor.state.register.findings.clear()
    plant.deliver("c/s2", [3, 4], ["a", "b", "c"])
    plant.deliver("c/spy", [1, 2], ["a", "b", "c"])
    plant.deliver("c/s1", [2], ["a", "b", "c"], at=1)  # once more, where no order tells
    assert found(bench) == [
        ("disorder", "c/s1", "", 2, 2),
        ("duplicate", "c/s1", "", 2, 2),
        ("unexpected", "c/spy", "", 1, 2),
    ]
    assert blocks.unplaced.late == {}


def test_records_that_are_no_deliveries_and_no_frames_are_unexpected(bench, plant):
    plant.put("b.ep.s1", 0, b"k", b"by hand")
    plant.put("a.to.b.g", 1, b"not avro", b"")
    assert [one[:2] for one in found(bench)] == [("unexpected", "a->b"), ("unexpected", "b/s1")]


def test_what_a_standing_node_holds_back_is_waiting_and_not_missing(bench, plant):
    """K30: time alone never makes a loss; when the node has gone on, it does."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    offsets = plant.publish("a", "acme/x", 3)
    plant.frame("a->b", offsets, path=["a"], source="a.in.g")
    plant.progress("a", "a.in.g", 0, 8)
    assert found(bench) == []
    bench.wait(100)
    assert found(bench) == [("stalled", "", "", None, None)]
    (waiting,) = bench.auditor.state.certifier.waiting
    assert waiting.reason == "b at mesh.a.to.b.g/0: read up to 1 of 2"
    plant.accept("b", "a.to.b.g", 0, "a.in.g", 7)
    plant.progress("b", "a.to.b.g", 0, 2)
    assert found(bench) == [("missing", "c/s1", "", 5, 7)]


def test_a_message_that_comes_after_all_takes_its_finding_back(bench, plant):
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[4])
    assert found(bench) == [("missing", "c/s1", "", 4, 4)]
    plant.deliver("c/s1", [4], ["a", "b", "c"])
    assert found(bench) == []
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.equal) == (5, True)
    published = [one.value for one in bench.outputs if one.topic == "mesh.audit.findings"]
    assert len(published) == 2
    assert published[1] is None


def test_before_the_cut_a_message_may_come_and_from_it_on_it_must(bench, plant):
    """K25: routing at the origin began to know the subscription at offset 10."""
    plant.carry(10, [])
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.deliver("c/s1", [7, 8, 9], ["a", "b", "c"])
    plant.carry(10, ["c/s1"])
    assert found(bench) == []
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered, certificate.equal) == (13, 13, True)
    plant.carry(10, ["c/s1"], lost=[0])
    assert found(bench) == [("missing", "c/s1", "", 20, 20)]


def test_after_an_unsubscribe_what_was_routed_before_must_come_and_nothing_else_may(bench, plant):
    """K25: must ends at the last origin offset in the frames below the subscriber's own cut.

    May ends there too, once the origin's lane has known of the end before.
    """
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(10, ["c/s1"], lost=[9])
    gone = plant.subscribe("c", "s1", "acme/>", None)
    plant.carry(5, [])
    plant.deliver("c/s1", [12], ["a", "b", "c"])
    plant.cuts_everywhere("c", gone)
    plant.carry(10, [])
    assert found(bench) == [("missing", "c/s1", "", 9, 14)]
    plant.deliver("c/s1", [16], ["a", "b", "c"])
    assert found(bench) == [("missing", "c/s1", "", 9, 14), ("unexpected", "c/s1", "", 16, 16)]
    (certificate,) = bench.certificates.values()
    assert (certificate.expected, certificate.delivered) == (15, 11)


def test_subjects_and_sizes_that_the_mesh_refuses_are_not_expected(bench, plant):
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", ">"))
    plant.publish("a", None)
    plant.put("a.in.g", 0, b"k", b"v", [("x", b"1")])
    for subject in ("$node/x", "acme//x", "acme/*", "a" * 251):
        plant.publish("a", subject)
    twice = [("mesh-subject", b"acme/x"), ("mesh-subject", b"acme/x")]
    plant.put("a.in.g", 0, b"k", b"v", twice)
    plant.put("a.in.g", 0, b"k", b"v", [("mesh-subject", b"acme/\xff")])
    plant.put("a.in.g", 0, b"k", b"v" * 900_001, [("mesh-subject", b"acme/x")])
    plant.put("a.in.g", 0, b"k", b"v", [("x", b"1"), ("mesh-subject", b"acme/x")])
    plant.progress("a", "a.in.g", 0, 10)
    assert found(bench) == [("missing", "b/s1", "", 9, 9)]


def test_a_node_that_is_cut_off_is_a_split_and_its_return_a_heal(bench, plant):
    """K32: the node still beats, and neighbours fall more than ten beats behind."""
    plant.beat()
    bench.take()
    cut = {("b", "c"): 1, ("c", "b"): 1}
    for _ in range(15):
        plant.beat(cut)
    bench.take()
    for _ in range(2):  # both ends have beaten since those fifteen were known
        plant.beat(cut)
        bench.take()
    findings = bench.auditor.state.register.findings.values()
    assert [(one.kind.value, one.link, one.ids) for one in findings] == [
        ("split", "b-c", ("a,b", "c"))
    ]
    plant.beat()
    bench.take()
    findings = bench.auditor.state.register.findings.values()
    assert sorted(one.kind.value for one in findings) == ["heal", "split"]


def test_colours_that_name_other_parts_for_long_are_found(bench, plant, monkeypatch):
    """Nodes and auditor each find the parts in their own way; for a moment they may differ."""
    monkeypatch.setattr("streaming.audits.colours.LASTS_S", 4.0)  # a beat holds for five
    plant.beat(colours="xyy")
    bench.take()
    findings = bench.auditor.state.register.findings
    assert not findings
    bench.clock_s += 4.0
    plant.beat(colours="xyy")
    bench.take()
    [found] = findings.values()
    assert (found.kind.value, found.ids) == ("colours-differ", ("a", "b,c"))
    assert found.text.endswith("by who reads whom it is a,b,c")


def test_a_link_that_is_silent_though_frames_wait_is_news(bench, plant):
    """Both ends beat, and nobody else is apart: the way around it is no split. K24, K32."""
    plant.frame("a->b", [0], path=["a"], source="a.in.g")
    plant.beat()
    bench.take()
    state = bench.auditor.state

    def live(seconds: int) -> None:
        for _ in range(0, seconds, 4):
            for node in "ab":
                beat = Heartbeat(1, state.splits.beats[node].number + 1, ready=True)
                state.splits.beat(node, beat, bench.clock_s)
            bench.wait(4)

    live(68)
    findings = state.register.findings
    silent = [one for one in findings.values() if one.kind == "silent-link"]
    assert [(one.link, one.node) for one in silent] == [("a->b", "b")]
    plant.progress("b", "a.to.b.g", 0, 1)
    bench.take()
    live(8)
    assert silent[0].id not in findings


def test_what_was_deleted_before_it_could_be_read_is_unproven(bench, plant):
    """The auditor says what it cannot prove."""
    plant.publish("a", "acme/x", 5)
    assert found(bench) == []
    bench.begins[TopicPartition("mesh.a.in.g", 0)] = 8
    bench.wait(60)
    plant.publish("a", "acme/x", 1)
    assert found(bench) == [("unproven", "", "", 5, 7)]


def test_what_is_deleted_before_it_is_read_again_is_unproven_and_not_unexpected(bench, plant):
    """A block that stays open for days is read again for what is new alone."""
    plant.carry(2, [])
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.deliver("c/s1", [0], ["a", "b", "c"])
    plant.carry(2, ["c/s1"])
    assert found(bench) == []
    bench.begins[TopicPartition("mesh.a.in.g", 0)] = 4
    plant.carry(2, ["c/s1"])
    assert found(bench) == []
    assert [(one.expected, one.equal) for one in bench.certificates.values()] == [(5, True)]


def test_a_fresh_auditor_on_an_old_mesh_judges_nothing_that_it_could_not_read(bench, plant):
    """Ingress is trimmed, deliveries of what was there are not. Spec: K5."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(50, ["c/s1"])
    bench.begins[TopicPartition("mesh.a.in.g", 0)] = 30
    bench.taken["mesh.a.in.g", 0] = 30
    assert found(bench) == [("unproven", "", "", 0, 29)]
    assert bench.certificates == {}


def test_a_topic_of_a_node_that_no_topology_knows_ends_nothing(bench, plant):
    """Anybody who may make topics can make one."""
    plant.put("zz.in.g", 0, b"k", b"v", [("mesh-subject", b"acme/x")])
    places = [TopicPartition("mesh.zz.in.g", 0)]
    assert bench.auditor.kafka_clusters.beginnings(places) == {}
    assert found(bench) == []


def test_what_is_read_late_is_not_missing(bench, plant):
    """Every hop says that it has passed, and the deliveries of the same transaction wait to be
    read: a batch is shared out by backlog, and not by time."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[2])
    bench.take("mesh.c.ep.s1")
    bench.wait(100)
    assert bench.auditor.state.register.findings == {}
    (waiting,) = bench.auditor.state.certifier.waiting
    assert waiting.reason == "what c wrote to be read: mesh.c.ep.s1/0 up to 0 of 4"
    assert found(bench) == [("missing", "c/s1", "", 2, 2)]


def test_a_kafka_cluster_that_is_not_read_holds_up_its_own_alone(bench, plant):
    """What c gets waits, what b gets is judged; nothing is missing for that."""
    for node in ("b", "c"):
        plant.cuts_everywhere(node, plant.subscribe(node, "s1", "acme/>"))
    plant.carry(5, ["b/s1", "c/s1"], lost=[1])
    bench.auditor.kafka_clusters.unread["k2"] = "it does not answer"
    assert found(bench) == [("missing", "b/s1", "", 1, 1)]
    status = json.loads([one.value for one in bench.outputs if one.topic.endswith("status")][-1])
    assert status["sources"]["k2"]["unread"] == "it does not answer"
    bench.auditor.kafka_clusters.unread.clear()
    bench.wait(5)
    assert found(bench) == [("missing", "b/s1", "", 1, 1), ("missing", "c/s1", "", 1, 1)]


def test_a_topic_of_the_same_name_elsewhere_counts_for_nothing(bench, plant, spark):
    """What lies in k2 under the name of an endpoint of b, which is in k1."""
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(3, ["b/s1"], lost=[1])
    assert found(bench) == [("missing", "b/s1", "", 1, 1)]
    elsewhere = Plant()
    elsewhere.deliver("b/s1", [1], ["a", "b"])
    number = bench.auditor.state.batches.get("k2", -1) + 1
    bench.auditor.take(kafka_frame(spark, elsewhere), "k2", number)
    assert found(bench) == [("missing", "b/s1", "", 1, 1)]


def test_the_id_of_a_topic_is_what_its_broker_says(bench, plant):
    """A node that calls its topics by other ids does not make deliveries under these right."""
    bench.ids["mesh.a.in.g"] = "5" * 32
    plant.cuts_everywhere("b", plant.subscribe("b", "s1", "acme/>"))
    plant.publish("a", "acme/x", 3)
    plant.deliver("b/s1", [0, 1, 2], ["a", "b"])
    bench.take()
    bench.wait(70)
    kinds = {one.kind.value: one.count for one in bench.auditor.state.register.findings.values()}
    assert kinds["forged-origin"] == 3


def test_what_was_written_just_before_a_crash_is_taken_back_after_it(bench, plant):
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[4])
    with pytest.raises(KeyboardInterrupt):
        bench.crash_after_writing("mesh.audit.findings")
    bench.restart()
    plant.deliver("c/s1", [4], ["a", "b", "c"])
    assert found(bench) == []
    written = [one.value for one in bench.outputs if one.topic == "mesh.audit.findings"]
    assert written[-1] is None


def test_a_restart_repeats_nothing_and_forgets_nothing(bench, plant):
    """The state beside the checkpoint: chains, certificates and findings go on."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[4])
    assert found(bench) == [("missing", "c/s1", "", 4, 4)]
    bench.auditor.judge(is_last=True)
    before = bench.auditor.state
    bench.outputs.clear()
    bench.restart()
    before.register.run = bench.auditor.run
    before.certifier.blocks.rest(bench.clock_s, 0.0)
    before.register.now_ms = bench.auditor.state.register.now_ms
    before.links.moving = bench.auditor.state.links.moving  # is told once more: by now they rest
    before.splits.until = bench.auditor.state.splits.until  # goes on with the time
    assert bench.auditor.state == before
    plant.carry(5, ["c/s1"])
    assert found(bench) == [("missing", "c/s1", "", 4, 4)]
    assert [one for one in bench.outputs if one.topic == "mesh.audit.findings"] == []


def test_a_source_that_stopped_is_a_gap_and_its_announcement_no_delivery(bench, plant):
    """The control topic tells topic, partition and exact range. Spec: R6, DESIGN 6."""
    plant.subscribe("c", "s1", "acme/>")
    stop = Stop("mesh.a.to.b.g", 1, topic_id("mesh.a.to.b.g"), "retention", 70, 90)
    plant.put("b.control", 0, stop_key(stop.topic, stop.partition), encode_stop(stop))
    plant.put("c.ep.s1", 0, None, None, [("mesh-gap", b"{}")])
    assert found(bench) == [("gap", "a->b", "", 70, 89)]
    plant.put("b.control", 0, stop_key(stop.topic, stop.partition), None)
    assert found(bench) == [("gap", "a->b", "", 70, 89)]
