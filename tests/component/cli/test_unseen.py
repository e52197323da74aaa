"""A Kafka cluster that does not answer: what it holds is not known, and never none."""

from __future__ import annotations

import pytest

from mesh.client import EndpointKind, QueuePolicy
from tests.component.cli.conftest import Chain, Run

AWAY = "unknown, their Kafka does not answer: b, c"


@pytest.fixture
def half(chain: Chain) -> Chain:
    """Node a on a Kafka cluster that answers; b and c, who want something, on one that does not."""
    mesh, _ = chain
    mesh.subscribe("c", "e", "x/>")
    mesh.subscribe("c", "jobs", "work", kind=EndpointKind.QUEUE, policy=QueuePolicy.ANY)
    mesh.subscribe("a", "jobs", "work", kind=EndpointKind.QUEUE, policy=QueuePolicy.ANY)
    mesh.pause(2)
    mesh.world.kafka["right"].available = False
    return chain


def test_who_wants_something_is_not_nobody(run: Run, half: Chain) -> None:
    _, file = half
    shown = run("interest", "-f", file)
    assert AWAY in shown.out
    told = run("interest", "-f", file, "-o", "json").data
    assert told["unknown"] == ["b", "c"]
    assert told["counts"]["a"] == {"own": 1, "links": None}  # its neighbour cannot be asked
    assert told["counts"]["b"] == {"own": None, "links": None}
    only = run("interest", "c", "-f", file).out
    assert "nobody that can be reached wants anything" in only
    assert only.count("?") == 2


def test_who_gets_a_message_is_said_as_far_as_it_can_be_seen(run: Run, half: Chain) -> None:
    _, file = half
    shown = run("explain", "x/1", "--from", "a", "-f", file).out
    assert shown.startswith("no endpoint gets it, as far as can be seen\n")
    assert "nobody behind this link wants it" not in " ".join(shown.split())
    assert AWAY in shown
    told = run("explain", "x/1", "--from", "a", "-f", file, "-o", "json").data
    assert [one["wants"] for one in told["not_reached"]] == [None, None]
    assert {one["text"].split(":")[0] for one in told["refused"] + told["not_reached"]} == {
        "what is wanted behind this link cannot be seen"
    }


def test_what_a_reader_wants_is_not_nothing(run: Run, half: Chain) -> None:
    _, file = half
    links = run("links", "-f", file, "-o", "json").data["links"]
    wanted = {one["link"]: one["wanted"] for one in links}
    assert [wanted[link] for link in ("a->b", "b->c", "c->b")] == [None, None, None]
    assert wanted["b->a"] > 0
    assert "?" in run("links", "-f", file).out


def test_a_queue_has_more_members_perhaps(run: Run, half: Chain) -> None:
    _, file = half
    [queue] = run("queue", "list", "-f", file, "-o", "json").data["queues"]
    assert (queue["consumers"], queue["waiting"], queue["unknown"]) == (None, None, ["b", "c"])
    assert [one["node"] for one in queue["members"]] == ["a"]
    for line in (("queue", "list"), ("queue", "show", "jobs")):
        assert AWAY in run(*line, "-f", file).out


@pytest.mark.parametrize(
    "line",
    [
        "link pause a b",
        "link pause a b --from a",
        "link resume a b",
        "link resume a b --accept-gap",
        "node resume b",
        "node forget b a",
        "subject pause x/> -n b",
        "subject resume x/> -n b",
    ],
)
def test_what_cannot_be_told_to_all_is_told_to_nobody(run: Run, half: Chain, line: str) -> None:
    """Half a link was paused, without a word of which half."""
    mesh, file = half
    before_ms = mesh.now_ms()
    ended = run(*line.split(), "-f", file)
    assert ended.code == 1
    assert ended.out == ""
    assert "nothing was changed at b: " in ended.err
    assert mesh.now_ms() - before_ms < 1_000
    mesh.world.kafka["right"].available = True
    assert run("status", "-f", file, "-o", "json").data["nodes"][0]["paused"] == []


def test_who_can_be_told_is_told(run: Run, half: Chain) -> None:
    """What comes from b waits, as a reads it; what is paused at others cannot be seen."""
    _, file = half
    assert run("link", "pause", "a", "b", "--from", "b", "-f", file).code == 0
    assert run("subject", "pause", "x/>", "-n", "a", "-f", file).code == 0
    told = run("subject", "list", "-f", file, "-o", "json").data
    assert ([one["node"] for one in told["paused"]], told["unknown"]) == (["a"], ["b", "c"])
    assert AWAY in run("subject", "list", "-f", file).out
    assert run("link", "resume", "a", "b", "--from", "b", "-f", file).code == 0
