"""`mesh dlq`: what was refused or put aside, and why."""

from __future__ import annotations

from tests.component.cli.conftest import Chain, Run


def test_letters_are_listed_with_what_they_say(run: Run, chain: Chain) -> None:
    """A refused record, and one that an endpoint lacks. Spec: R12."""
    mesh, file = chain
    mesh.subscribe("c", "e", ">")
    client = mesh.client("a")
    kafka = mesh.world.kafka[mesh.topology.nodes["a"].kafka]
    writer = kafka.writer("plain")
    writer.produce("mesh.a.in.g", b"v" * 70_000, b"key", 0, headers=[("other", b"1")])
    assert writer.flush() == 0
    there = mesh.world.kafka[mesh.topology.nodes["c"].kafka]
    there.topics["mesh.c.ep.e"].message_bytes_max = 700
    client.publish("x", b"y" * 700, headers=[("own", b"1")])
    client.flush()
    mesh.pause(60)
    [refused] = run("dlq", "a", "-f", file, "-o", "json").data["letters"]
    assert (refused["reason"], refused["size"], refused["is_whole"]) == (
        "NO_SUBJECT",
        70_009,
        False,
    )
    assert (refused["source"], refused["target"]) == ("mesh.a.in.g[0]@0", "")
    done = run("dlq", "c", "-f", file, "-o", "json")
    [aside] = done.data["letters"]
    assert (aside["subject"], aside["reason"], aside["is_whole"]) == ("x", "QUARANTINED", True)
    assert aside["target"] == "mesh.c.ep.e"
    assert aside["identity"].split("/")[0] == kafka.topics["mesh.a.in.g"].info.topic_id.hex()
    assert aside["place"].startswith("mesh.c.dlq[1]@")
    shown = run("dlq", "c", "-f", file)
    assert all(word in shown.out for word in ("IDENTITY", aside["identity"], "QUARANTINED"))
    told = " ".join(run("doctor", "--category", "delivery", "-f", file).out.split())
    assert "1 QUARANTINED" in told
    assert "mesh dlq c" in told


def test_without_letters_the_list_is_empty(run: Run, chain: Chain) -> None:
    _, file = chain
    assert run("dlq", "b", "-f", file, "-o", "json").data["letters"] == []
    assert run("dlq", "nobody", "-f", file).code == 2


def test_a_queue_that_a_node_has_not_is_named(run: Run, chain: Chain) -> None:
    """An empty list would look as if nothing had been given up."""
    mesh, file = chain
    mesh.subscribe("b", "jobs", "jobs/>")
    assert run("dlq", "b", "--queue", "jobs", "-f", file).code == 0
    for queue in ("job", "no name"):
        ended = run("dlq", "b", "--queue", queue, "-f", file)
        assert ended.code == 2
        assert f"b has no queue '{queue}'" in ended.err


def test_what_strangers_published_steers_no_terminal(run: Run, chain: Chain) -> None:
    """Whoever may publish chooses the subject of a letter, and an operator looks at it."""
    mesh, file = chain
    writer = mesh.world.kafka[mesh.topology.nodes["a"].kafka].writer("plain")
    subject = b"x\x1b]0;owned\x07\x1b[2J\xe2\x80\xae"
    writer.produce("mesh.a.in.g", b"v", None, 0, headers=[("mesh-subject", subject)])
    assert writer.flush() == 0
    mesh.pause(5)
    shown = run("dlq", "a", "-f", file).out
    assert "\\u001b]0;" in shown
    assert not any(one in shown for one in "\x1b\x07\u202e")
    [letter] = run("dlq", "a", "-f", file, "-o", "json").data["letters"]
    assert letter["subject"] == subject.decode()  # scripts get what was written
