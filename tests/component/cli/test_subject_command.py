"""`mesh subject pause`: what is published under a filter waits, in order, and nothing is lost."""

from __future__ import annotations

import pytest

from mesh.errors import BackpressureError, PausedError, TransportUnavailableError
from mesh.model.frames import MessageClass
from tests.component.admin_faults import AdminFaults
from tests.component.cli.conftest import Chain, Mesh, Run


def delivered(mesh: Mesh) -> list[bytes]:
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    logs = kafka.topics["mesh.c.ep.e"].logs
    return [record.value() or b"" for log in logs for record in log.entries if record is not None]


def in_partition(mesh: Mesh, partition: int) -> list[bytes]:
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    entries = kafka.topics["mesh.c.ep.e"].logs[partition].entries
    return [record.value() or b"" for record in entries if record is not None]


def write(mesh: Mesh, subject: str, value: bytes, partition: int = 0, letter: str = "g") -> None:
    """Write as a plain producer does, who knows nothing of pauses."""
    writer = mesh.world.kafka[mesh.topology.nodes["a"].kafka].writer("plain")
    headers = [("mesh-subject", subject.encode())]
    writer.produce(f"mesh.a.in.{letter}", value, b"key", partition, headers=headers)
    assert writer.flush() == 0


def test_a_partition_waits_at_the_first_message_that_is_paused(run: Run, chain: Chain) -> None:
    """What came before it is taken, what comes after waits too: so order is kept."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    for subject in ("y", "x/2", "x/1"):  # from now on each is known
        write(mesh, subject, b"before " + subject.encode(), partition=2)
    write(mesh, "x/1", b"before")
    mesh.pause(3)
    done = run("subject", "pause", "x/*", "--node", "a", "--why", "audit", "-f", file)
    assert done.code == 0, done.err
    mesh.pause(1)
    for number, subject in enumerate(["y", "x/1", "y", "x/2", "y"]):
        write(mesh, subject, b"%d" % number)
    write(mesh, "y", b"elsewhere", partition=1)
    mesh.pause(3)
    assert sorted(in_partition(mesh, 0)) == [b"0", b"before"]
    assert in_partition(mesh, 1) == [b"elsewhere"]
    assert run("subject", "resume", "x/*", "--node", "a", "-f", file).code == 0
    mesh.pause(3)
    assert in_partition(mesh, 0) == [b"before", b"0", b"1", b"2", b"3", b"4"]


def test_clients_are_told_at_once_which_pause_it_is(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    client = mesh.client("a")
    client.publish("x/1", b"before")
    client.flush()
    run("subject", "pause", "x/>", "--node", "a", "--why", "audit", "-f", file)
    mesh.pause(1)
    for message_class in MessageClass:
        with pytest.raises(PausedError, match=r"a takes nothing under 'x/>'.*\(audit\)") as refused:
            client.publish("x/1", b"no", message_class=message_class)
    assert isinstance(refused.value, BackpressureError)
    client.publish("y", b"other")
    mesh.client("b").publish("x/1", b"elsewhere")
    assert client.flush() == 1
    mesh.pause(3)
    run("subject", "resume", "x/>", "--node", "a", "-f", file)
    mesh.pause(1)
    client.publish("x/1", b"after")
    client.flush()
    mesh.pause(3)
    assert sorted(delivered(mesh)) == [b"after", b"before", b"elsewhere", b"other"]


def test_what_cannot_be_asked_refuses_nothing(chain: Chain) -> None:
    """The node itself has the message wait; who publishes does not wait for an answer again."""
    mesh, _ = chain
    client = mesh.client("a")
    client.publish("x", b"before")
    assert client.flush() == 1
    kafka = mesh.world.kafka[mesh.topology.nodes["a"].kafka]
    faults = AdminFaults(stable_ends=TransportUnavailableError("no broker answers"))
    kafka.faults = faults
    for _ in range(9):
        mesh.pause(1)
        client.publish("x", b"during")
    kafka.faults = None
    assert client.flush() == 9
    assert faults.about("stable_ends").count(["mesh.config"]) == 1  # workers ask of other topics


def test_direct_messages_wait_too(run: Run, chain: Chain) -> None:
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    run("subject", "pause", "x", "--node", "a", "-f", file)
    mesh.pause(1)
    write(mesh, "x", b"direct", letter="d")
    mesh.pause(3)
    assert delivered(mesh) == []
    run("subject", "resume", "x", "--node", "a", "-f", file)
    mesh.pause(3)
    assert delivered(mesh) == [b"direct"]


def test_a_pause_holds_through_takeovers(run: Run, chain: Chain) -> None:
    """Whoever takes the lane knows of the pause first; where it waits, the next one goes on."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    mesh.world.start("a", 1)
    mesh.pause(3)
    assert run("subject", "pause", "x", "--node", "a", "-f", file).code == 0
    mesh.pause(1)
    for number in range(8):
        write(mesh, "y" if number < 4 else "x", b"%d" % number, partition=number % 4)
    mesh.pause(2)
    mesh.world.kill("a", 0)
    mesh.pause(10)
    assert sorted(delivered(mesh)) == [b"0", b"1", b"2", b"3"]
    mesh.world.kill("a", 1)
    mesh.world.start("a", 2)
    mesh.pause(10)
    assert sorted(delivered(mesh)) == [b"0", b"1", b"2", b"3"]
    assert run("subject", "resume", "x", "--node", "a", "-f", file).code == 0
    mesh.pause(5)
    assert sorted(delivered(mesh)) == [b"%d" % number for number in range(8)]


def test_what_is_paused_is_shown(run: Run, chain: Chain) -> None:
    mesh, file = chain
    for filter_ in ("x/>", "y z"):
        assert run("subject", "pause", filter_, "--node", "a", "-f", file).code == 0
    write(mesh, "x/1", b"waits")
    mesh.pause(1)
    shown = run("subject", "list", "-f", file, "-o", "json").data["paused"]
    assert [(one["node"], one["filter"]) for one in shown] == [("a", "x/>"), ("a", "y z")]
    status = run("status", "-f", file, "-o", "json")
    [node] = [one for one in status.data["nodes"] if one["node"] == "a"]
    assert node["paused_subjects"] == shown
    told = run("doctor", "--category", "delivery", "-f", file)
    text = " ".join(told.out.split())
    assert (told.code, "paused: x/>; y z" in text) == (0, True), text
    assert "mesh subject resume 'y z' --node a" in text
    run("subject", "pause", "x/>", "--node", "a", "--why", "moving house", "-f", file)
    mesh.pause(1)
    assert "an operator has paused x/> (moving house)" in run("status", "-f", file).out
    done = run("subject", "resume", "x/>", "--node", "a", "-f", file)
    assert "y z at a: still paused" in done.err


def test_what_cannot_be_paused_is_told(run: Run, chain: Chain) -> None:
    _, file = chain
    for words, told in (
        (("pause", "a//b", "--node", "a"), "has an empty level 2"),
        (("pause", "a", "--node", "nobody"), "no node is called 'nobody'"),
        (("resume", "a", "--node", "a"), "'a' is not paused at a; paused: nothing"),
    ):
        done = run("subject", *words, "-f", file)
        assert (done.code, told in done.err) == (2, True), done.err
