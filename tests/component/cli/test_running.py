"""Commands go by the topology in force; a file that is older only says how to reach Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import TransportDeniedError
from mesh.model.topology import with_addresses
from mesh.operate.changes.founding import publish
from mesh.transport.port import KafkaCluster
from tests.component.cli.conftest import Chain, Run
from tests.component.in_memory_mesh import CHAIN, put_in_force


@pytest.fixture
def old(chain: Chain, tmp_path: Path) -> str:
    """A file of the chain a-b-c from before c was added; c is in force."""
    mesh, _ = chain
    publish(mesh.topology, mesh.world.kafka)
    assert isinstance(CHAIN["nodes"], dict)
    spec = {
        **CHAIN,
        "nodes": {name: CHAIN["nodes"][name] for name in "ab"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
    }
    addresses = {"left": "left.test:9092", "right": "right.test:9092"}
    file = tmp_path / "old.yaml"
    write_topology(with_addresses(topology_from_mapping(spec), addresses), file)
    return str(file)


def test_what_an_apply_added_is_shown_by_an_older_file(run: Run, chain: Chain, old: str) -> None:
    """Spec: K27, kafka.md 1 (`mesh.config`)."""
    made = run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", old, "-o", "json")
    assert (made.code, made.data["known_everywhere"]) == (0, True)
    status = run("status", "-f", old, "-o", "json")
    assert [one["node"] for one in status.data["nodes"]] == ["a", "b", "c"]
    assert status.code == 0
    links = run("links", "-f", old, "-o", "json").data["links"]
    assert [one["link"] for one in links] == ["a->b", "b->a", "b->c", "c->b"]
    assert run("doctor", "-f", old).code == 0
    wanted = run("interest", "b", "-f", old, "-o", "json").data["interest"]
    assert [(one["who"], one["filter"]) for one in wanted] == [("c", "acme/>")]
    assert "c  over Z  => e" in run("explain", "acme/x", "--from", "a", "-f", old).out
    assert run("publish", "acme/x", "hello", "-n", "c", "-f", old).code == 0
    traced = run("trace", "mesh.c.in.g/0/0", "-f", old, "-o", "json")
    assert traced.data["ingress"]["node"] == "c"
    ended = run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", old)
    assert ended.code == 0
    unknown = run("publish", "acme/x", "hello", "-n", "d", "-f", old)
    assert (unknown.code, "no node is called 'd'" in unknown.err) == (2, True)


def test_where_nobody_wrote_what_is_in_force_the_file_stands_for_it(run: Run, chain: Chain) -> None:
    _, file = chain
    status = run("status", "-f", file, "-o", "json")
    assert (len(status.data["nodes"]), status.err) == (3, "")


def test_who_may_not_read_the_record_goes_by_the_file(
    run: Run, chain: Chain, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that publish need no right to `mesh.config`."""

    def deny(*_args: object) -> Never:
        raise TransportDeniedError("topic mesh.config: not authorised")

    monkeypatch.setattr("mesh.operate.changes.in_force.config_values", deny)
    assert run("publish", "x", "y", "-n", "a", "-f", old).code == 0
    assert "no node is called 'c'" in run("publish", "x", "y", "-n", "c", "-f", old).err


def test_an_address_may_be_of_what_only_the_mesh_knows(
    run: Run, chain: Chain, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kafka cluster that an apply brought; a name that nobody knows is refused."""
    mesh, _ = chain
    spec = {**CHAIN, "kafka": {"left": {}, "right": {}, "far": {}}}
    put_in_force(2, topology_from_mapping(spec), mesh.world.kafka)
    asked: list[str] = []

    def open_all(topology: object, *_args: object, **_options: object) -> dict[str, KafkaCluster]:
        far = getattr(topology, "kafka").get("far")  # noqa: B009 - any topology
        asked.append("" if far is None else far.options.get("bootstrap.servers", ""))
        return dict(mesh.world.kafka)

    monkeypatch.setattr("mesh.view.connection.open_kafka", open_all)
    run("status", "-f", old, "--bootstrap", "far=far.test:1")
    assert asked == ["", "far.test:1"]
    wrong = run("status", "-f", old, "--bootstrap", "near=far.test:1")
    assert (wrong.code, "known here: left, right, far" in wrong.err) == (2, True)


@pytest.mark.parametrize("line", ["status", "route a b", "publish x y -n a", "audit report"])
def test_on_a_terminal_every_command_names_the_mesh_that_it_spoke_to(
    line: str, run: Run, chain: Chain, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, so that no script reads it."""
    mesh, _ = chain
    run("context", "add", "tests", "-f", old)
    assert "of context" not in run(*line.split(), "-c", "tests").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    told = run(*line.split(), "-c", "tests")
    assert f"mesh {mesh.topology.name} of context tests, version 1\n" in told.err


@pytest.mark.parametrize(
    ("line", "is_patient"),
    [
        ("endpoint list", False),
        ("endpoint delete a e", True),
        ("drill loss", True),
        ("wait", False),
        ("publish x y -n a", True),
        ("dlq a", False),
    ],
)
def test_brokers_have_more_time_where_something_is_changed(
    line: str, is_patient: bool, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh, file = chain
    given: list[bool] = []

    def open_all(*_args: object, **options: object) -> dict[str, KafkaCluster]:
        given.append("answer_within_s" not in options)
        return dict(mesh.world.kafka)

    monkeypatch.setattr("mesh.view.connection.open_kafka", open_all)
    run(*line.split(), "-f", file)
    assert set(given) == {is_patient}
