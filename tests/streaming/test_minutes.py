"""What the auditor keeps of the past: links by the minute, subscriptions that ended."""

from __future__ import annotations

import json

import pytest

from mesh.model.control import Ownership, Scope
from mesh.wire.keys import advert_key
from tests.streaming.planted import NEW_YEAR_MS

pytestmark = pytest.mark.spark

MINUTE_MS = 60_000


def told(bench, table):
    """Return what a topic of the auditor holds, by key."""
    return {
        one.key: json.loads(one.value)
        for one in bench.outputs
        if one.topic == f"mesh.audit.{table}"
    }


def test_what_crosses_links_is_told_by_the_minute(bench, plant):
    """By class, in messages and bytes, with changes of interest and what nobody fetches."""
    first = NEW_YEAR_MS // MINUTE_MS
    plant.beat()
    bench.take()
    plant.at_ms += MINUTE_MS
    plant.carry(5, [])
    plant.frame("a->b", [0, 1], path=["a"], source="a.in.d", letter="d")
    plant.frame("a->b", range(5), path=["a"], source="a.in.g", flags=1, previous=-1)
    for filter_ in ("acme/>", "x", "$node/uuid-b"):
        key = advert_key(Scope("Z", "a", Ownership.OWN), filter_)
        plant.put("b.control", 0, key, b"")
    plant.beat()
    bench.take()
    plant.at_ms += 90_000
    plant.frame("b->c", [7], path=["a", "b"], source="a.to.b.g")
    plant.beat()
    bench.take()
    minutes = told(bench, "minutes")
    assert sorted(minutes) == [f"{of} {first + 1}" for of in ("a->b", "b->c", "k1", "k2")]
    link = minutes[f"a->b {first + 1}"]
    assert {name: link[name] for name in ("guaranteed", "direct", "repairs", "control")} == {
        "guaranteed": 5,
        "direct": 2,
        "repairs": 5,
        "control": 2,
    }
    sizes = [len(one.key) + len(one.value) for one in plant.logs["mesh.a.to.b.g", 0]]
    assert link["guaranteed_bytes"] == sizes[0]
    assert link["from_ms"] == NEW_YEAR_MS + MINUTE_MS
    plant.at_ms += MINUTE_MS
    plant.beat()
    bench.take()
    waits = told(bench, "minutes")[f"b->c {first + 2}"]
    assert (waits["guaranteed"], waits["waited"]) == (1, 1)
    plant.progress("c", "b.to.c.g", 0, 2)
    plant.at_ms += MINUTE_MS
    plant.beat()
    bench.take()
    bench.wait(1)
    assert told(bench, "minutes")[f"b->c {first + 3}"]["waited"] == 1


def test_a_subscription_that_ended_stays_on_record_with_its_times(bench, plant):
    """A lease that is renewed is one subscription, one that stops to attract is another one."""
    plant.subscribe("c", "s1", "acme/>")
    plant.at_ms += 1_000
    plant.subscribe("c", "s1", "acme/>", b'{"lease_s": 30}')
    plant.at_ms += 1_000
    plant.subscribe("c", "s1", "acme/>", b'{"class": "direct"}')  # nodes refuse it: K13
    plant.subscribe("c", "s1", "acme/>", b'{"noexport": true}')
    bench.take()
    plant.at_ms += 1_000
    plant.subscribe("c", "s1", "acme/>", None)
    bench.take()
    assert [
        (one["endpoint"], one["filter"], one["noexport"], one["from_ms"], one["to_ms"])
        for one in told(bench, "subscriptions").values()
    ] == [
        ("c/s1", "acme/>", False, NEW_YEAR_MS, NEW_YEAR_MS + 2_000),
        ("c/s1", "acme/>", True, NEW_YEAR_MS + 2_000, NEW_YEAR_MS + 3_000),
    ]
