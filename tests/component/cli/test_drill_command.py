"""`mesh drill`: what it says, where it refuses, and that it tidies up behind itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh.operate.audit.drills import DrillKind
from mesh.transport.port import TopicPartition, TopicSpec
from tests.component.cli.conftest import Chain, Run, chain_of
from tests.component.in_memory_mesh import CHAIN, put_in_force

PLACE = TopicPartition("mesh.c.ep.drill-duplicate", 0)


@pytest.fixture
def drilled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chain]:
    """The chain, which allows drills in force."""
    for mesh, file in chain_of({**CHAIN, "drills": "allowed"}, monkeypatch, tmp_path):
        put_in_force(1, mesh.topology, mesh.world.kafka)
        yield mesh, file


@pytest.fixture
def audited(drilled: Chain, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """It, with an auditor that finds a drill as soon as its endpoint is there."""
    mesh, _ = drilled
    left, right = mesh.world.kafka["left"], mesh.world.kafka["right"]
    left.admin().create([TopicSpec(name="mesh.audit.findings", partitions=1, settings={})])
    writer = left.writer("auditor")

    def finds(kind: str, endpoint: str, first: int = 0) -> None:
        evidence = [f"mesh.c.ep.drill-duplicate/0@{first}-{first + 1}"]
        said = {"kind": kind, "endpoint": endpoint, "id": f"id-{kind}", "evidence": evidence}
        writer.produce("mesh.audit.findings", json.dumps(said).encode(), kind.encode(), 0)
        writer.flush()

    finds("duplicate", "c/drill-duplicate")  # of a drill before

    def pause(seconds: float) -> None:
        mesh.pause(seconds)
        if right.admin().named("mesh.c.ep.drill-"):
            finds("corrupt", "c/other")
            finds("duplicate", "c/drill-duplicate", 1_000)  # said again of another time
            finds("duplicate", "c/drill-duplicate", right.admin().ends([PLACE])[PLACE] - 2)

    monkeypatch.setattr("mesh.transport.clock.pause", pause)
    return drilled


def test_a_drill_is_planted_and_its_finding_told(run: Run, audited: Chain) -> None:
    """With the time that it took, the records, and where to read on; nothing stays subscribed."""
    mesh, file = audited
    ended = run("drill", "duplicate", "--from", "a", "--to", "c", "-f", file, "-o", "json")
    assert ended.code == 0, ended.err
    told = ended.data
    assert (told["endpoint"], told["expected"]) == ("c/drill-duplicate", "duplicate")
    assert told["found"]["id"] == "id-duplicate"
    assert 0 <= told["seconds"] < 10
    assert told["records"] == [f"mesh.c.ep.drill-duplicate/0@{offset}" for offset in (0, 1)]
    mesh.pause(1)
    view = mesh.view()
    view.refresh()
    assert view.nodes["c"].subscriptions == {}
    view.close()
    shown = run("drill", "duplicate", "--from", "a", "--to", "c", "-f", file)
    assert "see mesh audit explain id-duplicate" in shown.out
    assert "planted a message that an endpoint gets twice, in c/drill-duplicate" in shown.err


def test_what_is_not_found_is_said(run: Run, drilled: Chain) -> None:
    """Nobody audits: exit code 10 when the time is over."""
    ended = run("drill", "corrupt", "--timeout", "3", "-f", drilled[1])
    assert ended.code == 10
    assert "does the auditor run? mesh audit status" in ended.out


def test_all_drills_are_listed(run: Run) -> None:
    """Without a mesh."""
    ended = run("drill", "-o", "json")
    assert list(ended.data) == [one.value for one in DrillKind]
    assert "wrong-recipient" in run("drill").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("dupplicate",), "no drill 'dupplicate'"),
        (("duplicate", "--from", "x"), "no node is called 'x'"),
        (("duplicate", "--from", "a", "--to", "a"), "needs two nodes that messages get between"),
    ],
)
def test_what_is_wrong_is_one_line(
    run: Run, drilled: Chain, arguments: tuple[str, ...], says: str
) -> None:
    """Exit code 2, and nothing is written."""
    ended = run("drill", *arguments, "-f", drilled[1])
    assert ended.code == 2
    assert says in ended.err
    assert "Traceback" not in ended.err


def test_a_mesh_that_does_not_allow_it_is_left_alone(run: Run, chain: Chain) -> None:
    """Nothing is published, nobody subscribes."""
    mesh, file = chain
    put_in_force(1, mesh.topology, mesh.world.kafka)
    ended = run("drill", "loss", "-f", file)
    assert ended.code == 2
    assert "this mesh allows no drills; put `drills: allowed` under spec" in ended.err
    assert mesh.world.kafka["right"].admin().named("mesh.c.ep.") == []


def test_a_file_alone_allows_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where nobody has put a topology in force, anybody's copy of a file could allow it."""
    for mesh, file in chain_of({**CHAIN, "drills": "allowed"}, monkeypatch, tmp_path):
        ended = run("drill", "duplicate", "-f", file)
        assert ended.code == 2
        assert "nobody has put a topology in force here" in ended.err
        assert mesh.world.kafka["right"].admin().named("mesh.c.ep.") == []


def test_no_application_gets_what_a_drill_publishes(run: Run, drilled: Chain) -> None:
    mesh, file = drilled
    client = mesh.client("c")
    client.wait(client.subscribe("all", ">"))
    ended = run("drill", "duplicate", "--from", "a", "--to", "c", "-f", file)
    assert ended.code == 2
    assert "c/all wants '>', so it would get what the drill publishes" in ended.err
    assert client.deliveries("all").read(1.0) == ()
