"""`mesh endpoint list`: what waits in endpoints, and for whom."""

from __future__ import annotations

import pytest

from mesh.transport.port import Passed, TopicPartition, TopicSpec
from tests.component.cli.conftest import Chain, Mesh, Run


def test_endpoints_are_listed_with_their_slowest_reader(run: Run, chain: Chain) -> None:
    """Of two groups the one that has passed less; markers of transactions are no messages."""
    mesh, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    run("subscribe", "news", "-n", "a", "-e", "d", "--class", "direct", "-f", file)
    for number in range(5):
        run("publish", f"acme/{number}", "x", "-n", "a", "-f", file)
    mesh.pause(2.0)
    listed = {one["endpoint"]: one for one in rows(run, file)}
    assert (listed["e"]["readers"], listed["e"]["waiting"]) == (0, None)
    assert (listed["e"]["class"], listed["d"]["class"]) == ("guaranteed", "direct")
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    for group, count in (("quick", 4), ("slow", 1)):
        consumer = kafka.consumer(group, group, "mesh.c.ep.e")
        taken = 0
        while taken < count:
            for record in consumer.read(0.1, count - taken):
                taken += 1
                place = TopicPartition(record.topic(), record.partition())
                consumer.commit({place: Passed(record.offset() + 1)})
        consumer.close()
    [one] = rows(run, file, "--node", "c")
    assert (one["readers"], one["slowest"], one["waiting"]) == (2, "slow", 4)
    told = run("endpoint", "list", "-f", file).out
    assert "no reader" in told
    assert "slow" in told


def rows(run: Run, file: str, *more: str) -> list[dict[str, object]]:
    ended = run("endpoint", "list", "-f", file, "-o", "json", *more)
    assert ended.code == 0
    found: list[dict[str, object]] = ended.data["endpoints"]
    return found


def test_a_node_that_does_not_exist_is_one_line(run: Run, chain: Chain) -> None:
    ended = run("endpoint", "list", "--node", "z", "-f", chain[1])
    assert (ended.code, ended.out) == (2, "")
    assert "no node is called 'z'" in ended.err


def left_over(run: Run, mesh: Mesh, file: str) -> None:
    """Have endpoint e of node c hold two messages, and nobody subscribe it."""
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    for number in range(2):
        run("publish", f"acme/{number}", "x", "-n", "c", "-f", file)
    mesh.pause(2.0)
    run("unsubscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    mesh.pause(2.0)


def test_an_endpoint_that_nobody_subscribes_is_listed_and_deleted(run: Run, chain: Chain) -> None:
    """Only once it is read, or with a word more; who subscribes it again begins with an empty one."""
    mesh, file = chain
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    left_over(run, mesh, file)
    [one] = run("endpoint", "list", "-f", file, "-o", "json").data["unsubscribed"]
    assert (one["endpoint"], one["unread"], one["topics"]) == ("e", 2, ["mesh.c.ep.e"])
    assert "NOBODY SUBSCRIBES" in run("endpoint", "list", "-f", file).out
    refused = run("endpoint", "delete", "c", "e", "-f", file)
    assert (refused.code, "UNREAD" in refused.err) == (2, True)
    assert "2 records wait there, and no group reads them" in refused.err
    kafka.admin().create([TopicSpec(name="mesh.c.ep.e.dlq", partitions=1)])
    unasked = run("endpoint", "delete", "c", "e", "--unread", "-f", file)
    assert (unasked.code, "--yes: cannot ask for confirmation" in unasked.err) == (2, True)
    assert kafka.admin().named("mesh.c.ep.") != []
    command = ("endpoint", "delete", "c", "e", "--unread", "--yes", "-f", file)
    ended = run(*command, "-o", "json")
    assert (ended.code, ended.data["deleted"]["topics"]) == (
        0,
        ["mesh.c.ep.e", "mesh.c.ep.e.dlq"],
    )
    assert kafka.admin().named("mesh.c.ep.") == []
    assert run("endpoint", "list", "-f", file, "-o", "json").data["unsubscribed"] == []
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "-f", file)
    run("publish", "acme/3", "x", "-n", "a", "-f", file)
    mesh.pause(3.0)
    assert sum(log.end for log in kafka.topics["mesh.c.ep.e"].logs) >= 1


def test_what_somebody_may_want_is_not_deleted(run: Run, chain: Chain) -> None:
    """Subscribed, read now, groups that are not shown, a node that has not heard: each one line."""
    mesh, file = chain
    kafka = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    command = ("endpoint", "delete", "c", "e", "--unread", "-f", file)
    assert "NO_TOPIC" in run(*command).err
    left_over(run, mesh, file)
    consumer = kafka.consumer("reads", "reads", "mesh.c.ep.e")
    kafka.commit_group("reads", {TopicPartition("mesh.c.ep.e", 0): 0})
    in_use = run(*command)
    assert (in_use.code, "group reads read it now" in in_use.err) == (2, True)
    consumer.close()
    kafka.hides_groups = True
    unknown = run(*command)
    assert (unknown.code, "who still reads it is not known" in unknown.err) == (2, True)
    [one] = run("endpoint", "list", "-f", file, "-o", "json").data["unsubscribed"]
    assert (one["unread"], bool(one["doubt"])) == (None, True)
    kafka.hides_groups = False
    mesh.world.kill("c")
    writer = kafka.writer("client")
    writer.produce("mesh.c.clients", b"{}", b"other x/y", 0)
    assert writer.flush() == 0
    silent = run(*command)
    assert (silent.code, "has not taken in yet" in silent.err) == (2, True)
    writer.produce("mesh.c.clients", b"{}", b"E x/y", 0)
    assert writer.flush() == 0
    assert "SUBSCRIBED" in run(*command).err
    assert "mesh.c.ep.e" in kafka.topics
    assert run("endpoint", "delete", "z", "e", "-f", file).code == 2


def test_who_subscribes_while_somebody_thinks_keeps_the_endpoint(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh, file = chain
    left_over(run, mesh, file)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_args, **_options: False)
    command = ("endpoint", "delete", "c", "e", "--unread", "-f", file)
    assert (run(*command).code, "mesh.c.ep.e" in mesh.world.kafka["right"].topics) == (2, True)

    def subscribe(*_args: object, **_options: object) -> bool:
        mesh.subscribe("c", "e", "acme/>")
        return True

    monkeypatch.setattr("typer.confirm", subscribe)
    refused = run(*command)
    assert (refused.code, "SUBSCRIBED" in refused.err) == (2, True)
    assert "mesh.c.ep.e" in mesh.world.kafka["right"].topics
