"""`mesh endpoint list`: what waits in endpoints, and for whom."""

from __future__ import annotations

from mesh.transport.port import Passed, TopicPartition
from tests.component.cli.conftest import Mesh, Run

Chain = tuple[Mesh, str]


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
