"""`mesh link resume` and `mesh node resume`: what is lost is shown, accepted, and gone on from."""

from __future__ import annotations

import pytest

from mesh.transport.port import TopicPartition
from tests.component.cli.conftest import Chain, Run


@pytest.fixture
def stopped(chain: Chain) -> Chain:
    """Node a has lost what was published first at it, and b what a sent it."""
    mesh, _ = chain
    mesh.subscribe("c", "e", ">")
    kafka = mesh.world.kafka["left"]
    for node, topic in (("b", "mesh.a.to.b.g"), ("a", "mesh.a.in.g")):
        mesh.world.kill(node)
        for _ in range(8):
            mesh.publish("a", "x")
        mesh.pause(2)
        ends = {TopicPartition(topic, p): log.end for p, log in enumerate(kafka.topics[topic].logs)}
        kafka.admin().delete_before(ends)
        mesh.world.start(node)
        mesh.pause(4)
    return chain


def test_a_stop_is_shown_by_status_and_by_its_command(run: Run, stopped: Chain) -> None:
    """Spec: R6, DESIGN 6."""
    _, file = stopped
    seen = run("status", "-f", file, "-o", "json")
    assert seen.code == 10
    states = {node["node"]: node for node in seen.data["nodes"]}
    assert states["b"]["links"]["a"] == "stopped"
    assert {one["topic"] for one in states["a"]["stopped"]} == {"mesh.a.in.g"}
    table = run("link", "resume", "a", "b", "-f", file)
    assert table.code == 10
    assert "mesh.a.to.b.g[0]" in table.out
    assert "--accept-gap" in table.out
    told = run("doctor", "--category", "delivery", "-f", file)
    assert told.code == 10
    assert "mesh link resume b a" in " ".join(told.out.split())


def test_only_what_was_named_is_accepted(run: Run, stopped: Chain) -> None:
    """`--from` and `--partition` are of the loss as well: consent reaches no further."""
    _, file = stopped
    words = ("link", "resume", "a", "b", "-f", file)
    assert "nothing to accept" in run(*words, "--from", "b", "--accept-gap").err
    all_of_it = run(*words, "-o", "json").data["stopped"]
    first, *others = sorted(one["partition"] for one in all_of_it)
    assert others
    done = run(*words, "--from", "a", "--partition", str(first), "--accept-gap", "-o", "json")
    assert (done.code, [one["partition"] for one in done.data["accepted"]]) == (0, [first])
    left = run(*words, "-o", "json").data["stopped"]
    assert sorted(one["partition"] for one in left) == others


def test_what_was_accepted_goes_on(run: Run, stopped: Chain) -> None:
    """Spec: R6, DESIGN 6."""
    _, file = stopped
    for words in (("link", "resume", "b", "a"), ("node", "resume", "a")):
        done = run(*words, "--accept-gap", "-f", file, "-o", "json")
        assert done.code == 0, done.err
        assert done.data["ok"]
        assert {one["reason"] for one in done.data["accepted"]} == {"retention"}
        again = run(*words, "--accept-gap", "-f", file)
        assert (again.code, "nothing to accept" in again.err) == (2, True)
    assert run("publish", "x", "news", "-n", "a", "-f", file).code == 0
    got = run(
        "subscribe", ">", "-n", "c", "-e", "e", "--from-beginning", "--count", "1", "-f", file
    )
    assert "lost (retention): mesh.a.in.g[0]" in got.err
    assert run("status", "-f", file).code == 0


def test_wrong_names_are_told(run: Run, chain: Chain) -> None:
    _, file = chain
    assert "no link between a and c" in run("link", "resume", "a", "c", "-f", file).err
    wrong = run("node", "resume", "aa", "-f", file)
    assert (wrong.code, "no node is called 'aa'" in wrong.err) == (2, True)
    assert (
        run("link", "resume", "a", "b", "-f", file).out == "nothing is stopped on the link a - b\n"
    )
