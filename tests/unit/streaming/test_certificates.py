"""The certifier alone: digests, verdicts, cases and what waits. Spec: K29, K30."""

from __future__ import annotations

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Subscription
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.interest_inputs import CHANGE
from mesh.model.state import Cut
from streaming.audits.cases import CaseOutcome
from streaming.audits.certificates import RENEW_MS
from streaming.audits.eras import Eras
from streaming.audits.interest import EndpointKey
from streaming.audits.settlement import put_off
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
    SPY,
    Table,
    is_wanted,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


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


def test_what_nobody_published_is_unexpected(table):
    table.publish(0)
    table.deliver(0, 5)
    table.pass_to(1)
    outcome = CaseOutcome(1, 2, unexpected=1, unexpected_offsets=(5,))
    cases = [case for _ in range(5) for case in table.judge(5.0, outcome)]
    assert [case.delivered_last for case in cases] == [4095]
    assert [one.kind for one in table.world.register.findings.values()] == ["unexpected"]
