"""`mesh queue`: who consumes what, and what waits. Spec: DESIGN 6."""

from __future__ import annotations

from mesh.model.control import EndpointKind, Subscription
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from tests.component.cli.conftest import Chain, Mesh, Run


def _queue(mesh: Mesh, node: str, policy: str) -> None:
    kafka = mesh.world.kafka[mesh.topology.nodes[node].kafka]
    value = encode_subscription(Subscription(EndpointKind.QUEUE, policy=policy))
    writer = kafka.writer("subscriber")
    writer.produce(f"mesh.{node}.clients", value, subscription_key("jobs", "jobs/>"), 0)
    mesh.pause(3)


def test_queues_are_listed_with_members_and_consumers(run: Run, chain: Chain) -> None:
    """Policy, members, consumers of each, what waits and where it was published."""
    mesh, file = chain
    for node in ("a", "c"):
        _queue(mesh, node, "any")
    mesh.client("c").consume("jobs").read(0.1)
    for number in range(3):
        mesh.publish("a", "jobs/x", b"%d" % number)
    mesh.publish("c", "jobs/x", b"there")
    mesh.pause(1)
    [jobs] = run("queue", "list", "-f", file, "-o", "json").data["queues"]
    assert (jobs["queue"], jobs["policy"], jobs["home"], jobs["is_declared"]) == (
        "jobs",
        "any",
        "",
        False,
    )
    assert (jobs["consumers"], jobs["waiting"]) == (1, 4)
    assert [
        (one["node"], one["kind"], one["consumers"], one["waiting"], one["origins"])
        for one in jobs["members"]
    ] == [("a", "any", 0, 3, {"a": 3}), ("c", "any", 1, 1, {"c": 1})]
    shown = run("queue", "show", "JOBS", "-f", file)
    assert all(word in shown.out for word in ("KIND", "jobs/>", "a: 3"))
    assert shown.out.startswith("jobs: policy any, not declared\n")
    assert "a (0), c (1)" in run("queue", "list", "-f", file).out


def test_who_has_left_with_messages_is_listed_until_they_are_moved_on(
    run: Run, chain: Chain
) -> None:
    """Nobody consumes there, so they go where somebody does. Spec: DESIGN 6."""
    mesh, file = chain
    for node in ("a", "c"):
        _queue(mesh, node, "any")
    for number in range(3):
        mesh.publish("a", "jobs/x", b"%d" % number)
    mesh.pause(1)
    writer = mesh.world.kafka[mesh.topology.nodes["a"].kafka].writer("subscriber")
    writer.produce("mesh.a.clients", None, subscription_key("jobs", "jobs/>"), 0)
    mesh.pause(8)
    assert _members(run, file) == [("a", "left", 3), ("c", "any", 0)]
    consumer = mesh.client("c").consume("jobs")
    consumed: list[bytes | None] = []
    for _ in range(20):
        for one in consumer.read(0.1):
            consumed.append(one.message.payload)
            consumer.ack(one)
        consumer.commit()
        mesh.pause(1)
    assert sorted(map(str, consumed)) == ["b'0'", "b'1'", "b'2'"]
    assert _members(run, file) == [("c", "any", 0)]


def _members(run: Run, file: str) -> list[tuple[str, str, int]]:
    [jobs] = run("queue", "list", "-f", file, "-o", "json").data["queues"]
    return [(one["node"], one["kind"], one["waiting"]) for one in jobs["members"]]


def test_a_queue_that_is_not_there_is_named(run: Run, chain: Chain) -> None:
    """One clear line, and what was perhaps meant."""
    mesh, file = chain
    _queue(mesh, "a", "every")
    ended = run("queue", "show", "job", "-f", file)
    assert ended.code == 2
    assert "jobs" in ended.err
    assert run("queue", "list", "-f", file, "-o", "json").data["queues"][0]["policy"] == "every"


def test_consuming_prints_and_acknowledges(run: Run, chain: Chain) -> None:
    """What was printed does not come again."""
    mesh, file = chain
    _queue(mesh, "a", "every")
    for number in range(3):
        mesh.publish("a", "jobs/x", b"%d" % number)
    mesh.pause(1)
    options = ("queue", "consume", "jobs", "--node", "a", "-f", file, "-o", "json")
    first = run(*options, "--count", "2")
    assert first.code == 0
    assert first.out.count('"subject": "jobs/x"') == 2
    assert run(*options, "--count", "1").code == 0
    assert run(*options, "--count", "1", "--timeout", "0.1").code == 10
    assert run("queue", "consume", "no name", "--node", "a", "-f", file).code == 2


def test_dead_letters_of_a_queue_are_listed(run: Run, chain: Chain) -> None:
    """`mesh dlq NODE --queue` has what its consumers gave up."""
    mesh, file = chain
    _queue(mesh, "a", "every")
    mesh.publish("a", "jobs/x", b"poison")
    consumer = mesh.client("a").consume("jobs", deliveries_max=1)
    while not consumer.given_up:
        for one in consumer.read(0.5):
            consumer.nack(one)
    consumer.close()
    [letter] = run("dlq", "a", "--queue", "jobs", "-f", file, "-o", "json").data["letters"]
    assert (letter["reason"], letter["subject"]) == ("MAX_DELIVERIES", "jobs/x")
    [jobs] = run("queue", "list", "-f", file, "-o", "json").data["queues"]
    assert jobs["members"][0]["dead_letters"] == 1


def test_who_waits_for_a_queue_that_is_not_there_is_told(run: Run, chain: Chain) -> None:
    """Once, on standard error; a channel is none."""
    mesh, file = chain
    _queue(mesh, "a", "every")
    options = ("--count", "1", "--timeout", "0.1", "-f", file)
    ended = run("queue", "consume", "job", "--node", "a", *options)
    assert (ended.code, ended.out) == (10, "")
    [said, _] = ended.err.splitlines()
    assert said.startswith("nobody has subscribed queue job at a yet; did you mean jobs?; waiting")
    assert "yet" not in run("queue", "consume", "jobs", "--node", "a", *options).err
    mesh.subscribe("a", "all", ">")
    channel = run("queue", "consume", "all", "--node", "a", *options)
    assert (channel.code, "all at a is a channel" in channel.err) == (2, True)


def test_a_queue_is_published_to_by_its_name(run: Run, chain: Chain) -> None:
    """Each queue of the name gets a copy, and one that asks for other subjects none. DMR-9."""
    mesh, file = chain
    for node in "ac":
        assert run("subscribe", "-n", node, "-e", "Jobs", "--queue", "-f", file).code == 0
    assert run("subscribe", "x", "-n", "b", "-e", "jobs", "--queue", "-f", file).code == 0
    assert run("publish", "JOBS", "hello", "--queue", "-n", "b", "-f", file).code == 0
    mesh.pause(2.0)
    found = run("queue", "show", "jobs", "-f", file, "-o", "json").data["members"]
    assert {one["node"]: one["waiting"] for one in found} == {"a": 1, "b": 0, "c": 1}
    wrong = run("publish", "no way", "x", "--queue", "-n", "b", "-f", file)
    missing = run("subscribe", "-n", "a", "-e", "e", "-f", file)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert (missing.code, "FILTER" in missing.err) == (2, True)
