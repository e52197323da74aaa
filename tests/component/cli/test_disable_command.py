"""`mesh link disable` and `enable`, `mesh node disable`: both ends are told, and it is shown."""

from __future__ import annotations

import pytest

from mesh.errors import TransportUnavailableError
from tests.component.cli.conftest import Chain, Mesh, Run, delivered


def test_a_disabled_link_is_shown_and_no_fault(run: Run, chain: Chain) -> None:
    """Spec: DMR-10."""
    mesh, file = chain
    mesh.subscribe("c", "e", "x/>")
    done = run("link", "disable", "a", "b", "--why", "moving house", "-f", file, "-o", "json")
    assert (done.code, [one["state"] for one in done.data["disabled"]]) == (0, ["disabled"] * 2)
    mesh.pause(3)
    for _ in range(5):
        mesh.publish("a", "x/1")
    mesh.pause(15)
    shown = run("links", "-f", file, "-o", "json")
    [there] = [one for one in shown.data["links"] if one["link"] == "a->b"]
    assert (shown.code, there["state"], there["reason"]) == (
        0,
        "disabled",
        "disabled: moving house",
    )
    assert there["backlog_messages"] == 5
    status = run("status", "-f", file, "-o", "json")
    nodes = {one["node"]: one for one in status.data["nodes"]}
    assert (status.code, nodes["a"]["links"], nodes["b"]["links"]) == (
        0,
        {"b": "disabled"},
        {"a": "disabled", "c": "up"},
    )
    assert nodes["a"]["disabled"] == [{"neighbour": "b", "why": "moving house"}]
    asked = [w for name in ("links", "nodes", "interest") for w in ("--category", name)]
    told = run("doctor", *asked, "-f", file, "--all")
    assert told.code == 0, told.out
    assert "disabled by operators at a (moving house)" in " ".join(told.out.split())
    assert run("link", "enable", "b", "a", "-f", file).code == 0
    mesh.pause(3)
    assert delivered(mesh) == 5
    assert (run("links", "-f", file).code, run("status", "-f", file).code) == (0, 0)


def test_explain_names_it(run: Run, chain: Chain) -> None:
    """Direct messages end before it, guaranteed ones wait there. Spec: lab.md 2."""
    mesh, file = chain
    mesh.subscribe("c", "e", "x/>")
    assert run("link", "disable", "a", "b", "-f", file).code == 0
    mesh.pause(3)
    words = ("explain", "x/1", "--from", "a", "-f", file)
    direct = run(*words, "--class", "direct", "-o", "json").data
    assert direct["refused"] == [
        {
            "node": "a",
            "neighbour": "b",
            "reason": "link_disabled",
            "cause": None,
            "text": "operators have disabled the link",
        }
    ]
    assert [one["node"] for one in direct["reached"]] == ["a"]
    assert {(one["node"], one["reason"]) for one in direct["not_reached"]} >= {
        ("c", "link_disabled")
    }
    kept = run(*words, "-o", "json").data["reached"]
    assert [(one["node"], one["waits"], one["link_disabled"]) for one in kept] == [
        ("a", False, False),
        ("b", True, True),
        ("c", True, True),
    ]
    assert "behind a disabled link: the message waits" in " ".join(run(*words).out.split())


def test_subscribing_does_not_wait_for_it_and_names_it(run: Run, chain: Chain) -> None:
    """Spec: K24."""
    mesh, file = chain
    assert run("link", "disable", "a", "b", "-f", file).code == 0
    mesh.pause(3)
    client = mesh.client("c")
    assert list(client.wait(client.subscribe("e", "x/>"), 10)) == [("b", "a")]
    waited = run("wait", "--timeout", "5", "-f", file)
    text = "known to every node that can be reached; later over b->a\n"
    assert (waited.code, waited.out) == (0, text)
    assert run("wait", "-f", file, "-o", "json").data["later"] == ["b->a"]
    assert run("link", "enable", "a", "b", "-f", file).code == 0
    assert run("wait", "-f", file).out == "known everywhere\n"


@pytest.mark.parametrize("cluster", ["left", "right"])
def test_an_end_that_cannot_be_told_is_named_and_told_later(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    """The other end is told all the same, and the command may be repeated."""
    mesh, file = chain
    kafka = mesh.world.kafka[cluster]

    def fail(*_: object, **__: object) -> None:
        raise TransportUnavailableError(f"Kafka cluster {cluster} does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(kafka, "writer", fail)
        done = run("link", "disable", "a", "b", "-f", file, "-o", "json")
    states = {one["node"]: one["state"] for one in done.data["disabled"]}
    untold = "a" if cluster == "left" else "b"
    assert (done.code, states.pop(untold)) == (1, "not told")
    assert list(states.values()) == ["disabled"]
    assert f"{untold} could not be told: Kafka cluster {cluster} does not answer" in done.err
    mesh.pause(3)
    for node in "ac":
        client = mesh.client(node)
        assert client.wait(client.subscribe("e", "y"), 10)  # nobody waits for half a link either
    again = run("link", "disable", "a", "b", "-f", file, "-o", "json")
    assert (again.code, {one["state"] for one in again.data["disabled"]}) == (0, {"disabled"})
    mesh.pause(3)
    [there] = [
        one for one in run("links", "-f", file, "-o", "json").data["links"] if one["link"] == "a->b"
    ]
    assert there["state"] == "disabled"


def waits_for_c(mesh: Mesh) -> None:
    """Have two guaranteed messages wait in the outbox of b for c, which is down."""
    mesh.subscribe("c", "e", "x/>")
    mesh.world.kill("c")
    mesh.pause(1)
    for _ in range(2):
        mesh.publish("a", "x/1")
    mesh.pause(3)


def test_a_node_is_disabled_only_if_nothing_waits(run: Run, chain: Chain) -> None:
    """What waits is named with its place and number; nothing is dropped. Spec: DMR-10."""
    mesh, file = chain
    waits_for_c(mesh)
    refused = run("node", "disable", "b", "-f", file, "-o", "json")
    assert (refused.code, refused.data["ok"]) == (10, False)
    [waiting] = refused.data["waiting"]
    assert (waiting["link"], waiting["topic"], waiting["messages"]) == (
        "b->c",
        "mesh.b.to.c.g",
        2,
    )
    assert "refused: guaranteed messages wait on links of b" in refused.err
    mesh.pause(2)
    assert mesh.world.workers["b"].machine is not None
    assert mesh.world.workers["b"].machine.router.unread() == set()
    mesh.world.start("c")
    mesh.pause(12)
    done = run("node", "disable", "b", "-f", file, "-o", "json")
    assert (done.code, len(done.data["disabled"])) == (0, 4)
    mesh.pause(3)
    mesh.publish("a", "x/1")
    mesh.pause(3)
    assert delivered(mesh) == 2
    assert run("node", "disable", "b", "-f", file).code == 0  # what waits now waits already
    assert run("node", "enable", "b", "-f", file).code == 0
    mesh.pause(5)
    assert delivered(mesh) == 3


def test_what_cannot_be_disabled_is_told(run: Run, chain: Chain) -> None:
    _, file = chain
    for words, told in (
        (("link", "disable", "a", "c"), "no link between a and c"),
        (("link", "enable", "a", "nobody"), "no node is called 'nobody'"),
        (("node", "disable", "nobody"), "no node is called 'nobody'"),
        (("node", "enable", "nobody"), "no node is called 'nobody'"),
    ):
        done = run(*words, "-f", file)
        assert (done.code, told in done.err) == (2, True), done.err
