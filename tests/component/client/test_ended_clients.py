"""A client that was closed, or came over by a fork, says so whatever is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import pytest

from mesh.client import (
    ClosedError,
    MeshClient,
)
from tests.component.in_memory_mesh import Mesh


def uses() -> dict[str, Callable[[MeshClient], object]]:
    """What an application does with a client, by name."""
    return {
        "publish": lambda client: client.publish("x", b"1"),
        "flush": lambda client: client.flush(),
        "subscribe": lambda client: client.subscribe("e", "x"),
        "unsubscribe": lambda client: client.unsubscribe("e", "x"),
        "subscribed": lambda client: client.subscribed(),
        "wait": lambda client: client.wait(0),
        "refusal": lambda client: client.refusal("e"),
        "deliveries": lambda client: client.deliveries("e"),
        "channel": lambda client: client.channel("e", "g"),
        "consume": lambda client: client.consume("q"),
        "roles": lambda client: client.roles("app"),
        "renew_leases": lambda client: client.renew_leases(),
        "begin_renewing": lambda client: client.begin_renewing(),
        "with": lambda client: client.__enter__(),
        "topology": lambda client: client.topology,
        "direct_only_zone": lambda client: client.direct_only_zone,
    }


@pytest.mark.parametrize("use", uses())
def test_a_closed_client_says_so(use: str, mesh: Mesh) -> None:
    """Whoever flushes too late would hear that everything was accepted; nothing is opened again."""
    client = mesh.client("a")
    client.subscribe("e", "x")
    client.publish("x", b"1")
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="connect again"):
        uses()[use](client)


@pytest.mark.parametrize("use", uses())
def test_a_forked_client_says_so(use: str, mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that would send stay behind in the other process; so does what is to be closed."""
    client = mesh.client("a")
    published = client.publish("x", b"1")
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        with pytest.raises(ClosedError, match="forked"):
            uses()[use](client)
    assert client.flush() == 1
    assert published.is_accepted


def test_a_fork_that_closes_takes_nothing_from_the_other_process(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mesh.client("a")
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        copied = copy(client)
        copied.close()
    client.publish("x", b"1")
    assert client.flush() == 1
