"""The certifier alone: digests, verdicts, cases and what waits. Spec: K29, K30."""

from __future__ import annotations

import re

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Stop, Subscription
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.interest_inputs import CHANGE
from mesh.model.state import Cut
from streaming.audits.block_judgements import claimed_of
from streaming.audits.cases import CaseOutcome, Want
from streaming.audits.certificates import RENEW_MS
from streaming.audits.eras import Eras
from streaming.audits.hours import HOUR_MS
from streaming.audits.interest import EndpointKey, Interest
from streaming.audits.late_cases import copy_cases, late_cases, unreadable
from streaming.audits.settlement import put_off
from streaming.audits.unplaced_deliveries import CLASSES, RETAIN_S
from streaming.tables.rows import DeliveryRow, IngressRow, SourceKey, TopicPartition
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
    SOURCE,
    SPY,
    TARGET,
    Table,
    digest,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


def is_wanted(want: Want, subject: str) -> bool:
    """Return what Java would."""
    return re.search(want.pattern.replace("\\z", "\\Z"), subject) is not None


def test_equal_digests_are_certified_when_quiet(table):
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.judge(1.0)
    assert table.issued() == []
    assert [one.reason for one in table.certifier.waiting] == ["news to settle"]
    table.judge(1.0)
    assert table.issued() == [(3, 3, True, True)]
    table.judge(60.0)
    assert table.issued() == []
    assert table.certifier.waiting == []


def test_the_last_judgement_waits_for_nothing(table):
    table.publish(0)
    table.deliver(0)
    table.judge(0.1, is_last=True)
    assert table.issued() == [(1, 1, True, True)]


def test_one_message_for_another_is_not_equal(table):
    """The same count is not enough."""
    table.publish(0, 1)
    table.deliver(0, 0)
    table.judge()
    assert table.issued() == []
    assert [one.endpoint for one in table.certifier.waiting] == ["a/s1"]


def test_a_message_that_comes_twice_does_not_cancel_out(table):
    """Exclusive or alone would not see a message that comes three times."""
    table.publish(0, 1)
    table.deliver(0, 1, 1, 1)
    table.judge()
    assert table.issued() == []


def test_nothing_is_certified_where_nothing_was_wanted(table):
    table.publish(0, 1, subject="other/x")
    table.publish(2, subject=None)
    table.judge()
    assert table.issued() == []
    assert table.certifier.waiting == []


def test_late_messages_wait_until_every_hop_has_passed_and_are_then_read_one_by_one(table):
    table.publish(0, 1)
    table.deliver(0)
    for _ in range(20):
        assert table.judge(100.0) == []
    table.pass_to(2)
    outcome = CaseOutcome(2, 1, missing=1, missing_offsets=(1,))
    cases = [case for _ in range(4) for case in table.judge(5.0, outcome)]
    assert [(case.first, case.last, case.is_passed) for case in cases] == [(0, 1, True)]
    assert table.issued() == [(2, 1, False, True)]
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.ids) == ("missing", ("mesh.a.in.g/0/0/1",))
    assert table.judge(100.0) == []
    table.deliver(1)
    table.judge()
    assert table.issued() == [(2, 2, True, True)]
    assert table.world.register.findings == {}


def test_what_came_after_the_bound_of_a_ticket_is_looked_at_with_the_next_one(table):
    """A delivery ahead of its ingress had one opened that ends before what is lost. Spec: K30."""
    table.cut(0)
    table.publish(0, 1)
    table.deliver(0, 1)
    table.pass_to(2)
    table.judge()
    table.world.ends = lambda _: {PLACE: 4}
    table.deliver(2)
    table.judge()
    table.publish(2, 3)
    table.world.read[PLACE] = 4
    table.pass_to(4)
    (case,) = table.judge(outcome=CaseOutcome(2, 2))
    assert case.last == 1
    assert table.certifier.waiting != []
    (case,) = table.judge(outcome=CaseOutcome(2, 1, missing=1, missing_offsets=(3,)))
    assert (case.first, case.last) == (2, 3)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.first) == (FindingKind.MISSING, 3)


def test_before_a_cut_only_the_messages_tell_and_are_read_at_once(table):
    """Some must come and some may: no digest says which came."""
    table = Table()
    table.cut(2)
    table.publish(0, 1, 2, 3)
    table.deliver(1, 2, 3)
    (case,) = table.judge(3.0, CaseOutcome(3, 3))
    assert not case.is_passed
    assert [(want.first, want.last, want.is_must) for want in case.wants] == [
        (0, 4095, False),
        (2, 4095, True),
    ]
    assert table.issued() == [(3, 3, True, True)]
    assert table.judge(3.0) == []
    assert table.certifier.waiting == []


def test_what_may_come_is_equal_with_all_of_it_and_with_none(table):
    table = Table()
    table.cut(10)
    table.publish(0, 1)
    table.judge()
    assert table.issued() == []
    table.deliver(0, 1)
    table.judge()
    assert table.issued() == [(2, 2, True, True)]


def test_a_cut_that_is_read_late_is_looked_at_again(table):
    table = Table()
    table.publish(0, 1)
    table.deliver(0, 1)
    table.judge()
    assert table.issued() == [(2, 2, True, True)]
    table.cut(1)
    table.publish(2)
    (case,) = table.judge(3.0, CaseOutcome(3, 2, missing=1, missing_offsets=(2,)))
    assert [want.first for want in case.wants if want.is_must] == [1]
    assert table.issued() == []
    assert [one.endpoint for one in table.certifier.waiting] == ["a/s1"]


def test_where_own_clients_left_their_lane_has_to_tell(table):
    """As long as it had not, nothing was owed of what had come before: a loss was certified."""
    nodes = {name: {} for name in "ab"}
    topology = topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": {}})
    table.world.eras = Eras.of(topology)
    table.publish(0, 1, 2)
    table.deliver(0, 1)
    table.world.interest.unsubscribe(ENDPOINT, "acme/>", 5)
    assert table.judge() == []
    assert table.issued() == []
    assert [*table.certifier.undecided] == [ENDPOINT]
    table.cut(3, 5)
    table.pass_to(3)
    (case,) = table.judge(outcome=CaseOutcome(3, 2, missing=1, missing_offsets=(2,)))
    assert case.is_passed
    assert table.issued() == [(3, 2, False, True)]


def test_a_busy_block_is_certified_every_four_seconds(table):
    """Else what is lost under a trickle would show late. Spec: K29."""
    for offset in range(7):
        table.publish(offset)
        table.deliver(offset)
        table.judge(1.0)
    assert len(table.issued()) == 1


def test_a_full_block_is_closed_and_forgotten_but_what_comes_late_is_not_lost(table):
    table.publish(0, 1)
    table.deliver(0, 1)
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    assert table.issued() == [(2, 2, True, False), (1, 1, True, True)]
    table.judge(20.0)
    assert list(table.certifier.blocks.open[PLACE]) == [1]
    table.deliver(1)
    assert list(table.certifier.blocks.open[PLACE]) == [1]


@pytest.mark.parametrize("stray", [4097, 9 * 4096])
def test_a_delivery_ahead_of_the_ingress_closes_no_block(table, stray):
    """What was published to it afterwards, and lost, was told by nobody: it had been forgotten."""
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.deliver(stray)
    unasked = CaseOutcome(0, 1, unexpected=1, unexpected_offsets=(stray,))
    table.judge(3.0, unasked)
    assert (3, 3, True, True) in table.issued()
    for _ in range(3):
        table.judge(11.0, unasked)
    table.publish(3, 4, 5)
    table.pass_to(6)
    lost = CaseOutcome(6, 3, missing=3, missing_offsets=(3, 4, 5))
    cases = [case for _ in range(4) for case in table.judge(5.0, lost)]
    assert [(case.block, case.is_passed) for case in cases if case.block == 0] == [(0, True)]
    assert (6, 3, False, True) in table.issued()
    assert "missing" in [one.kind for one in table.world.register.findings.values()]


def test_a_block_that_was_read_to_its_end_is_closed_and_forgotten(table):
    """Its last offsets may be no messages, and none may follow."""
    table.publish(0, 1)
    table.deliver(0, 1)
    table.world.read[PLACE] = 4096
    table.pass_to(2)
    table.judge()
    assert table.issued() == [(2, 2, True, False)]
    table.judge(20.0)
    assert table.certifier.blocks.dropped == {PLACE: 0}


def test_a_block_is_not_forgotten_before_its_lane_has_routed_it(table):
    """A lane that stands still may yet learn of a subscription, and owe it all of the block."""
    table = Table()
    table.publish(0, 1)
    table.publish(4096)
    for _ in range(5):
        table.judge(20.0)
    assert table.issued() == []
    table.cut(0)
    table.pass_to(4097)
    lost = CaseOutcome(2, 0, missing=2, missing_offsets=(0, 1))
    cases = [case for _ in range(3) for case in table.judge(5.0, lost)]
    assert [(case.block, case.is_passed) for case in cases] == [(0, True), (1, True)]


def closed(table) -> None:
    """Have block 0, of five messages, certified for good."""
    table.publish(*range(5))
    table.deliver(*range(5))
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    table.judge(11.0)
    assert table.certifier.blocks.dropped == {PLACE: 0}
    table.issued()


def test_what_comes_of_a_block_that_was_forgotten_is_asked_whose_it_is(table):
    """It was dropped without a word, also at an endpoint that had asked for nothing."""
    closed(table)
    table.deliver(*range(3), to=SPY)
    table.deliver(2, 4)
    assert table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S - 1) == {}
    spy, known = late_cases(
        table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S), table.world
    )
    assert (str(spy.endpoint), spy.first, spy.last, spy.wants) == ("a/spy", 0, 2, ())
    assert list(spy.records) == [EndpointKey("a", "spy")]
    assert (known.first, known.last, known.delivered_last) == (2, 4, 4)
    (want,) = known.wants
    assert (is_wanted(want, "acme/x"), want.is_must) == (True, False)
    assert spy.evidence == ("mesh.a.ep.spy/0@0-9",)


def test_what_comes_late_and_cannot_be_read_any_more_is_unproven(table):
    closed(table)
    table.deliver(2, to=SPY)
    ripe = table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S)
    assert list(unreadable(ripe, {PLACE: 2})) == []
    ((key, finding),) = unreadable(ripe, {PLACE: 3})
    assert (key.block, finding.kind, finding.endpoint) == (0, "unproven", "a/spy")


def test_what_was_not_all_read_is_not_judged_late_either(table):
    """That it is unproven has been told."""
    table.certifier.blocks.skip(PLACE, 5000)
    table.deliver(4097, to=SPY)
    table.publish(1)
    assert table.certifier.blocks.unplaced.late == table.certifier.blocks.open == {}


def test_a_full_block_is_kept_until_all_kafka_clusters_are_read_so_far(table):
    """Who asks for it, and what came of it, may be read later: it used to be forgotten uncertified.

    The endpoint and its subscription are in a Kafka cluster that is read more slowly.
    """
    table.world.interest.subscriptions.clear()
    table.world.read_s = table.at_s
    table.publish(0, 1)
    table.publish(4096)
    table.pass_to(2)
    table.judge()
    table.judge(100.0)
    assert list(table.certifier.blocks.open[PLACE]) == [0, 1]
    table.world.interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    table.deliver(0, 1)
    table.judge()
    assert table.issued() == [(2, 2, True, False)]
    table.judge(20.0)
    table.world.read_s = table.at_s
    table.judge()
    assert list(table.certifier.blocks.open[PLACE]) == [1]


def test_what_was_missing_is_taken_back_where_nothing_had_to_come(table):
    """A topology that was read late brings the end of a walk: nobody was owed what it carried."""
    plan = {"kafka": {"k": {}}, "nodes": {"a": {}, "b": {}}}
    links = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}
    joined, apart = (topology_from_mapping({**plan, "zones": zones}) for zones in (links, {}))
    eras, interest = Eras.of(joined), table.world.interest
    remote = EndpointKey("b", "s1")
    interest.subscribe(remote, "acme/>", Subscription(), 0)
    interest.unsubscribe(ENDPOINT, "acme/>", 1)
    table.world.names.uuids["b"] = "v"
    table.world.eras = eras
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "v", 0))
    table.publish(0, 1)
    table.pass_to(2)
    table.judge(outcome=CaseOutcome(2, 0, missing=2, missing_offsets=(0, 1)))
    assert [one.kind for one in table.world.register.findings.values()] == ["missing"]
    assert table.issued() == [(2, 0, False, True)]
    eras.cut(Cut(PLACE.topic, bytes(16), 0, 0, CHANGE, 1))
    assert eras.configured(1, published_text(apart), 0.0)
    interest.changes += 1
    table.judge()
    assert table.world.register.findings == {}
    assert table.issued() == [(0, 0, True, True)]


def test_the_rest_of_a_block_begins_anew_in_another_process(table):
    """Its clock may be far behind."""
    table.publish(0, subject="other/x")
    table.publish(4096, subject="other/x")
    table.pass_to(4097)
    table.judge()
    table.at_s = 3.0
    table.certifier.blocks.rest(table.at_s, 0.0)
    table.judge(1.0)
    assert list(table.certifier.blocks.open[PLACE]) == [0, 1]
    table.judge(20.0)
    assert list(table.certifier.blocks.open[PLACE]) == [1]


def test_closed_blocks_are_summed_up_by_the_hour(table):
    """What is left of certificates once they are deleted. Spec: K29."""
    table.world.register.now_ms = 5 * HOUR_MS + 7
    table.publish(0, 1)
    table.deliver(0, 1)
    table.publish(4096)
    table.deliver(4096)
    table.pass_to(4097)
    table.judge()
    hours = table.certifier.hours
    assert list(hours.take(table.world.register.now_ms)) == []
    table.judge(20.0)
    later_ms = table.world.register.now_ms + 60_000
    ((key, hour),) = hours.take(later_ms)
    assert (key.source, key.endpoint, key.hour) == ("mesh.a.in.g/0", "a/s1", 5)
    assert (hour.certificates, hour.differing, hour.expected, hour.delivered) == (1, 0, 2, 2)
    assert list(hours.take(later_ms + HOUR_MS)) == []
    assert hours.sums == {}


def test_certificates_of_blocks_that_stay_open_are_written_again_before_they_are_deleted(table):
    table.publish(0)
    table.deliver(0)
    table.judge()
    assert len(table.issued()) == 1
    table.judge()
    assert table.issued() == []
    table.world.register.now_ms += RENEW_MS
    table.judge()
    assert len(table.issued()) == 1


def test_a_delivery_of_a_source_that_nobody_named_is_parked(table):
    stranger = SourceKey("bb", 0)
    table.deliver(0, source=stranger)
    assert len(table.certifier.blocks.unplaced.parked) == 1
    assert list(table.certifier.blocks.unplaced.forged("mesh.", table.at_s + 59.0)) == []
    table.world.names.topics["bb"] = PLACE.topic
    table.publish(0)
    table.certifier.blocks.deliver([], table.world.names, table.at_s)
    table.judge()
    assert table.issued() == [(1, 1, True, True)]


def test_what_is_parked_grows_with_blocks_and_not_with_batches(table):
    """A Kafka cluster that cannot be read names none of its topics, however long that takes."""
    for offset in (*range(100), 4096):
        table.deliver(offset, source=SourceKey("bb", 0))
    parked = table.certifier.blocks.unplaced.parked
    assert [len(rows) for _, rows in parked.values()] == [2]
    table.world.names.tell(PLACE.topic, "bb")
    table.deliver(4097, source=SourceKey("bb", 0))
    blocks = table.certifier.blocks.open[PLACE]
    assert [one.receipts[ENDPOINT].digest.count for one in blocks.values()] == [100, 2]


def test_deliveries_of_a_source_that_no_kafka_cluster_has_are_forged(table):
    """They used to pile up without a word."""
    table.deliver(0, 3, source=SourceKey("bb", 0))
    table.deliver(7, source=SourceKey("bb", 0))
    (finding,) = table.certifier.blocks.unplaced.forged("mesh.", table.at_s + 61.0)
    assert (finding.kind, finding.endpoint, finding.count) == ("forged-origin", "a/s1", 3)
    assert finding.ids == ("bb/0/0/0-7",)
    assert table.certifier.blocks.unplaced.parked == {}


def test_a_case_that_cannot_be_read_just_now_is_put_off(table):
    """A Kafka cluster that does not answer makes no finding, and settles nothing."""
    table.publish(0, 1)
    table.deliver(0)
    table.pass_to(2)
    for _ in range(2):
        table.at_s += 5.0
        certification = table.certifier.judge(table.world, table.at_s)
        (case,) = certification.cases
        put_off(certification, case)
        table.certifier.finish(certification)
        assert [one.reason for one in table.certifier.waiting] == ["a Kafka cluster to answer"]
    (case,) = table.judge(5.0, CaseOutcome(2, 1, missing=1, missing_offsets=(1,)))
    assert table.issued() == [(2, 1, False, True)]


def mixed(table) -> None:
    """Have a subscription begin in the middle of a block, and two messages around it read."""
    table.cut(3)
    table.publish(0, 1, 2, 3)
    table.deliver(1, 3)
    (case,) = table.judge(3.0, CaseOutcome(2, 2))
    assert (case.first, case.before) == (0, None)
    table.publish(4)
    table.deliver(4)


def test_what_was_found_equal_is_not_read_again(table):
    """Its records are trimmed while the block stays open, and all of it was unexpected then."""
    table = Table()
    mixed(table)
    (case,) = table.judge(3.0, CaseOutcome(1, 1, begin=4))
    assert (case.first, case.last, case.before.last) == (4, 4, 3)
    assert [(want.first, want.is_must) for want in case.wants] == [(4, False), (4, True)]
    assert table.issued() == [(3, 3, True, True)]
    assert table.world.register.findings == {}


@pytest.mark.parametrize("news", ["delivery", "cut", "generation", "publication"])
def test_news_of_what_was_found_equal_have_it_read_again(news):
    table = Table()
    mixed(table)
    if news == "delivery":
        table.deliver(0)
    elif news == "publication":
        table.publish(3)
    elif news == "cut":
        table.world.interest.subscribe(ENDPOINT, "*/x", Subscription(), 1)
        table.cut(3, 1)
    else:
        table.world.progress.generations.tell(SOURCE, 1, 3)
    (case,) = table.judge(3.0, CaseOutcome(4, 4))
    assert (case.first, case.before) == (0, None)


def test_what_is_trimmed_before_it_can_be_read_again_is_unproven_and_not_unexpected(table):
    table = Table()
    mixed(table)
    table.deliver(0)
    assert len(table.judge(3.0, CaseOutcome(2, 2, begin=3))) == 1
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.first, finding.last, finding.count) == ("unproven", 0, 2, 3)
    assert [one.first for one in table.certifier.unpublished.values()] == [3]
    assert table.certifier.blocks.open[PLACE][0].proven == {}


def test_what_is_read_again_begins_where_its_blocks_began(table):
    """Not at the beginning of the endpoint's log, as long as that is known."""
    blocks = table.certifier.blocks
    assert blocks.begin_of(PLACE, TARGET, 0) == 0
    for first, record in ((0, 5), (4096, 70), (8192, 40)):
        row = DeliveryRow(
            place=TARGET,
            source=SOURCE,
            generation=0,
            path=("a",),
            block=first // 4096,
            digest=digest(first),
            first=first,
            last=first,
            record_first=record,
            record_last=record,
            late=0,
        )
        blocks.deliver([row], table.world.names, table.at_s)
    assert [blocks.begin_of(PLACE, TARGET, one) for one in (9, 4100, 8200)] == [5, 40, 40]
    blocks.dropped[PLACE] = 0
    assert blocks.begin_of(PLACE, TARGET, 9) == 0


@pytest.mark.parametrize("is_again", [False, True])
def test_digests_do_not_certify_a_generation_that_nobody_told_of(table, is_again):
    """A lane that delivers all again under another generation, or a single copy of one."""
    table.publish(0, 1)
    if is_again:
        table.deliver(0, 1)
    table.deliver(0, 1, generation=1)
    table.pass_to(2)
    outcome = CaseOutcome(2, 2, unexpected=2, unexpected_offsets=(0, 1))
    cases = [case for _ in range(4) for case in table.judge(5.0, outcome)]
    assert {case.generations for case in cases} == {((0, 0),)}
    assert [one[2] for one in table.issued()] == [False]
    assert [one.kind for one in table.world.register.findings.values()] == ["unexpected"]


def test_once_a_generation_is_told_of_its_copies_are_read_and_certified(table):
    """Also where the delivery was read before its reader's progress. Spec: K9."""
    table.publish(0, 1, 2)
    table.deliver(0)
    table.deliver(1, 2, generation=1)
    (case,) = table.judge(3.0, CaseOutcome(3, 3, unexpected=2, unexpected_offsets=(1, 2)))
    assert table.issued() == []
    stop = Stop(PLACE.topic, 0, b"\xaa", "truncated", 1, 3)
    assert table.world.progress.generations.stop(stop)
    table.world.interest.changes += 1
    (case,) = table.judge(3.0, CaseOutcome(3, 3))
    assert case.generations == ((0, 0), (1, 1))
    assert table.issued() == [(3, 3, True, True)]


def test_direct_messages_are_not_certified(table):
    table.world.names.topics["dd"] = "mesh.a.in.d"
    table.deliver(0, source=SourceKey("dd", 0))
    assert table.certifier.blocks.open == {}


def test_what_came_of_a_subscription_of_which_only_the_end_is_left_is_expected(table):
    """A fresh auditor reads `clients` as compaction has left it: it may come, and need not."""
    interest = table.world.interest = Interest()
    interest.unsubscribe(ENDPOINT, "acme/>", 7)
    interest.unsubscribe(ENDPOINT, "acme/>", 8)
    assert len(interest.subscriptions[ENDPOINT]) == 1
    table.cut(0, 7)
    table.publish(0, 1, 2)
    table.deliver(0, 1, 2)
    table.pass_to(9)
    assert table.judge(5.0) == table.judge(5.0) == []
    assert not table.world.register.findings


@pytest.mark.parametrize("filter_", ["other/>", None], ids=["something else", "nothing"])
def test_guaranteed_messages_at_an_endpoint_that_is_promised_none_are_judged(table, filter_):
    """They were nobody's to judge where there is a direct subscription."""
    if filter_ is not None:
        asked = Subscription(message_class=MessageClass.DIRECT)
        table.world.interest.subscribe(EndpointKey("a", "spy"), filter_, asked, 1)
    table.publish(0, 1)
    table.deliver(0, 1)
    table.deliver(0, 1, to=SPY)
    table.pass_to(2)
    outcome = CaseOutcome(0, 2, unexpected=2, unexpected_offsets=(0, 1))
    cases = [case for _ in range(4) for case in table.judge(5.0, outcome)]
    assert {str(case.endpoint) for case in cases} == {"a/spy"}
    assert not any(is_wanted(want, "acme/x") for case in cases for want in case.wants)
    found = [(one.kind, one.endpoint) for one in table.world.register.findings.values()]
    assert found == [("unexpected", "a/spy")]


def test_a_direct_endpoint_may_have_any_of_what_it_asks_for_and_is_not_certified(table):
    """While its node is live it gets guaranteed messages too, and none is promised. DESIGN 6."""
    asked = Subscription(message_class=MessageClass.DIRECT)
    table.world.interest.subscribe(EndpointKey("a", "spy"), "acme/>", asked, 1)
    table.publish(0, 1)
    table.deliver(0, 1)
    table.deliver(1, to=SPY)
    (case,) = table.judge(3.0, CaseOutcome(1, 1))
    assert [want.is_must for want in case.wants] == [False]
    assert table.judge() == []
    assert {key.split()[-1] for key in table.certifier.unpublished} == {"a/s1"}
    assert not table.world.register.findings
    assert table.certifier.waiting == []


@pytest.mark.parametrize(("source", "said"), [("g", "direct"), ("d", "guaranteed")])
def test_the_ingress_tells_the_class_and_another_label_is_unexpected(table, source, said):
    """A direct message labelled guaranteed was judged by no audit at all."""
    table.world.names.topics["dd"] = f"mesh.a.in.{source}"
    table.deliver(0, source=SourceKey("dd", 0), message_class=CLASSES[source])
    assert table.certifier.blocks.unplaced.take_findings() == []
    table.deliver(3, source=SourceKey("dd", 0), message_class=said)
    table.judge(0.0)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.endpoint, finding.first) == ("unexpected", "a/s1", 3)
    assert finding.text.endswith(f"say they are {said}")


def test_what_nobody_published_is_unexpected(table):
    table.publish(0)
    table.deliver(0, 5)
    table.pass_to(1)
    outcome = CaseOutcome(1, 2, unexpected=1, unexpected_offsets=(5,))
    cases = [case for _ in range(5) for case in table.judge(5.0, outcome)]
    assert [case.delivered_last for case in cases] == [4095]
    assert [one.kind for one in table.world.register.findings.values()] == ["unexpected"]


@pytest.mark.parametrize(("letter", "message_class"), [("g", "guaranteed"), ("d", "direct")])
def test_what_says_it_comes_from_no_ingress_is_forged(table, letter: str, message_class: str):
    """Brokers know the topic, and the class is right: so nothing else is said of direct ones."""
    table.world.names.topics["bb"] = f"mesh.a.to.b.{letter}"
    table.deliver(3, 4, source=SourceKey("bb", 0), message_class=message_class)
    table.judge()
    (finding,) = table.world.register.findings.values()
    assert finding.kind is FindingKind.FORGED_ORIGIN
    assert (finding.endpoint, finding.source) == ("a/s1", f"mesh.a.to.b.{letter}/0")
    assert (finding.ids, finding.count) == ((f"mesh.a.to.b.{letter}/0/0/3-4",), 2)
    assert not table.certifier.blocks.open


def test_what_came_late_is_looked_for_in_the_other_partitions_of_its_endpoint(table):
    """Order tells of a second copy in one partition; in another it was certified and forgotten."""
    closed(table)
    table.deliver(2, 4)
    ripe = table.certifier.blocks.unplaced.ripe(table.at_s + RETAIN_S)
    cases = late_cases(ripe, table.world)
    table.world.read = {TARGET: 12, TopicPartition(SPY.topic, 1): 5}
    assert copy_cases(ripe, cases, table.world) == {}
    table.world.read[TopicPartition(TARGET.topic, 1)] = 3
    table.world.read[TopicPartition(TARGET.topic, 2)] = 0
    (case,) = copy_cases(ripe, cases, table.world).values()
    assert case.records == {ENDPOINT: {0: (0, 11), 1: (0, 2)}}
    assert (case.first, case.last, case.wants) == (2, 4, ())


def test_filters_that_were_left_are_known_while_a_block_needs_them() -> None:
    """What came by them would be unexpected; a block may stay open for ever."""
    table = Table()
    interest = table.world.interest
    table.cut(0)
    for number in range(40):
        interest.subscribe(ENDPOINT, f"reply/{number}", Subscription(), 2 * number + 1)
        table.publish(number, subject=f"reply/{number}")
        table.deliver(number)
        interest.unsubscribe(ENDPOINT, f"reply/{number}", 2 * number + 2)
    table.publish(40)
    table.deliver(40)
    replies = {f"reply/{number}" for number in range(40)}
    needed = claimed_of(table.certifier.blocks, table.world, ENDPOINT, {*replies, "reply/99"})
    assert set(needed) == replies
    assert claimed_of(table.certifier.blocks, table.world, EndpointKey("a", "x"), replies) == {}


def test_of_a_bundle_in_which_nothing_came_by_it_a_filter_is_forgotten() -> None:
    """Nothing is known of it there, for it came later: it would be kept for ever."""
    table = Table()
    table.cut(0)
    row = IngressRow(PLACE, 0, None, digest(0, 1), 0, 1, "acme/>", 1)
    table.certifier.blocks.publish([row], table.at_s)
    table.deliver(0, 1)
    table.world.interest.filters.know(["acme/>", "late/1"])
    blocks, world = table.certifier.blocks, table.world
    assert claimed_of(blocks, world, ENDPOINT, ["late/1"]) == {}
    table.deliver(2)
    assert set(claimed_of(blocks, world, ENDPOINT, ["late/1"])) == {"late/1"}
