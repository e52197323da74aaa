"""What the auditor wrote of minutes and hours gone by, and of subscriptions that ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.operate.audit.link_record import HOUR_MS
from mesh.operate.minutes import MINUTE_MS
from mesh.transport.port import TopicSpec
from mesh.wire.keys import subscription_key
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import CHAIN

TABLES = ("status", "minutes", "link-hours", "subscriptions", "findings", "certificates")
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}


@dataclass
class Past:
    """A mesh whose auditor has written about the time before anybody looked."""

    api: Api

    def __post_init__(self) -> None:
        kafka = self.api.mesh.world.kafka["left"]
        names = [f"mesh.audit.{one}" for one in TABLES]
        specs = [TopicSpec(name=name, partitions=1, settings=BROKER_TIME) for name in names]
        kafka.admin().create(specs)
        self._writer = kafka.writer("auditor")
        self.api.mesh.world.clock.ms += 40 * 24 * HOUR_MS
        self.api.lives(1)
        self.minute_ms = (self.api.live.snapshot.seen.at_ms - 3 * HOUR_MS) // MINUTE_MS * MINUTE_MS

    def says(self, table: str, **value: object) -> None:
        with self.api.turn:
            self._writer.produce(f"mesh.audit.{table}", json.dumps(value).encode(), b"k", 0)
            self._writer.flush()

    def crossed(self, table: str = "minutes", from_ms: int | None = None, **more: object) -> None:
        """Say what crossed a link, or that a Kafka cluster was read, in that minute."""
        span_ms = MINUTE_MS if table == "minutes" else HOUR_MS
        begin = self.minute_ms if from_ms is None else from_ms
        self.says(table, from_ms=begin, to_ms=begin + span_ms, **{"minutes": 1, **more})

    def get(self, path: str, at_ms: int | None = None) -> Any:
        """Ask about a moment in that minute."""
        moment = self.minute_ms + 5_000 if at_ms is None else at_ms
        text = datetime.fromtimestamp(moment / 1000, UTC).isoformat().replace("+00:00", "Z")
        return self.api.get(f"{path}{'&' if '?' in path else '?'}at={text}")

    def rates(self, at_ms: int | None = None) -> Mapping[str, object]:
        return {one["link"]: one["per_s"] for one in self.get("links", at_ms)["items"]}


@pytest.fixture
def past(api_of: MakeApi) -> Past:
    """The chain a-b-c, a on `left`, where its auditor writes; no node runs."""
    return Past(api_of(topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}}), runs=False))


def test_rates_of_then_are_those_that_the_auditor_wrote(past: Past) -> None:
    """Of a link that carried nothing zero, where its Kafka cluster was read; else none is known."""
    past.crossed(link="a->b", guaranteed=120, direct=6, guaranteed_bytes=900, control=2, waited=4)
    past.crossed(kafka="left")
    past.api.lives(6)
    assert past.rates() == {
        "a->b": {"guaranteed": 2.0, "direct": 0.1},
        "b->a": None,
        "b->c": None,
        "c->b": None,
    }
    past.crossed(kafka="right")
    past.api.lives(6)
    assert past.rates()["b->a"] == {"guaranteed": 0.0, "direct": 0.0}
    assert set(past.rates(past.minute_ms - 1).values()) == {None}
    link = past.get("links/a/b")
    assert (link["crossed"]["guaranteed_bytes"], link["crossed"]["control"]) == (900, 2)
    assert (link["crossed"]["waited"], link["over_s"]) == (4, 60)
    assert past.get("links/b/a")["crossed"]["waited"] is None
    assert past.get("links/a/b", past.minute_ms + MINUTE_MS)["minutes"] == [
        {"at_ms": past.minute_ms, "per_s": 2.1}
    ]
    kafka = {one["name"]: one["is_on_record"] for one in past.get("mesh")["kafka"]}
    assert kafka == {"left": True, "right": True}
    assert past.api.get("mesh")["on_record"]["crossed_since_ms"] == past.minute_ms


def test_after_a_day_hours_are_told_over_the_minutes_that_were_read(past: Past) -> None:
    """A month back; half an hour was read, and the mean is over that half."""
    hour_ms = (past.minute_ms - 20 * 24 * HOUR_MS) // HOUR_MS * HOUR_MS
    past.crossed("link-hours", hour_ms, link="a->b", minutes=30, guaranteed=3_600)
    past.crossed("link-hours", hour_ms, kafka="left", minutes=30)
    past.api.lives(6)
    assert past.rates(hour_ms + 59 * MINUTE_MS)["a->b"] == {"guaranteed": 2.0, "direct": 0.0}
    assert past.get("links/a/b", hour_ms)["over_s"] == 1_800
    assert set(past.rates(hour_ms - 1).values()) == {None}


def test_a_record_of_the_future_moves_nothing_out(past: Past) -> None:
    """Odd numbers neither: what is on record stays."""
    past.crossed(link="a->b", guaranteed=60)
    past.crossed(kafka="left")
    past.crossed(from_ms=past.minute_ms + 10**12, kafka="left")
    past.crossed(from_ms=past.minute_ms + 10**12, link="a->b", guaranteed=5)
    past.crossed(from_ms=-5, link="a->b", guaranteed=5)
    past.crossed(link="a->b", guaranteed=-5, direct=2**60, control=1.5)
    past.crossed(link=7, minutes="many")
    past.api.lives(6)
    assert past.rates()["a->b"] == {"guaranteed": 1.0, "direct": 0.0}


def test_an_endpoint_that_ended_is_shown_as_it_was(past: Past) -> None:
    """From when it began until it ended; its filters beside those that hold still."""
    begin, end = past.minute_ms, past.minute_ms + MINUTE_MS
    told = {"kind": "channel", "from_ms": begin, "to_ms": end, "noexport": False}
    past.says("subscriptions", endpoint="c/gone", filter="x/>", **{**told, "class": "direct"})
    past.says("subscriptions", endpoint="c/gone", filter="y", **{**told, "class": "strange"})
    past.says("subscriptions", endpoint="c/gone", filter="z", **told)
    past.api.lives(6)
    (then,) = past.get("endpoints")["items"]
    assert (then["endpoint"], then["class"]) == ("c/gone", "direct")
    assert then["subscriptions"] == [{"filter": "x/>", "since_ms": begin, "noexport": False}]
    assert past.get("nodes/c")["ends"][0]["name"] == "gone"
    assert past.get("links/b/c", end)["carries"] == []
    for moment in (begin - 1, end):
        assert past.get("endpoints", moment)["items"] == []
    assert past.api.get("endpoints")["items"] == []


def test_what_was_changed_since_is_shown_once(past: Past) -> None:
    """Its topic and the auditor both tell of it."""
    client = past.api.mesh.client("c")
    with past.api.turn:
        client.subscribe("s", "x/>")
    past.api.lives(1)
    before = past.api.live.snapshot.seen.at_ms
    past.api.lives(1)
    with past.api.turn:
        client.subscribe("s", "x/>", noexport=True)
    now = past.api.live.snapshot.seen.at_ms
    told = {"kind": "channel", "class": "guaranteed", "from_ms": before - 1, "to_ms": now}
    past.says("subscriptions", endpoint="c/s", filter="x/>", noexport=False, **told)
    past.api.lives(1)
    (then,) = past.get("endpoints", before)["items"]
    assert [(one["filter"], one["noexport"]) for one in then["subscriptions"]] == [("x/>", False)]


def test_an_endpoint_is_listed_as_what_prevails(past: Past) -> None:
    """Spec: K13. A record that no client of ours would write may come first."""
    writer = past.api.mesh.world.kafka["right"].writer("kcat")
    for filter_, value in (("x/>", b'{"class": "direct"}'), ("y/>", b"{}")):
        with past.api.turn:
            writer.produce("mesh.c.clients", value, subscription_key("s", filter_), 0)
            writer.flush()
    past.api.lives(1)
    (listed,) = past.api.get("endpoints")["items"]
    assert listed["class"] == "guaranteed"


def test_the_auditors_words_are_asked_for_by_endpoint_and_time(past: Past) -> None:
    """Of a certificate that names no time the one counts when it was issued."""
    begin = past.minute_ms
    said = {"source": "mesh.a.in.g/0", "block": 0, "equal": True}
    past.says("certificates", endpoint="c/x", first_ms=begin, last_ms=begin + 10, **said)
    past.says("findings", kind="duplicate", endpoint="c/x", text="twice", ids=[])
    past.api.lives(1)

    def found(path: str, from_ms: int, to_ms: int) -> int:
        times = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (from_ms, to_ms)]
        from_, to = (one.replace("+00:00", "Z") for one in times)
        return len(past.api.get(f"{path}&from={from_}&to={to}")["items"])

    now = past.api.live.snapshot.seen.at_ms
    assert found("certificates?endpoint=c/x", begin + 5, begin + MINUTE_MS) == 1
    assert found("certificates?endpoint=c/x", begin + 11, now) == 0
    assert found("findings?endpoint=c/x", begin, begin + MINUTE_MS) == 0
    assert found("findings?endpoint=c/x", now - MINUTE_MS, now) == 1
    for asked, status, says in (
        ("certificates?endpoint=c/y", 404, "node c has no endpoint 'y'"),
        ("findings?endpoint=zz/x", 404, "no node is called 'zz'"),
        ("findings?endpoint=x", 422, "write NODE/NAME"),
        ("findings?from=1m&to=5m", 422, "1m is later than 5m"),
    ):
        assert says in past.api.refused(f"/api/v1/{asked}", status)


def test_findings_of_a_message_are_found_by_each_form_of_its_id(past: Past) -> None:
    """An empty list for one that somebody mistyped would say that nothing is wrong with it."""
    past.says("findings", kind="duplicate", endpoint="c/x", text="twice", ids=["mesh.a.in.g/2/0/5"])
    past.api.lives(1)
    for message, count in (
        ("mesh.a.in.g/2/0/5", 1),
        ("mesh.a.in.g/2/5", 1),
        ("mesh.a.in.g/2/6", 0),
    ):
        assert len(past.api.get(f"findings?message={message}")["items"]) == count
    assert "is not a message" in past.api.refused("/api/v1/findings?message=mesh.a.in.g", 422)
