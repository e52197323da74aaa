"""`mesh doctor`: what it prints, mends and ends with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from mesh.cli.doctor_formats import nagios_lines, prometheus_lines
from mesh.config.topology_writer import write_topology
from mesh.model.topology import with_addresses
from mesh.operate.doctor import Category
from tests.component.cli.conftest import Chain, Run


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, chain: Chain) -> None:
    """Simulated brokers have a clock of their own, and are on this machine."""
    mesh, file = chain
    monkeypatch.setattr("mesh.transport.clock.wall_ms", mesh.now_ms)
    addresses = {"left": "localhost:9092", "right": "localhost:9093"}
    write_topology(with_addresses(mesh.topology, addresses), Path(file))


def test_a_well_mesh_is_one_line_per_category(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    ended = run("doctor", "-f", file)
    assert ended.code == 0
    first, *lines = ended.out.splitlines()
    assert re.fullmatch(r"all \d+ checks passed", first)
    assert [line.split()[0] for line in lines if re.search(r" (\d+) of \1\b", line)] == [
        "kafka", "rights", "topics", "transactions", "nodes", "links", "lanes", "interest",
        "delivery", "clocks",
    ]  # fmt: skip
    assert "node a serves" in run("doctor", "--all", "-f", file).out


def test_what_is_wrong_stands_first(run: Run, chain: Chain) -> None:
    """In a sentence, then one after the other, what failed before what is doubtful."""
    mesh, file = chain
    mesh.pause(3.0)
    mesh.world.kill("c")
    mesh.pause(12.0)
    address = {"left": "far.test:9092"}  # not encrypted, and not on this machine
    write_topology(with_addresses(mesh.topology, address), Path(file))
    said = run("doctor", "-f", file).out
    assert re.match(r"2 checks failed, 1 warning, \d+ checks passed\n", said)
    told = "failed   nodes: node c serves\nfound    sends no heartbeats\ndo this  start it, or look"
    lines = "\n".join(line.rstrip() for line in said.splitlines())
    assert told in lines
    assert lines.index("\nfailed   links: ") < lines.index("\nwarning  kafka: ")
    assert lines.index("\nwarning  kafka: ") < lines.index("ABOUT")


def test_scripts_find_what_they_always_found(run: Run, chain: Chain) -> None:
    """The shape may only grow."""
    mesh, file = chain
    mesh.pause(3.0)
    mesh.world.kill("c")
    ended = run("doctor", "--category", "nodes", "-f", file, "-o", "json")
    assert (ended.code, ended.data["ok"]) == (10, False)
    [group] = ended.data["categories"]
    assert group["name"] == "nodes"
    assert group["checks"][2] == {
        "description": "node c serves",
        "result": "failed",
        "error": "sends no heartbeats",
        "hint": "start it, or look at its log: mesh node run c",
        "note": "",
        "figures": {},
    }
    assert "result: failed" in run("doctor", "-f", file, "-o", "yaml").out


def test_fix_mends_and_says_before_and_after(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    kafka = mesh.world.kafka["left"]
    kafka.topics["mesh.a.in.g"].settings["retention.ms"] = "1000"
    kafka.delete_topic("mesh.a.dlq")
    said = run("doctor", "--category", "topics", "--fix", "--dry-run", "-f", file)
    assert said.code == 10
    assert "retention.ms=1000" in said.out
    assert "would be done" in said.out
    assert "mesh.a.dlq" not in kafka.topics
    done = run("doctor", "--category", "topics", "--fix", "-f", file, "-o", "json")
    assert done.code == 0
    assert [(one["topic"], one["before"], one["outcome"]) for one in done.data["repairs"]] == [
        ("mesh.a.dlq", {}, "done"),
        ("mesh.a.in.g", {"retention.ms": "1000"}, "done"),
    ]
    assert done.data["repairs"][1]["after"] == {"retention.ms": "-1"}
    assert "nothing to mend" in run("doctor", "--fix", "-f", file).out


def test_what_is_left_alone_says_why(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    mesh.world.kafka["left"].topics["mesh.a.ledger"].settings["retention.ms"] = "-1"
    ended = run("doctor", "--fix", "-f", file, "-o", "json")
    assert ended.code == 10
    [left] = ended.data["repairs"]
    assert (left["outcome"], left["reason"]) == (
        "left alone",
        "it would delete records that are kept now",
    )


def test_before_a_start_no_node_is_needed(run: Run, chain: Chain) -> None:
    mesh, file = chain
    for node in "abc":
        mesh.world.kill(node)
    mesh.world.kafka["left"].delete_topic("mesh.a.dlq")
    ended = run("doctor", "--pre", "-f", file, "-o", "json")
    assert ended.code == 0
    assert [one["name"] for one in ended.data["categories"]] == ["kafka", "rights", "topics"]
    mesh.world.kafka["right"].available = False
    away = run("doctor", "--pre", "-f", file)
    assert (away.code, "no broker answers" in away.out) == (10, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dry-run"], "give both"),
        (["--category", "weather"], "write one of kafka, rights"),
        (["--pre", "--category", "nodes"], "write one of kafka, rights, topics with --pre"),
    ],
)
def test_wrong_input_is_one_line_and_two(
    run: Run, chain: Chain, arguments: list[str], said: str
) -> None:
    ended = run("doctor", *arguments, "-f", chain[1])
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


def test_monitors_are_told_in_their_own_form(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    well = run("doctor", "-f", file, "-o", "nagios")
    assert (well.code, well.out.count("\n")) == (0, 1)
    assert well.out.startswith("MESH OK - 0 failed, 0 warnings, ")
    mesh.world.kill("c")
    ill = run("doctor", "--category", "nodes", "-f", file, "-o", "nagios")
    assert ill.code == 2
    first, second = ill.out.splitlines()
    assert first == "MESH CRITICAL - 1 failed, 0 warnings, 3 checks | failed=1 warnings=0 checks=3"
    assert second.startswith("failed: nodes: node c serves: sends no heartbeats (start it, or ")
    twice = ["--category", "nodes", "--category", "nodes"]  # a series may be there but once
    lines = run("doctor", *twice, "-f", file, "-o", "prometheus").out.splitlines()
    assert len({*lines}) == len(lines)
    assert 'mesh_doctor_check_result{category="nodes",check="node b serves"} 0' in lines
    assert 'mesh_doctor_check_result{category="nodes",check="node c serves"} 2' in lines


def test_nagios_reads_its_own_exit_codes(run: Run, chain: Chain) -> None:
    """A warning is 1, and what could not be looked at is 3: 2 would call a mesh critical."""
    mesh, file = chain
    assert run("subject", "pause", "x/>", "--node", "a", "-f", file).code == 0
    mesh.pause(3.0)
    paused = run("doctor", "--category", "delivery", "-f", file, "-o", "nagios")
    assert (paused.code, paused.out[:12]) == (1, "MESH WARNING")
    nowhere = run("doctor", "-f", f"{file}.gone", "-o", "nagios")
    assert (nowhere.code, nowhere.err) == (3, "")
    assert nowhere.out.startswith("MESH UNKNOWN - ")
    assert nowhere.out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--patience", "soon"], "should be a valid number"),
        (["--nope"], "No such option: --nope"),
        (["more"], "Got unexpected extra argument"),
        (["--dry-run"], "says what --fix would do"),
        (["--category", "moon|sun"], "--category moon/sun: write one of"),
        (["--wait", "nan"], "should be greater than or equal to 0"),
        (["-c", "gone"], "no context is called 'gone'"),
    ],
)
def test_wrong_words_tell_a_monitor_nothing_about_the_mesh(
    arguments: Sequence[str], said: str, run: Run
) -> None:
    """2 would call it critical; the one line that is shown is on standard output."""
    ended = run("doctor", "-o", "nagios", *arguments)
    assert (ended.code, ended.err, ended.out.count("\n")) == (3, "", 1)
    assert ended.out.startswith("MESH UNKNOWN - ")
    assert said in ended.out


def test_other_commands_know_no_form_for_monitors(run: Run) -> None:
    ended = run("validate", "gone.yaml", "-o", "nagios")
    assert (ended.code, ended.out) == (2, "")
    assert "'nagios' is not one of" in ended.err


def test_texts_cannot_break_the_forms() -> None:
    check = {
        "result": "warning", "description": 'a "b"\\', "error": "x|y\nz", "hint": "h",
        "figures": {"a->b frames": 3},
    }  # fmt: skip
    groups = [{"name": "links", "checks": [check]}]
    first, second = nagios_lines(groups)
    assert first.startswith("MESH WARNING - 0 failed, 1 warnings, 1 checks")
    assert second == 'warning: links: a "b"\\: x/y z (h)'
    labels = r'category="links",check="a \"b\"\\"'
    assert list(prometheus_lines(groups)) == [
        "# HELP mesh_doctor_check_result What a check found: 0 ok, 1 warning, 2 failed.",
        "# TYPE mesh_doctor_check_result gauge",
        f"mesh_doctor_check_result{{{labels}}} 1",
        "# HELP mesh_doctor_figure Numbers behind the checks.",
        "# TYPE mesh_doctor_figure gauge",
        f'mesh_doctor_figure{{{labels},figure="a->b frames"}} 3',
    ]


def test_a_kafka_cluster_that_is_away_is_no_flood(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    for node in "bc":
        mesh.world.kill(node)
    mesh.world.kafka["right"].available = False
    ended = run("doctor", "-f", file)
    assert ended.code == 10
    assert ended.out.count("see the checks of kafka") == 7  # one per category
    assert "; and 1 more" in " ".join(ended.out.split())


def test_the_page_says_what_each_category_looks_at() -> None:
    page = Path(__file__).parents[3] / "docs" / "operations.md"
    table = page.read_text(encoding="utf-8").partition("| category |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == list(Category)
