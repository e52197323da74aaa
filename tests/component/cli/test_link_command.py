"""`mesh link pause` and `mesh link resume`: what is paused waits, is shown, and comes."""

from __future__ import annotations

from mesh.transport.port import TopicPartition
from tests.component.cli.conftest import Chain, Mesh, Run, delivered


def read_by(mesh: Mesh, node: str, topic: str) -> dict[int, int]:
    """Return where a node stands in a topic, by partition."""
    lanes = mesh.world.workers[node].lanes
    assert lanes is not None
    return {
        at.partition: position
        for lane in lanes.owned.values()
        for at, position in lane.progress.next.items()
        if at.topic == topic
    }


def test_a_paused_link_waits_and_goes_on(run: Run, chain: Chain) -> None:
    """Both classes wait; interest goes on; nothing is lost. Spec: R14."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    done = run("link", "pause", "a", "b", "--from", "a", "--why", "moving house", "-f", file)
    assert (done.code, "PAUSED FROM" in done.out) == (0, True)
    mesh.pause(1)
    for _ in range(5):
        mesh.publish("a", "x")
    mesh.pause(3)
    assert delivered(mesh) == 0
    shown = run("links", "-f", file, "-o", "json")
    [there] = [one for one in shown.data["links"] if one["link"] == "a->b"]
    assert (shown.code, there["state"], there["reason"]) == (10, "paused", "paused: moving house")
    assert there["backlog_messages"] == 5
    [back] = [one for one in shown.data["links"] if one["link"] == "b->a"]
    assert back["state"] == "up"
    status = run("status", "-f", file, "-o", "json")
    [node] = [one for one in status.data["nodes"] if one["node"] == "b"]
    wanted = {"from": "a", "to": "b", "partition": None, "why": "moving house"}
    assert (node["paused"], node["links"]["a"]) == ([wanted], "up")
    told = " ".join(run("doctor", "--category", "delivery", "-f", file).out.split())
    assert "paused: the link from a (moving house)" in told
    assert "mesh link resume b a" in told
    done = run("link", "resume", "b", "a", "-f", file, "-o", "json")
    assert (done.code, done.data["resumed"]) == (0, [wanted])
    mesh.pause(3)
    assert delivered(mesh) == 5
    assert run("links", "-f", file).code == 0


def test_a_pause_holds_through_a_restart(run: Run, chain: Chain) -> None:
    """A worker reads what operators want before it reads messages."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    assert run("link", "pause", "a", "b", "-f", file).code == 0
    mesh.pause(1)
    mesh.publish("a", "x")
    mesh.world.kill("b")
    mesh.pause(1)
    mesh.world.start("b")
    mesh.pause(5)
    assert delivered(mesh) == 0
    assert run("link", "resume", "a", "b", "-f", file).code == 0
    mesh.pause(3)
    assert delivered(mesh) == 1


def test_one_partition_may_be_paused(run: Run, chain: Chain) -> None:
    """The others go on."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    assert run("link", "pause", "a", "b", "--partition", "0", "-f", file).code == 0
    mesh.pause(1)
    for _ in range(8):
        mesh.publish("a", "x")  # without keys: in turn over the partitions
    mesh.pause(3)
    kafka = mesh.world.kafka[mesh.topology.nodes["a"].kafka]
    places = [TopicPartition("mesh.a.to.b.g", p) for p in range(4)]
    ends = kafka.admin().ends(places)
    assert ends[places[0]] > 0
    stands = read_by(mesh, "b", "mesh.a.to.b.g")
    assert stands.get(0, 0) == 0
    assert all(stands[at.partition] > 0 for at in places[1:])
    shown = run("links", "-f", file, "-o", "json")
    [there] = [one for one in shown.data["links"] if one["link"] == "a->b"]
    assert (there["state"], there["reason"]) == ("up", "partition 0 paused")
    other = run("link", "resume", "a", "b", "--partition", "1", "-f", file)
    assert "a to b, partition 0: still paused" in other.err
    done = run("link", "resume", "a", "b", "--partition", "0", "-f", file)
    assert (done.code, "partition 0: no longer paused" in done.err) == (0, True)
    mesh.pause(3)
    assert delivered(mesh) == 8


def test_what_cannot_be_paused_is_told(run: Run, chain: Chain) -> None:
    _, file = chain
    for words, told in (
        (("a", "c"), "no link between a and c; a has links to b"),
        (("a", "b", "--from", "c"), "c is not an end of this link; give a or b"),
        (("a", "b", "--partition", "99"), "the outboxes have partitions 0 to 3"),
        (("a", "nobody"), "no node is called 'nobody'"),
    ):
        for command in ("pause", "resume"):
            done = run("link", command, *words, "-f", file)
            assert (done.code, told in done.err) == (2, True), done.err
