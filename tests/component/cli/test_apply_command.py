"""`mesh apply`: what it asks, prints and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh.cli.problems import EXIT_COULD_NOT_RUN, EXIT_INTERRUPTED
from mesh.config.located import FILE_BYTES_MAX
from mesh.config.topology_writer import write_topology
from mesh.model.control import Stage
from mesh.model.topology import Topology, with_addresses
from mesh.operate.changes.in_force import read_in_force
from tests.component.cli.conftest import Chain, Run
from tests.component.operate.following import Following, mesh_of

ADDRESSES = {"left": "left.test:9092", "right": "right.test:9092"}
MOVED = (mesh_of("a-b", "b-c"), mesh_of("a-c", "b-c"))

Started = Callable[[Topology, Topology], tuple[Following, str, str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """Nodes that follow, the file of the mesh and the proposed one."""

    def start(before: Topology, after: Topology) -> tuple[Following, str, str]:
        addressed = [with_addresses(one, ADDRESSES) for one in (before, after)]
        nodes = Following(addressed[0], addressed[1])
        monkeypatch.setattr(
            "mesh.view.connection.open_kafka",
            lambda topology, names=None, **_options: {
                name: nodes.kafka[name] for name in (topology.kafka if names is None else names)
            },
        )
        monkeypatch.setattr("mesh.transport.clock.now_ms", nodes.now_ms)
        monkeypatch.setattr("mesh.transport.clock.pause", nodes.pause)
        files = [tmp_path / "mesh.yaml", tmp_path / "new.yaml"]
        for topology, file in zip(addressed, files, strict=True):
            write_topology(topology, file)
        return nodes, str(files[0]), str(files[1])

    return start


def version(nodes: Following) -> int:
    found, _ = read_in_force(nodes.kafka, "mesh.")
    return 0 if found is None else found.number


def test_a_file_is_put_in_force(run: Run, started: Started) -> None:
    """Spec: K28."""
    _, mesh, new = started(*MOVED)
    ended = run("apply", new, "-f", mesh)
    assert ended.code == 0
    assert re.search(r"create +link +a-c", ended.out)
    assert "version 2 is in force; it took" in ended.out
    assert "a paused for" in ended.out
    assert "8 topics that nobody needs any more were left" in ended.out
    assert [line.split(":")[0] for line in ended.err.splitlines() if "stage" in line[:5]] == [
        "stage hold", "stage switch", "stage run",
    ]  # fmt: skip
    again = run("apply", new, "-f", mesh, "-o", "json")
    assert (again.code, again.data["version"], again.data["in_force"]) == (0, 2, True)
    assert again.err == ""


def test_a_kept_plan_is_carried_out_unless_the_mesh_moved_on(
    run: Run, started: Started, tmp_path: Path
) -> None:
    _, mesh, new = started(*MOVED)
    plan = str(tmp_path / "plan.json")
    assert run("plan", new, "-f", mesh, "--out", plan).code == 3
    ended = run("apply", plan, "-f", mesh, "-o", "json")
    assert (ended.code, ended.data["version"]) == (0, 2)
    assert set(ended.data["pauses_ms"]) == {"a", "b", "c"}
    refused = run("apply", plan, "-f", mesh)
    assert (refused.code, "MOVED_ON" in refused.err, "plan again" in refused.err) == (2, True, True)


def test_a_kept_plan_may_be_larger_than_what_people_write(
    run: Run, started: Started, tmp_path: Path
) -> None:
    """It lists every topic and right of each new link."""
    _, mesh, new = started(*MOVED)
    plan = tmp_path / "plan.json"
    run("plan", new, "-f", mesh, "--out", str(plan))
    with plan.open("a", encoding="utf-8") as file:
        file.write(" " * FILE_BYTES_MAX)
    ended = run("apply", str(plan), "-f", mesh, "-o", "json")
    assert (ended.code, ended.data["version"]) == (0, 2)
    refused = run("apply", str(plan), "-f", mesh)
    assert (refused.code, "plan.json:1:1: base: the plan was made" in refused.err) == (2, True)
    plan.write_text(plan.read_text(encoding="utf-8").replace('"Plan"', '"Mesh"'), encoding="utf-8")
    assert "TOO_LARGE" in run("apply", str(plan), "-f", mesh).err


def test_what_cannot_be_is_refused_before_anything_is_written(
    run: Run, started: Started, tmp_path: Path
) -> None:
    nodes, mesh, new = started(*MOVED)
    write_topology(with_addresses(mesh_of("a-b", "b-c", "a-c"), ADDRESSES), tmp_path / "ring.yaml")
    ended = run("apply", str(tmp_path / "ring.yaml"), "-f", mesh)
    assert (ended.code, "TWO_WALKS" in ended.err) == (2, True)
    nodes.down.add("b")
    ended = run("apply", new, "-f", mesh, "-o", "json")
    assert ended.code == 2
    assert "node b must take part" in ended.data["error"][0]["message"]
    nodes.down.clear()
    nodes.kafka["right"].available = False
    ended = run("apply", new, "-f", mesh)
    # Nobody refused it: the job of the chart, for one, tries again.
    assert (ended.code, "nothing was changed: " in ended.err) == (EXIT_COULD_NOT_RUN, True)
    nodes.kafka["right"].available = True
    assert run("apply", "-f", mesh).code == 2
    assert run("apply", new, "--abort", "-f", mesh).code == 2
    assert "NO_CHANGE" in run("apply", "--abort", "-f", mesh).err
    assert (version(nodes), nodes.seen) == (1, [])


def test_a_wrong_file_is_told_before_anybody_is_asked(
    run: Run, started: Started, tmp_path: Path
) -> None:
    """Also where no Kafka cluster answers: the file is as wrong."""
    nodes, mesh, _ = started(*MOVED)
    for kafka in nodes.kafka.values():
        kafka.available = False
    write_topology(with_addresses(mesh_of("a-b", "b-c", "a-c"), ADDRESSES), tmp_path / "ring.yaml")
    (tmp_path / "odd.yaml").write_text("apiVersion: mesh/v1\nkind: Mesh\nmetadat: {}\n")
    for name, code in (("ring", "TWO_WALKS"), ("odd", "UNKNOWN_KEY"), ("gone", "NO_FILE")):
        ended = run("apply", str(tmp_path / f"{name}.yaml"), "-f", mesh)
        assert (ended.code, f"[{code}]" in ended.err) == (2, True), ended
        assert "does not answer" not in ended.err


def test_not_in_time_tells_how_to_go_on_and_back(run: Run, started: Started) -> None:
    nodes, mesh, new = started(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}
    ended = run("apply", new, "-f", mesh, "--wait", "3")
    assert ended.code == 10
    assert "waiting: b still commits what it has taken" in ended.err
    assert "mesh apply --abort" in ended.err.splitlines()[-1]
    ended = run("apply", "--abort", "-f", mesh)
    assert (ended.code, "change 2 is aborted" in ended.out) == (0, True)
    nodes.stuck = {}
    assert run("apply", new, "-f", mesh, "-o", "json").data["version"] == 3


def test_what_nobody_watches_and_is_late_is_taken_back(run: Run, started: Started) -> None:
    """Sources would pause until somebody comes: a deployment tool only says that it failed."""
    nodes, mesh, new = started(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}
    ended = run("apply", new, "-f", mesh, "--wait", "3", "--unattended")
    assert ended.code == 10
    assert (
        "b still commits what it has taken; the change was rolled back and no node is paused"
        in ended.err
    )
    assert run("apply", "--abort", "-f", mesh).code == 2
    nodes.stuck = {}
    assert run("apply", new, "-f", mesh, "-o", "json").data["version"] == 3


def test_what_is_told_to_end_is_taken_back(
    run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pod that is evicted, or whose job has no time left; another one begins anew."""
    nodes, mesh, new = started(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}

    def pause(seconds: float) -> None:
        nodes.pause(seconds)
        if nodes.seen and signal.getsignal(signal.SIGTERM) is not before:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("mesh.transport.clock.pause", pause)
    ended = run("apply", new, "-f", mesh, "--unattended")
    assert (ended.code, "the change was rolled back" in ended.err) == (EXIT_INTERRUPTED, True)
    assert signal.getsignal(signal.SIGTERM) is before
    nodes.stuck = {}
    assert run("apply", "--abort", "-f", mesh).code == 2


def test_what_was_left_before_is_taken_back_first(run: Run, started: Started) -> None:
    """As by a job that was killed: the former file stands for the way back."""
    nodes, mesh, new = started(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}
    run("apply", new, "-f", mesh, "--wait", "3")
    nodes.stuck = {}
    assert "UNDER_WAY" in run("apply", mesh, "-f", mesh).err
    ended = run("apply", mesh, "-f", mesh, "-o", "json", "--unattended")
    assert (ended.code, ended.data["version"]) == (0, 1)
    assert "taking back the change to version 2" in ended.err
    nodes.stuck = {"b": Stage.SWITCH}
    run("apply", new, "-f", mesh, "--wait", "3")
    ended = run("apply", mesh, "-f", mesh, "--unattended")  # there is no way back any more
    assert (ended.code, "UNDER_WAY" in ended.err) == (2, True)


def test_a_change_that_would_add_a_kafka_cluster_can_be_aborted(run: Run, started: Started) -> None:
    nodes, mesh, new = started(
        mesh_of("a-a2", nodes="a a2"), mesh_of("a-b", "a-a2", nodes="a a2 b")
    )
    nodes.stuck = {"a": Stage.HOLD}
    assert run("apply", new, "-f", mesh, "--wait", "3").code == 10
    nodes.stuck = {}
    ended = run("apply", "--abort", "-f", mesh)
    assert (ended.code, "change 2 is aborted" in ended.out) == (0, True)


def test_a_change_that_was_left_needs_no_more_than_the_same_command(
    run: Run, started: Started
) -> None:
    nodes, mesh, new = started(*MOVED)
    nodes.stuck = {"b": Stage.SWITCH}
    assert run("apply", new, "-f", mesh, "--wait", "3").code == 10
    assert "TOO_LATE" in run("apply", "--abort", "-f", mesh).err
    nodes.stuck = {}
    ended = run("apply", new, "-f", mesh, "-o", "json")
    assert (ended.code, ended.data["version"]) == (0, 2)
    assert "going on with the change to version 2 at stage switch" in ended.err


def test_topics_are_deleted_only_if_that_is_allowed(run: Run, started: Started) -> None:
    nodes, mesh, new = started(mesh_of("a-b", "b-c"), mesh_of("a-b", nodes="a b"))
    there = nodes.topics()
    ended = run("apply", new, "-f", mesh, "-o", "json", "--allow-delete")
    assert ended.code == 0
    deleted = {one["topic"] for one in ended.data["deleted"]}
    assert there - nodes.topics() == deleted
    assert "mesh.c.to.b.g" in deleted
    assert "mesh.c.ledger" in [one["topic"] for one in ended.data["left"]]


def test_people_are_asked(run: Run, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, mesh, new = started(*MOVED)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_args, **_options: False)
    ended = run("apply", new, "-f", mesh)
    assert (ended.code, "nothing was changed" in ended.err, version(nodes)) == (2, True, 1)
    assert run("apply", new, "-f", mesh, "--yes").code == 0
    assert json.loads(run("export", "-f", mesh, "-o", "json").out)["kind"] == "Mesh"


def test_status_tells_of_a_change_under_way(
    run: Run, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, mesh, new = started(*MOVED)
    monkeypatch.setattr("mesh.transport.clock.wall_ms", nodes.now_ms)
    assert run("status", "-f", mesh, "-o", "json").data["change"] is None
    nodes.stuck = {"b": Stage.HOLD}
    run("apply", new, "-f", mesh, "--wait", "3")
    told = run("status", "-f", mesh, "-o", "json").data["change"]
    assert 3 <= told.pop("since_s") < 10
    assert told == {"version": 2, "stage": "hold", "holding": ["a", "b", "c"]}
    assert "a change to version 2 has been at stage hold" in run("status", "-f", mesh).out


def test_who_applies_the_files_of_nodes_puts_them_in_force(run: Run, chain: Chain) -> None:
    """Nodes started one by one go by their files; from then on a change knows what it changes."""
    mesh, file = chain
    mesh.pause(3.0)
    first = run("apply", file, "-f", file, "-o", "json")
    assert (first.code, first.data["version"]) == (0, 1)
    again = run("apply", file, "-f", file, "-o", "json")
    assert (again.code, again.data["version"], again.err) == (0, 1, "")
