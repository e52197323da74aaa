"""What the commands of the auditor tell of what it wrote, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from mesh.cli import audit_live
from mesh.transport import clock
from mesh.transport.port import TopicSpec
from tests.component.cli.conftest import Chain, Run

Tell = Callable[..., None]


@pytest.fixture
def tell(chain: Chain) -> Tell:
    """Write as the auditor does; no fields: take back."""
    kafka = chain[0].world.kafka["left"]
    tables = ("findings", "certificates", "canaries", "status")
    kafka.admin().create([TopicSpec(name=f"mesh.audit.{one}", partitions=1) for one in tables])
    writer = kafka.writer("auditor")

    def write(table: str, key: str, **fields: object) -> None:
        value = json.dumps(fields).encode() if fields else None
        writer.produce(f"mesh.audit.{table}", value, key.encode())

    return write


def finding(id_: str, message: str, **more: object) -> dict[str, object]:
    return {
        "id": id_,
        "kind": "duplicate",
        "text": "c/e got messages more than once",
        "ids": [message],
        "endpoint": "c/e",
        "source": "mesh.a.in.g/0",
        "first": 0,
        "last": 0,
        "node": "c",
        "first_seen_ms": 1_700_000_000_000,
        "last_seen_ms": 1_700_000_000_000,
        "run": "r1",
        "rule": "in an endpoint once",
        "evidence": ["mesh.c.ep.e/0@0-1"],
        "what_to_do": "look at the first node after which there are two",
        **more,
    }


def test_a_finding_is_explained_with_its_rule_its_records_and_what_to_do(
    run: Run, chain: Chain, tell: Tell
) -> None:
    """A newcomer finds where a message came twice with these two commands alone."""
    _, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    run("publish", "acme/x", "hello", "-n", "a", "-f", file)
    got = run(
        "subscribe", "acme/>", "-n", "c", "-e", "e", "--from-beginning", "--count", "1", "-f",
        file, "-o", "json",
    )  # fmt: skip
    told = run("trace", json.loads(got.out)["id"], "-f", file, "-o", "json").data
    id_ = told["id"]
    tell("findings", "abc123", **finding("abc123", id_))
    tell("certificates", "1", source=id_.rsplit("/", 2)[0], endpoint="c/e", expected=1,
         delivered=2, equal=False, **{"from": 0, "to": 0})  # fmt: skip
    assert "abc123" in run("audit", "report", "-f", file).out
    said = run("audit", "explain", "abc", "-f", file)
    assert said.code == 0
    for word in ("in an endpoint once", "look at the first node", "mesh.c.ep.e/0@0-1", "a->b", id_):
        assert word in said.out
    data = run("audit", "explain", "abc123", "-f", file, "-o", "json").data
    assert [one["link"] for one in data["message"]["frames"]] == ["a->b", "b->c"]


def test_what_is_no_message_is_explained_without_one(run: Run, chain: Chain, tell: Tell) -> None:
    _, file = chain
    tell("findings", "s1", id="s1", kind="split", text="a | b", ids=["a", "b"], link="a-b")
    said = run("audit", "explain", "s1", "-f", file)
    assert (said.code, "split at a-b: a | b" in said.out) == (0, True)


@pytest.mark.parametrize("asked", ["zz", "a"])
def test_a_finding_that_is_not_there_or_not_the_only_one_is_one_line(
    run: Run, chain: Chain, tell: Tell, asked: str
) -> None:
    _, file = chain
    tell("findings", "a1", **finding("a1", "x"))
    tell("findings", "a2", **finding("a2", "x"))
    said = run("audit", "explain", asked, "-f", file)
    assert (said.code, "names no finding, or several" in said.err) == (2, True)


def test_the_status_tells_what_is_read_what_waits_and_what_is_covered(
    run: Run, chain: Chain, tell: Tell
) -> None:
    _, file = chain
    assert run("audit", "status", "-f", file).code == 10
    waiting = {"source": "mesh.a.in.g/0", "block": 0, "endpoint": "c/e", "reason": "b stands"}
    sources = {"left": {"batch": 4, "lagging": False, "unread": None}}
    fields = {"at_ms": clock.wall_ms(), "endpoints": ["c/e", "c/f"], "uncertified": 1}
    tell("status", "position", **fields, waiting=[waiting], sources=sources)
    tell("certificates", "1", endpoint="c/e", delivered=5, equal=True, at_ms=clock.wall_ms())
    told = {"sent": 9, "arrived": 8, "lost": 1, "latency_ms": 12.5, "slowest_ms": 80.0}
    tell("canaries", "a->b", way="a->b", **{"for": ["Z", "Z>Y"]}, **told)
    said = run("audit", "status", "-f", file)
    assert said.code == 0
    for word in ("b stands", "left", "never", "a->b", "Z, Z>Y", "12.5", "80.0"):
        assert word in said.out
    coverage = run("audit", "status", "-f", file, "-o", "json").data["coverage"]
    assert [coverage[one]["messages"] for one in ("c/e", "c/f")] == [5, 0]
    sources["left"]["unread"] = "Timed out"
    tell("status", "position", **fields, sources=sources)
    assert run("audit", "status", "-f", file).code == 10
    report = run("audit", "report", "-f", file, "-o", "json").data
    assert "left is not read: Timed out" in report["doubts"]


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("status", {"endpoints": None, "waiting": None, "sources": None, "findings": None}),
        ("status", {"findings": 10**400, "sources": {"left": {"batch": [1], "read_ms": 10**400}}}),
        ("status", {"uncertified": 1, "waiting": [{"source": "s", "endpoint": "*", "block": []}]}),
        ("canaries", {"way": "a->b", "sent": 1, "arrived": 0, "lost": 1, "for": None}),
        ("findings", {"kind": "loop", "text": None, "ids": None, "evidence": None, "id": None}),
        ("certificates", {"endpoint": "c/e", "equal": True, "block": None, "sure": None}),
    ],
)
def test_an_odd_record_ends_no_command(
    run: Run, chain: Chain, tell: Tell, table: str, fields: dict[str, object]
) -> None:
    """Whatever a stranger writes is data. Spec: DESIGN 4."""
    _, file = chain
    tell("status", "position", at_ms=clock.wall_ms(), endpoints=["c/e"])
    tell(table, "position", **fields)
    for command in (["audit", "report"], ["audit", "status"], ["status"], ["top", "--count", "1"]):
        for form in ([], ["-o", "json"]):
            said = run(*command, *form, "-f", file)
            assert said.code in (0, 10), said.err


def test_findings_that_somebody_removed_are_missed(run: Run, chain: Chain, tell: Tell) -> None:
    _, file = chain
    tell("findings", "f", **finding("f", "x"))
    tell("status", "position", at_ms=clock.wall_ms(), endpoints=["c/e"], findings=2)
    doubts = run("audit", "report", "-f", file, "-o", "json").data["doubts"]
    assert "findings that somebody removed from the auditor's topic: 1" in doubts


def test_the_status_of_the_mesh_says_how_far_it_is_proven(
    run: Run, chain: Chain, tell: Tell
) -> None:
    """A time where everything before it is certified, and what is wrong where something is."""
    mesh, file = chain
    mesh.pause(3.0)

    def first_line() -> str:
        return run("status", "-f", file).out.splitlines()[0]

    assert first_line().endswith("every subscription is known everywhere")  # nobody audits
    now_ms = clock.wall_ms()
    at = datetime.fromtimestamp(now_ms / 1000, tz=UTC).strftime("%H:%M:%SZ")
    fields = {"endpoints": ["c/e"], "uncertified": 0, "waiting": []}
    tell("status", "position", **fields, at_ms=now_ms)
    tell("certificates", "1", endpoint="c/e", source="s", delivered=5, equal=True, at_ms=now_ms)
    assert first_line().endswith(f"known everywhere; proven until {at}")
    tell("findings", "f", **finding("f", "x"))
    assert "; 1 finding open; proven until " in first_line()
    assert run("status", "-f", file, "-o", "json").data["proof"]["state"] == "findings"
    tell("status", "position", **fields, at_ms=now_ms - 60_000)
    assert "the auditor is not heard" in first_line()


def test_a_report_may_be_of_some_time(run: Run, chain: Chain, tell: Tell) -> None:
    _, file = chain
    now_ms = clock.wall_ms()
    for number, ago_s in enumerate((7200, 60)):
        at_ms = now_ms - ago_s * 1000
        name = f"f{number}"
        tell("findings", name, **finding(name, "x", first_seen_ms=at_ms, last_seen_ms=at_ms))

    def found(*more: str) -> list[str]:
        data = run("audit", "report", *more, "-f", file, "-o", "json").data
        return [one["id"] for one in data["findings"]]

    assert found() == ["f0", "f1"]
    assert found("--from", "10m") == ["f1"]
    assert found("--to", "10m") == ["f0"]
    assert found("--from", "3h", "--to", "90m") == ["f0"]
    wrong = run("audit", "report", "--from", "soon", "-f", file)
    assert (wrong.code, "--from" in wrong.err) == (2, True)


def test_a_finding_that_somebody_removed_is_told_by_every_command(
    run: Run, chain: Chain, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look or two must do: the report would fail where `mesh status` shows no trouble."""
    mesh, file = chain
    monkeypatch.setattr("mesh.transport.clock.wall_ms", mesh.now_ms)
    tell("findings", "f", **finding("f", "x"))
    tell("findings", "f")
    tell("certificates", "1", endpoint="c/e", source="s", delivered=1, expected=1, equal=True)
    tell("status", "position", at_ms=mesh.now_ms(), findings=1, endpoints=["c/e"])
    told = "1 finding removed by somebody"
    assert run("audit", "report", "-f", file).code == 10
    assert told in run("status", "-f", file).out
    assert run("top", "-f", file, "-o", "json").data["proof"]["text"] == told


def test_what_is_said_from_now_on_is_followed(
    run: Run, chain: Chain, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file = chain
    tell("findings", "old", **finding("old", "x"))
    told = iter(
        [
            lambda: tell("certificates", "1", endpoint="c/e", source="s", delivered=1, expected=1,
                         equal=True, at_ms=1),
            lambda: tell("findings", "n", id="n", kind="stalled", text="b waits", is_news=True),
            lambda: tell("findings", "old", **finding("old", "x"), count=2),
            lambda: tell("findings", "old"),
            lambda: tell("findings", "new", **finding("new", "x")),
        ]
    )  # fmt: skip
    monkeypatch.setattr(clock, "pause", lambda _: next(told)())
    said = run("audit", "follow", "--until-found", "-f", file)
    assert said.code == 10
    first, news, grown, back, fault = said.out.splitlines()
    assert "certified c/e" in first
    assert "stalled n: b waits" in news
    assert "duplicate old:" in grown  # no new fault: it stood before
    assert back == "taken back: old"
    assert "duplicate new:" in fault


@pytest.mark.parametrize(
    "odd",
    [
        b'{"kind":"loop","last_seen_ms":100000000000000000000}',
        b"[" * 100_000,
        b'{"kind": NaN}',
        b'{"kind": "loop", "text": "\\u001b[2J"}',
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_odd_record_ends_nobody_who_follows(
    run: Run,
    chain: Chain,
    tell: Tell,
    monkeypatch: pytest.MonkeyPatch,
    odd: bytes,
    form: list[str],
) -> None:
    """Whatever a stranger writes is data, and JSON stays JSON. Spec: DESIGN 4."""
    mesh, file = chain
    writer = mesh.world.kafka["left"].writer("stranger")

    def write() -> None:
        writer.produce("mesh.audit.findings", odd, b"odd", 0)
        writer.flush()
        tell("findings", "new", **finding("new", "x"))

    monkeypatch.setattr(clock, "pause", lambda _: write())
    said = run("audit", "follow", "--until-found", *form, "-f", file)
    assert said.code == 10
    lines = said.out.splitlines()
    assert lines
    assert all(line.isprintable() for line in lines)
    if form:
        assert all(isinstance(json.loads(line, parse_constant=pytest.fail), dict) for line in lines)


def test_what_is_no_certificate_is_not_told_as_one_that_differs(
    run: Run, chain: Chain, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what names no kind told as a fault."""
    _, file = chain
    odd = iter(
        [
            lambda: tell("certificates", "c", source="s"),
            lambda: tell("findings", "f", kind=None, text="x"),
            lambda: tell("findings", "new", **finding("new", "x")),
        ]
    )
    monkeypatch.setattr(clock, "pause", lambda _: next(odd)())
    said = run("audit", "follow", "--until-found", "-f", file)
    first, second, fault = said.out.splitlines()
    assert (first, second) == ("unreadable record under c", "unreadable record under f")
    assert "duplicate new:" in fault


def test_a_moment_that_is_in_no_calendar_is_told_as_it_is(
    run: Run, chain: Chain, tell: Tell
) -> None:
    """Of a record of the auditor's topics, and of a client's create time."""
    mesh, file = chain
    far_ms = 10**15
    tell("findings", "odd", **finding("odd", "x", first_seen_ms=0, last_seen_ms=far_ms))
    assert "duplicate" in run("audit", "report", "-f", file).out
    assert f"grew until {far_ms} ms" in run("audit", "explain", "odd", "-f", file).out
    writer = mesh.world.kafka["left"].writer("client")
    writer.produce("mesh.a.in.g", b"x", None, 0, timestamp=far_ms, headers=[("mesh-subject", b"s")])
    writer.flush()
    assert f"created {far_ms} ms" in run("trace", "mesh.a.in.g/0/0", "-f", file).out


def test_running_the_auditor_is_running_the_streaming_job(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file = chain
    started: list[list[str]] = []
    monkeypatch.setattr(audit_live.os, "execve", lambda _, words, __: started.append(words))
    more = ["--bootstrap", "left=h:1", "--until-drained", "--master", "spark://s:7077"]
    said = run("audit", "run", "-f", file, *more, "--cores", "8", "--memory", "2g", "--brief")
    assert said.code == 0
    words = " ".join(started[0][1:])
    assert words == (
        f"-m streaming -f {file} --bootstrap left=h:1 --until-drained "
        "--master spark://s:7077 --cores 8 --memory 2g --batch 150000 --brief"
    )


def test_a_past_range_is_given_to_it_in_milliseconds(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times as everywhere; what is none is refused in one line, and nothing is started."""
    _, file = chain
    started: list[list[str]] = []
    monkeypatch.setattr(audit_live.os, "execve", lambda _, words, __: started.append(words))
    monkeypatch.setattr(clock, "wall_ms", lambda: 1_700_000_900_000)
    span = ["--from", "15m", "--to", "2023-11-14T22:14:00Z"]
    assert run("audit", "run", "-f", file, *span, "--json").code == 0
    assert started[0][-5:] == ["--from", "1700000000000", "--to", "1700000040000", "--json"]
    said = run("audit", "run", "-f", file, "--from", "yesterday")
    assert said.code == 2
    assert "--from: 'yesterday' is not a time" in said.err
    assert (
        "--to: '2023-11-14T23:00:00Z' is in the future"
        in run("audit", "run", "-f", file, "--to", "2023-11-14T23:00:00Z").err
    )
    assert len(started) == 1


def test_a_report_of_a_span_knows_what_was_certified_and_split_before(
    run: Run, chain: Chain, tell: Tell
) -> None:
    """An idle endpoint is no doubt, and a split that has not ended is."""
    _, file = chain
    now_ms = clock.wall_ms()
    tell("status", "position", at_ms=now_ms, endpoints=["c/e"])
    tell("certificates", "1", endpoint="c/e", equal=True, at_ms=now_ms - 3_600_000)
    assert run("audit", "report", "--from", "1m", "-f", file).code == 0
    before = {"first_seen_ms": now_ms - 3_600_000, "last_seen_ms": now_ms - 3_600_000}
    tell(
        "findings", "s1", id="s1", kind="split", text="a | b", ids=["a", "b"], link="a-b", **before
    )
    said = run("audit", "report", "--from", "1m", "-f", file)
    assert (said.code, "a | b" in said.out) == (10, True)
