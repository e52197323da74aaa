"""An auditor that has much to read knows who has subscribed before that is read in its turn."""

from __future__ import annotations

import pytest

from streaming.audits.interest import EndpointKey
from tests.component.streaming.plain_bench import PlainBench
from tests.streaming.planted import Plant

CLIENTS = "mesh.c.clients"


@pytest.fixture
def bench(tmp_path):
    plant = Plant()
    plant.identities()
    plant.want_all()
    version = plant.subscribe("c", "s1", "acme/>")
    plant.cuts_everywhere("c", version)
    plant.carry(3, ["c/s1"])
    made = PlainBench(None, plant, tmp_path)
    made.auditor.offsets_max = 1
    return made


def test_what_clients_ask_for_further_on_is_known_and_comes_again(bench):
    bench.take(CLIENTS)
    subscriptions = bench.auditor.state.interest.subscriptions
    assert [one.removed for one in subscriptions[EndpointKey("c", "s1")]] == [None]
    end = bench.plant.subscribe("c", "s1", "acme/>", None)
    bench.take()
    assert [one.removed for one in subscriptions[EndpointKey("c", "s1")]] == [end]


def test_who_has_read_all_takes_nothing_early(bench):
    bench.auditor.offsets_max = 1_000_000
    bench.take(CLIENTS)
    assert not [one for one in bench.auditor.state.interest.subscriptions if one.node == "c"]


def test_what_was_certified_by_it_is_certified_still(bench):
    bench.take(CLIENTS)
    bench.auditor.offsets_max = 1_000_000
    assert bench.settle() == []
    [certificate] = bench.certificates.values()
    assert certificate.equal
    assert certificate.delivered == 3


@pytest.mark.parametrize("others", [[], ["s3"]], ids=["first", "behind an end"])
def test_what_came_by_it_takes_no_room_among_what_nobody_may_have_requested(
    bench, monkeypatch, others
):
    """A larger mesh has more of it in its first batch than may wait: it was unproven."""
    monkeypatch.setattr("streaming.audits.unwanted_deliveries.HELD_MAX", 0)
    for endpoint in others:
        bench.plant.subscribe("c", endpoint, "acme/>", None)
    bench.plant.subscribe("c", "s2", "acme/>", b'{"class": "direct"}')
    bench.plant.publish("a", "acme/x", 3, letter="d")
    bench.plant.deliver("c/s2", [0, 1, 2], ["a", "b", "c"], origin="a.in.d")
    bench.take(CLIENTS)
    assert bench.auditor.state.register.findings == {}
    bench.auditor.offsets_max = 1_000_000
    assert bench.settle() == []
    assert bench.auditor.state.unwanted.ahead == {}
