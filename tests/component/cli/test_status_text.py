"""`mesh status` for people: a sentence, what is unusual, and a table that fits."""

from __future__ import annotations

import json

import pytest

from mesh.model.control import Stage
from mesh.model.inputs import TopologyLost
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from tests.component.cli.conftest import Chain, Run
from tests.component.in_memory_mesh import put_in_force


def test_a_sentence_says_how_the_mesh_is(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.pause(3.0)
    lines = run("status", "-f", file).out.splitlines()
    assert lines[0] == "3 nodes up, 2 links up; every subscription is known everywhere"
    assert max(map(len, lines)) <= 80
    assert "LANES" not in "".join(lines)  # one each: nothing to tell
    assert "doctor" not in "".join(lines)


def test_what_is_unusual_stands_before_the_table(run: Run, chain: Chain) -> None:
    """A node that is down, a paused subject and a disabled link each have a line of their own."""
    mesh, file = chain
    mesh.pause(3.0)
    run("subject", "pause", "acme/>", "--node", "a", "--why", "repair", "-f", file)
    run("link", "disable", "a", "b", "--why", "moving house", "-f", file)
    mesh.world.kill("c")
    mesh.pause(12.0)
    ended = run("status", "-f", file)
    text = ended.out
    assert ended.code == 10
    first, *rest = text.splitlines()
    assert "2 nodes up" in first
    assert "1 node down (c)" in first
    assert "whether subscriptions of c are known everywhere cannot be seen" in first
    assert "a: an operator has paused acme/> (repair)" in rest
    assert "a: link to b (moving house) is disabled" in rest
    assert "what to do about it: mesh doctor" in rest
    assert text.index("moving house") < text.index("NODE")


def test_a_pause_says_of_what_and_why(run: Run, chain: Chain) -> None:
    """A link of which one partition waits goes on: who reads `paused` alone looks for more."""
    mesh, file = chain
    mesh.pause(3.0)

    def told() -> list[str]:
        mesh.pause(3.0)
        return [line for line in run("status", "-f", file).out.splitlines() if "paused" in line]

    for partition in ("2", "0"):
        part = ("--from", "a", "--partition", partition)
        run("link", "pause", "a", "b", *part, "--why", "moving house", "-f", file)
        partitions = "partition 2" if partition == "2" else "partitions 0, 2"
        [line] = told()
        assert line == f"b: an operator has paused {partitions} of what comes from a (moving house)"
    run("link", "pause", "a", "b", "--from", "a", "-f", file)
    assert told() == ["b: an operator has paused what comes from a (moving house)"]


def test_a_node_whose_topology_is_lost_says_so(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It beats and routes nothing: only its log said why."""
    mesh, file = chain
    mesh.pause(3.0)
    monkeypatch.setattr(AcknowledgedInterest, "_heed_change", lambda *_: iter(()))
    machine = mesh.world.workers["c"].machine
    assert machine is not None
    machine.step(TopologyLost(7))
    mesh.pause(3.0)
    ended = run("status", "-f", file)
    assert ended.code == 10
    first, *rest = ended.out.splitlines()
    assert "1 node starting (c)" in first
    assert "c: reads nothing: mesh.config has lost version 7, by which it worked" in rest
    looked = run("doctor", "--category", "nodes", "-f", file, "-o", "json")
    [nodes] = json.loads(looked.out)["categories"]
    [told] = [one["error"] for one in nodes["checks"] if one["description"] == "node c serves"]
    assert told == "its lanes read nothing: mesh.config has lost version 7 of the topology"


def test_a_node_of_which_a_worker_may_wait_says_so(run: Run, chain: Chain) -> None:
    """Heartbeats are of the one that leads, which runs on; `mesh doctor` alone said it."""
    mesh, file = chain
    put_in_force(1, mesh.topology, mesh.world.kafka)
    mesh.pause(3.0)
    machine = mesh.world.workers["c"].machine
    assert machine is not None
    machine.change = (7, Stage.RUN)
    mesh.pause(3.0)
    ended = run("status", "-f", file)
    assert ended.code == 10
    lost = "c: mesh.config has lost version 7, by which it works"
    assert f"{lost}: a worker that has started since reads nothing" in " ".join(ended.out.split())
    assert "what to do about it: mesh doctor" in ended.out
