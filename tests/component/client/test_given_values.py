"""Whoever gives a client something of another kind, or a number that makes no sense, is told in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mesh.client import (
    EndpointKind,
    MeshClient,
    MessageClass,
    QueuePolicy,
    SubjectError,
    connect,
)
from mesh.config.topology_file import topology_from_mapping
from tests.component.in_memory_mesh import CHAIN, Mesh


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        *(
            (
                {"lease_s": lease},
                "^lease_s must be a whole number of seconds from 1 to 2147483647, n",
            )
            for lease in (0, -5, 1.5, 2**40, True, "5", timedelta(minutes=5))
        ),
        ({"policy": "every"}, "policy is for queues"),
    ],
)
def test_what_no_node_would_take_is_refused(
    mesh: Mesh, asked: dict[str, object], told: str
) -> None:
    client = mesh.client("a")
    with pytest.raises(SubjectError, match=told):
        client.subscribe("orders", "acme/>", **asked)  # type: ignore[arg-type]
    assert not client.subscribed()


def test_words_may_be_written_as_text(mesh: Mesh) -> None:
    client = mesh.client("a")
    client.subscribe("jobs", "x", kind="queue", policy="any")  # type: ignore[arg-type]
    [one] = client.subscribed().values()
    assert (one.kind, one.policy) == (EndpointKind.QUEUE, QueuePolicy.ANY)
    sent = client.publish("x", b"", message_class="direct")  # type: ignore[arg-type]
    assert sent.message_class is MessageClass.DIRECT
    with pytest.raises(SubjectError, match="must be one of guaranteed, direct, not 'sure'"):
        client.publish("x", b"", message_class="sure")  # type: ignore[arg-type]
    with pytest.raises(SubjectError, match="kind must be one of channel, queue, not 'topic'"):
        client.subscribe("e", "x", kind="topic")  # type: ignore[arg-type]


def test_one_may_wait_without_end_but_not_for_no_number(mesh: Mesh) -> None:
    client = mesh.client("a")
    assert client.wait(client.subscribe("orders", "acme/>"), float("inf")) == ()
    with pytest.raises(ValueError, match="a timeout of nan"):
        client.wait(0, float("nan"))


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda one: one.subscribe("e", "x", noexport="no"), "noexport must be True or False"),
        (lambda one: one.subscribe(b"e", "x"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.deliveries(b"e"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel(b"e", "g"), "endpoint must be text, not bytes; decode it"),
        (lambda one: one.channel("e", b"g"), "group must be text, not bytes; decode it"),
        (lambda one: one.consume(None), "queue must be text, not NoneType"),
        (lambda one: one.consume("q").read("5"), "a timeout must be a number of seconds, not '5'"),
        (lambda one: one.consume("q").read(0.1, "5"), "most must be a whole number, not '5'"),
        (lambda one: one.channel("e", "g").read(0.1, 1.5), "most must be a whole number, not 1.5"),
        (lambda one: one.deliveries("e").read(None), "a timeout must be a number of seconds, not"),
        (lambda one: one.deliveries("e", from_beginning="no"), "from_beginning must be True or"),
        (lambda one: one.wait("5"), "version must be what `subscribe` returns, not '5'"),
        (lambda one: one.roles("app", is_new="no"), "is_new must be True or False, not 'no'"),
        (lambda one: one.roles(b"app"), "application must be text, not bytes; decode it"),
        (lambda one: one.roles("app", lease_s="10"), "a lease must be a number of seconds, not"),
    ],
)
def test_what_is_of_another_kind_is_told(
    use: Callable[[MeshClient], object], said: str, mesh: Mesh
) -> None:
    """A subscription that says "no" to noexport would be one that attracts nothing."""
    client = mesh.client("a")
    with pytest.raises(TypeError, match=said):
        use(client)
    assert client.subscribed() == {}


@pytest.mark.parametrize("most", [0, -1])
def test_whoever_reads_at_most_nothing_is_told(most: int, mesh: Mesh) -> None:
    """A loop over such reads would wait for ever, and its group would take it for dead."""
    client = mesh.client("a")
    for reader in (client.consume("q"), client.channel("e", "g")):
        with pytest.raises(ValueError, match=f"most must be 1 or more, not {most}"):
            reader.read(0.1, most)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "5"])
def test_a_limit_of_deliveries_is_a_whole_number(most: Any, mesh: Mesh) -> None:
    """`True` would be one delivery: the first consumer that dies makes dead letters."""
    with pytest.raises(SubjectError, match=f"deliveries_max must be 1 or more, not {most!r}"):
        mesh.client("a").consume("q", deliveries_max=most)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("mesh.yaml", "a"), "topology must be what `load_topology` returns, not str"),
        ((topology_from_mapping(CHAIN), b"a"), "node must be text, not bytes; decode it"),
        ((topology_from_mapping(CHAIN), None), "node must be text, not NoneType"),
    ],
)
def test_who_connects_by_something_else_is_told(given: tuple[Any, Any], said: str) -> None:
    """The path of a topology file, as everything else takes it."""
    with pytest.raises(TypeError, match=said):
        connect(*given)
