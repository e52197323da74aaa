"""What the commands that speak to a mesh print and how they end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import click
import pytest
import typer.main

from mesh.cli.main import app
from mesh.client import MeshClient
from mesh.errors import BackpressureError
from mesh.transport import clock
from mesh.transport.port import TopicPartition, TopicSpec
from tests.component.cli.conftest import Chain, Run


def test_publish_and_subscribe_pass_messages(run: Run, chain: Chain) -> None:
    _, file = chain
    made = run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file, "-o", "json")
    assert (made.code, made.data["version"], made.data["known_everywhere"]) == (0, 0, True)
    sent = run(
        "publish", "acme/x", "hello", "-n", "a", "--key", "k", "--header", "h=1", "--header",
        "h=2", "--count", "2", "-f", file, "-o", "json",
    )  # fmt: skip
    told = sent.data
    last = told.pop("last")
    assert told == {"node": "a", "subject": "acme/x", "class": "guaranteed", "published": 2}
    got = run(
        "subscribe", "acme/>", "-n", "c", "-e", "e", "--from-beginning", "--count", "2", "-f",
        file, "-o", "json",
    )  # fmt: skip
    assert got.code == 0
    assert "known everywhere" in got.err
    messages = [json.loads(line) for line in got.out.splitlines()]
    assert [one["payload"] for one in messages] == ["hello", "hello"]
    assert messages[0]["headers"] == [["h", "1"], ["h", "2"]]
    assert messages[0]["path"] == ["a", "b", "c"]
    assert [
        one["endpoint"] for one in run("trace", last, "-f", file, "-o", "json").data["deliveries"]
    ] == ["c/e"]
    traced = run("trace", messages[1]["id"], "-f", file, "-o", "json")
    assert [one["link"] for one in traced.data["frames"]] == ["a->b", "b->c"]
    assert [one["endpoint"] for one in traced.data["deliveries"]] == ["c/e"]
    table = run("trace", messages[1]["id"], "-f", file)
    assert "a->b" in table.out
    assert "a>b>c" in table.out


def test_a_subject_steers_no_terminal(run: Run, chain: Chain) -> None:
    """A subject may have letters that turn the rest of a line round."""
    mesh, file = chain
    mesh.subscribe("b", "e", "x/>")
    mesh.publish("a", "x/\u202ecod", b"1")
    said = run(
        "subscribe", "x/>", "-n", "b", "-e", "e", "--from-beginning", "--count", "1", "-f", file
    )
    assert said.out.startswith("x/\\u202ecod  '1'")


def test_bytes_that_are_no_text_come_to_scripts_as_they_are(run: Run, chain: Chain) -> None:
    """A header that has them looked as one that says a backslash, an x and two letters."""
    mesh, file = chain
    mesh.subscribe("b", "e", "x/>")
    with mesh.client("a") as client:
        headers = [("raw", b"\xff"), ("text", b"\\xff"), ("null", None), ("raw", b"\xfe")]
        client.publish("x/1", b"\xfd", key=b"\xfc", headers=headers)
        client.flush()
    said = run(
        *("subscribe", "x/>", "-n", "b", "-e", "e", "--from-beginning", "--count", "1"),
        *("-f", file, "-o", "json"),
    )
    assert said.data["headers"] == [
        ["raw", {"base64": "/w=="}],
        ["text", "\\xff"],
        ["null", None],
        ["raw", {"base64": "/g=="}],
    ]
    assert (said.data["payload_base64"], said.data["key_base64"]) == ("/Q==", "/A==")


def test_lines_of_standard_input_are_messages(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh, file = chain
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\r\ntwo\n\nlast")))
    assert run("publish", "x", "-n", "a", "-f", file).out.startswith(
        "4 messages accepted at a, the last as mesh.a.in.g/"
    )
    records = [
        entry
        for log in mesh.world.kafka["left"].topics["mesh.a.in.g"].logs
        for entry in log.entries
        if entry is not None
    ]
    assert sorted(record.value() or b"" for record in records) == [b"", b"last", b"one", b"two"]


def test_what_was_accepted_before_a_refusal_is_told(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes on at the next line neither loses nor doubles anything."""
    mesh, file = chain
    publish = MeshClient.publish

    def third_is_too_much(client: MeshClient, subject: str, payload: bytes, **more: Any) -> Any:
        if payload == b"three":
            raise BackpressureError("b takes nothing more")
        return publish(client, subject, payload, **more)

    monkeypatch.setattr(MeshClient, "publish", third_is_too_much)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\nthree\nfour\n")))
    said = run("publish", "x", "-n", "a", "-f", file)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "b takes nothing more; accepted before: 2; refused: line 3 [BACKPRESSURE]\n"
    )
    logs = mesh.world.kafka["left"].topics["mesh.a.in.g"].logs
    there = [entry.value() for log in logs for entry in log.entries if entry is not None]
    assert sorted(one or b"" for one in there) == [b"one", b"two"]


def test_a_message_is_found_at_an_endpoint_that_nobody_subscribes_any_more(
    run: Run, chain: Chain
) -> None:
    """Its topic stays, and what is in it: nobody may say that nothing is left."""
    mesh, file = chain
    assert run("subscribe", "x", "-n", "a", "-e", "e", "-f", file).code == 0
    sent = mesh.client("a").publish("x", b"1", key=b"k")
    mesh.pause(3)
    assert run("unsubscribe", "x", "-n", "a", "-e", "e", "-f", file).code == 0
    admin = mesh.world.kafka["left"].admin()
    place = TopicPartition("mesh.a.in.g", sent.partition or 0)
    admin.delete_before({place: admin.ends([place])[place]})
    traced = run("trace", f"mesh.a.in.g/{sent.partition}/{sent.offset}", "-f", file, "-o", "json")
    assert traced.code == 0
    assert [one["endpoint"] for one in traced.data["deliveries"]] == ["a/e"]


@pytest.mark.parametrize(
    "words",
    [
        ["wait", "a", "--timeout", "inf"],
        ["subscribe", "x", "-n", "a", "-e", "e", "--timeout", "inf"],
        ["doctor", "--wait", "inf"],
        ["role", "send", "t", "r", "-n", "a", "--timeout", "inf"],
        ["queue", "consume", "q", "-n", "a", "--timeout", "inf"],
        ["doctor", "--wait", "1e308"],
        ["wait", "a", "--timeout", "1e308"],
        ["wait", "a", "--version", "1" + 30 * "0"],
        ["link", "pause", "a", "b", "--partition", "1" + 30 * "0"],
        ["top", "--count", "1" + 30 * "0"],
    ],
)
def test_a_time_that_no_clock_can_count_is_refused(
    run: Run, chain: Chain, words: list[str]
) -> None:
    """Before anything is done: a subscription would stand there already."""
    mesh, file = chain
    said = run(*words, "-f", file)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert "cannot be counted; write a number up to 1,000,000,000" in said.err
    assert not mesh.client("a").subscribed()


def test_laggards_are_named_and_end_with_ten(run: Run, chain: Chain) -> None:
    mesh, file = chain
    assert run("subscribe", "warm", "-n", "c", "-e", "e", "-f", file).code == 0
    mesh.world.cut("b", ["c"])
    late = run("subscribe", "acme/>", "-n", "c", "-e", "e", "--timeout", "3", "-f", file)
    assert late.code == 10
    assert "open links c->b" in late.out
    unsaid = run("unsubscribe", "warm", "-n", "c", "-e", "e", "--no-wait", "-f", file, "-o", "json")
    assert (unsaid.code, unsaid.data["known_everywhere"]) == (0, None)
    explained = run("explain", "acme/x", "--from", "a", "-f", file, "-o", "json")
    assert explained.data["not_reached"][1] == {
        "node": "c", "reason": "not_resynced", "cause": None, "rule": None, "link": "a->b", "wants": True,
        "text": "what c wants is not known there yet",
    }  # fmt: skip


def test_status_links_and_interest_of_a_calm_mesh(run: Run, chain: Chain) -> None:
    _, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    status = run("status", "-f", file, "-o", "json")
    assert (status.code, status.data["ok"]) == (0, True)
    assert {one["node"]: one["state"] for one in status.data["nodes"]} == dict.fromkeys("abc", "up")
    links = run("links", "-f", file, "-o", "json")
    assert links.code == 0
    assert {one["link"]: one["wanted"] for one in links.data["links"]} == {
        "a->b": 1, "b->a": 0, "b->c": 1, "c->b": 0,
    }  # fmt: skip
    wanted = run("interest", "b", "-f", file, "-o", "json").data
    assert [(one["who"], one["filter"], one["scope"]) for one in wanted["interest"]] == [
        ("c", "acme/>", "Z:b/own")
    ]
    assert wanted["counts"] == {"b": {"own": 0, "links": 1}}
    for command in ("status", "links", "interest", "doctor"):
        assert run(command, "-f", file).code == 0
    tree = run("explain", "acme/x", "--from", "a", "-f", file)
    assert "c  over Z  => e" in tree.out


def test_wait_ends_when_all_is_known_and_names_who_lags(run: Run, chain: Chain) -> None:
    """Spec: K24, DESIGN 6."""
    mesh, file = chain
    told = run("subscribe", "acme/>", "-n", "c", "-e", "e", "--no-wait", "-f", file, "-o", "json")
    version = str(told.data["version"])
    assert run("wait", "c", "--version", version, "-f", file).out == "known everywhere\n"
    known = run("wait", "-f", file, "-o", "json")
    assert (known.code, known.data["laggards"], known.data["down"]) == (0, [], [])
    mesh.world.cut("b", ["c"])
    run("subscribe", "more/>", "-n", "c", "-e", "e", "--no-wait", "-f", file)
    late = run("wait", "--timeout", "2", "-f", file)
    assert (late.code, "c" in late.out) == (10, True)
    assert run("wait", "a", "--timeout", "2", "-f", file).code == 0
    mesh.world.cut("b", [])
    assert run("wait", "-f", file).code == 0
    mesh.world.kill("b")
    mesh.pause(12.0)
    down = run("wait", "-f", file)
    assert (down.code, "b is down" in down.out) == (0, True)
    assert run("wait", "b", "-f", file).code == 10
    assert run("wait", "--version", "1", "-f", file).code == 2


@pytest.mark.parametrize("other", [("--queue",), ("--class", "direct")])
def test_an_endpoint_has_one_kind_and_one_class(
    run: Run, chain: Chain, other: tuple[str, ...]
) -> None:
    """The node would only log it, and the command look like success. Spec: K13."""
    mesh, file = chain
    mesh.subscribe("c", "e", "acme/>")
    place = TopicPartition("mesh.c.clients", 0)
    end = mesh.world.kafka["right"].admin().ends([place])
    ended = run("subscribe", "y", "-n", "c", "-e", "e", *other, "-f", file)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "is a guaranteed channel already" in ended.err
    assert mesh.world.kafka["right"].admin().ends([place]) == end
    run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    assert run("subscribe", "y", "-n", "c", "-e", "e", *other, "-f", file).code == 0


def test_a_message_that_never_was_is_told_in_one_line(run: Run, chain: Chain) -> None:
    """No empty tables; scripts get their document all the same. Spec: K9."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    mesh.publish("a", "acme/x")
    mesh.pause(1)
    [partition] = [
        number
        for number in range(4)
        if run("trace", f"mesh.a.in.g/{number}/0", "-f", file).code == 0
    ]
    never = run("trace", f"mesh.a.in.g/{partition}/99", "-f", file)
    assert (never.code, never.out, never.err.count("\n")) == (10, "", 1)
    assert "no such message" in never.err
    assert "the newest there is 0" in never.err
    told = run("trace", f"mesh.a.in.g/{partition}/99", "-f", file, "-o", "json")
    assert (told.code, told.data["ingress"]["there"]) == (10, False)


def test_what_is_not_subscribed_cannot_be_ended(run: Run, chain: Chain) -> None:
    """A slip of the pen is told, with what there is; nothing is written. Spec: K13."""
    mesh, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    place = TopicPartition("mesh.c.clients", 0)
    end = mesh.world.kafka["right"].admin().ends([place])
    for filter_, endpoint, told in (
        ("acme/*", "e", "e at c is subscribed to acme/>"),
        ("acme/>", "E", "c has no endpoint E; known there: e"),
    ):
        ended = run("unsubscribe", filter_, "-n", "c", "-e", endpoint, "-f", file)
        assert (ended.code, told in ended.err, ended.out) == (2, True, "")
    assert mesh.world.kafka["right"].admin().ends([place]) == end
    assert run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", file).code == 0
    again = run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    assert (again.code, "nor any other" in again.err) == (2, True)


def test_interest_of_a_moment_gone_by(run: Run, chain: Chain) -> None:
    mesh, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    mesh.pause(2.0)
    then = datetime.fromtimestamp(mesh.now_ms() / 1000, tz=UTC).isoformat()
    mesh.pause(2.0)
    run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    assert run("interest", "b", "-f", file, "-o", "json").data["interest"] == []
    [entry] = run("interest", "b", "--at", then, "-f", file, "-o", "json").data["interest"]
    assert (entry["who"], entry["filter"]) == ("c", "acme/>")
    assert entry["since"] < then
    assert "acme/>" in run("interest", "--at", then, "-f", file).out


@pytest.mark.parametrize(
    ("text", "fault"),
    [("yesterday", "is not a time"), ("3000-01-01", "in the future"), ("", "not a time")],
)
def test_a_moment_that_cannot_be_is_refused(run: Run, chain: Chain, text: str, fault: str) -> None:
    _, file = chain
    ended = run("interest", "--at", text, "-f", file)
    assert (ended.code, fault in ended.err) == (2, True)


def test_an_unhealthy_mesh_ends_with_ten(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    mesh.world.kill("c")
    mesh.pause(12.0)
    for command in ("status", "links", "doctor"):
        assert run(command, "-f", file).code == 10
    doctor = run("doctor", "--category", "nodes", "--wait", "1", "-f", file, "-o", "json").data
    [nodes] = doctor["categories"]
    assert [check["result"] for check in nodes["checks"]] == ["ok", "ok", "failed"]
    assert nodes["checks"][2]["hint"]


def test_audit_report_is_ok_only_where_something_is_proven(run: Run, chain: Chain) -> None:
    mesh, file = chain
    silent = run("audit", "report", "-f", file)
    assert (silent.code, "no auditor" in silent.out) == (10, True)
    kafka = mesh.world.kafka["left"]
    tables = ("findings", "certificates", "status")
    kafka.admin().create([TopicSpec(name=f"mesh.audit.{one}", partitions=1) for one in tables])
    writer = kafka.writer("auditor")

    def tell(table: str, key: str, **fields: object) -> None:
        writer.produce(f"mesh.audit.{table}", json.dumps(fields).encode(), key.encode())

    def report() -> tuple[int, list[str]]:
        told = run("audit", "report", "-f", file, "-o", "json")
        return told.code, told.data["doubts"]

    def alive(seconds_ago: float = 0.0) -> None:
        at_ms = int((clock.wall_ms() / 1000 - seconds_ago) * 1000)
        tell("status", "position", at_ms=at_ms, endpoints=["c/e"])

    alive()
    assert report() == (10, ["nothing is certified of c/e"])
    tell("certificates", "1", endpoint="c/e", expected=5, delivered=5, equal=True)
    assert report() == (0, [])
    tell("findings", "1", kind="split", text="a | b")
    assert report() == (10, ["a | b"])
    tell("findings", "2", kind="heal", text="a,b")
    tell("findings", "3", kind="unproven", text="deleted before it was read")
    assert report() == (0, [])
    alive(60)
    assert report() == (10, ["the auditor was last heard 60 s ago: it does not run, or hangs"])
    alive()
    tell("findings", "4", kind="missing", text="1 lost")
    told = run("audit", "report", "-f", file, "-o", "json")
    assert told.code == 10
    assert told.data["counts"]["findings"] == {"heal": 1, "missing": 1, "split": 1, "unproven": 1}
    assert "1 lost" in run("audit", "report", "-f", file).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["publish", "a//b", "x", "-n", "a"], "empty level"),
        (["publish", "a", "x", "-n", "z"], "no node is called 'z'"),
        (["publish", "a", "x", "-n", "a", "--class", "fast"], "guaranteed or direct"),
        (["publish", "a", "x", "-n", "a", "--header", "h"], "NAME=VALUE"),
        (["publish", "a", "x", "-n", "a", "--header", "\udcff=1"], "the name is not UTF-8"),
        (["link", "pause", "a", "b", "--why", "\udcff"], "none of them for control"),
        (["link", "disable", "a", "b", "--why", "x\n"], "none of them for control"),
        (["subject", "pause", "x", "--node", "a", "--why", "x" * 201], "at most 200"),
        (["publish", "a", "x", "-n", "a", "--header", "mesh-x=1"], "belongs to the mesh"),
        (["subscribe", ">/a", "-n", "a", "-e", "e"], "last level"),
        (["subscribe", "a", "-n", "a", "-e", "e e"], "is not a name"),
        (["unsubscribe", "", "-n", "a", "-e", "e"], "filter is empty"),
        (["explain", "a/*", "--from", "a"], "only filters have wildcards"),
        (["explain", "a", "--from", "A"], "did you mean a"),
        (["interest", "q"], "no node"),
        (["trace", "x"], "TOPIC/PARTITION/OFFSET"),
        (["trace", "mesh.a.in.g/7/0"], "mesh.a.in.g has partitions 0 to 3, and not 7"),
        (["doctor", "--category", "weather"], "write one of"),
        (["status", "--bootstrap", "left"], "NAME=HOST:PORT"),
        (["status", "--bootstrap", "left=9092"], "'9092' is not a broker"),
        (["status", "--bootstrap", "left=h:1", "--bootstrap", "left=g:1"], "left is h:1 already"),
        (["node", "run", "a", "--bootstrap", "up=h:1"], "no Kafka cluster is called up"),
        (["node", "run", "a", "--ready-file", "/proc/none/x"], "cannot be written"),
        (["node", "run", "A"], "no node is called 'A'; did you mean a?"),
        (["status", "--bootstrap", "up=h:1"], "no Kafka cluster is called up"),
    ],
)
def test_wrong_input_is_one_line_and_two(
    run: Run, chain: Chain, arguments: list[str], said: str
) -> None:
    ended = run(*arguments, "-f", chain[1])
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_a_ready_file_is_no_file_of_somebody_else(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed at the start: a topology would be gone, and nobody had said a word."""
    monkeypatch.setattr("mesh.worker.main.WorkerProcess.run", lambda _: None)
    _, file = chain
    text = Path(file).read_text()
    ended = run("node", "run", "a", "-f", file, "--ready-file", file)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "is another file, and would be removed" in ended.err
    assert Path(file).read_text() == text


def test_without_a_mesh_commands_say_where_to_get_one(run: Run, chain: Chain) -> None:
    _, file = chain
    nothing = run("status")
    assert (nothing.code, "mesh context use" in nothing.err) == (2, True)
    assert run("status", "-c", "x", "-f", file).code == 2


def test_contexts_are_added_and_changed_to_and_fro(run: Run, chain: Chain) -> None:
    """Spec: ecosystem guide 2."""
    _, file = chain
    assert run("context", "previous").code == 2
    for name in ("east", "west"):
        found = run("context", "add", name, "-f", file, "--bootstrap", "left=h:1", "-o", "json")
        assert found.data["addresses"] == {"left": "h:1"}
        run("context", "use", name)
    assert run("context", "previous", "-o", "json").data["name"] == "east"
    assert run("context", "previous", "-o", "json").data["name"] == "west"
    run("context", "rm", "east")
    assert run("context", "previous").code == 2
    bad = run("context", "add", "x", "-f", file, "--bootstrap", "nowhere=h:1")
    assert (bad.code, "no Kafka cluster is called nowhere" in bad.err) == (2, True)
    missing = run("context", "add", "x", "-f", "missing.yaml")
    assert (missing.code, missing.err.count("Traceback")) == (2, 0)
    assert run("context", "use", "x").code == 2


def test_a_context_stands_for_a_file(run: Run, chain: Chain) -> None:
    from mesh.config.context import Context, save_context

    mesh, file = chain
    mesh.pause(3.0)
    save_context(Context("here", Path(file), {"left": "elsewhere:1"}))
    assert run("context", "list", "-o", "json").data["contexts"][0]["current"] is False
    assert run("context", "ls").out == run("context", "list").out  # as `ls` of all that has a list
    assert run("status", "-c", "here").code == 0
    assert run("context", "use", "here", "-o", "json").data["addresses"] == {"left": "elsewhere:1"}
    assert run("status").code == 0
    assert run("context", "show", "-o", "json").data["file"] == file
    assert run("context", "rm", "here", "-o", "json").data == {"removed": "here"}
    assert run("context", "show").code == 2
    assert run("context", "use", "here").code == 2


def test_every_command_prints_for_scripts_too() -> None:
    """`-o` on every command that tells something; those that run until a signal only log."""
    found: dict[str, bool] = {}

    def walk(command: click.Command, path: str) -> None:
        if hasattr(command, "commands"):
            for name, inner in cast("click.Group", command).commands.items():
                walk(inner, f"{path} {name}".strip())
        else:
            found[path] = any("-o" in option.opts for option in command.params)

    walk(typer.main.get_command(app), "")
    assert {path for path, has in found.items() if not has} <= {
        "api", "audit follow", "audit run", "dashboard", "demo", "node run", "up",
    }  # fmt: skip
    assert len(found) > 15


def test_the_version_is_that_of_the_distribution(run: Run) -> None:
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"mesh {metadata.version('trellis-mesh')}\n")


def test_help_loads_nothing_heavy() -> None:
    """`mesh --help` is quick: it imports no client library and no Spark."""
    program = (
        "import sys\n"
        "from mesh.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = ('confluent_kafka', 'pyspark', 'fastavro', 'pydantic', 'ruamel', 'structlog')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "explain" in ended.stdout
    assert ended.stderr.strip() == "[]"


def test_addresses_are_told_by_the_names_of_nodes(run: Run, chain: Chain) -> None:
    """An identity says nothing to people. Spec: K26."""
    mesh, file = chain
    mesh.pause(3.0)
    listed = run("interest", "b", "--addresses", "-f", file, "-o", "json").data["interest"]
    assert sorted(one["address_of"] for one in listed) == ["a", "c"]
    told = run("interest", "b", "--addresses", "-f", file).out
    assert "address of a" in told
    assert "$node/" not in told
