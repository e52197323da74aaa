"""A client that two threads use at once says so, and does nothing. Spec: DESIGN 4.6."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from mesh.client import ClosedError, MeshClient, SharedError
from tests.component.in_memory_mesh import Mesh
from tests.patience import PATIENCE_S


class _AtWork:
    """A thread that is inside a flush until it is let go."""

    def __init__(self, client: MeshClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[object] = []
        self._goes_on = threading.Event()
        begun = threading.Event()
        flush = client._in_flight.flush

        def waits() -> int:
            begun.set()
            assert self._goes_on.wait(PATIENCE_S)
            return flush()

        monkeypatch.setattr(client._in_flight, "flush", waits)
        self._thread = threading.Thread(target=lambda: self.told.append(client.flush()))
        self._thread.start()
        assert begun.wait(PATIENCE_S)

    def end(self) -> None:
        self._goes_on.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@pytest.mark.parametrize(
    "use",
    [
        lambda one: one.publish("x", b""),
        lambda one: one.flush(),
        lambda one: one.subscribe("e", "x"),
        lambda one: one.unsubscribe("e", "x"),
        lambda one: one.subscribed(),
        lambda one: one.wait(0),
        lambda one: one.refusal("e"),
        lambda one: one.deliveries("e"),
        lambda one: one.channel("e", "g"),
        lambda one: one.consume("q"),
        lambda one: one.roles("app"),
        lambda one: one.topology,
    ],
)
def test_a_second_thread_is_refused_while_one_is_at_work(
    use: Callable[[MeshClient], Any], mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be told by `flush` of what is not its own, and publish it once more."""
    client = mesh.client("a")
    client.publish("x", b"1")
    at_work = _AtWork(client, monkeypatch)
    with pytest.raises(SharedError, match="connect in each thread"):
        use(client)
    at_work.end()
    assert at_work.told == [1]
    client.publish("x", b"2")  # one after the other is no harm


def test_who_closes_waits_for_the_thread_at_work(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages would be lost, and the client library must not be closed under a call."""
    client = mesh.client("a")
    client.publish("x", b"1")
    at_work = _AtWork(client, monkeypatch)
    closer = threading.Thread(target=client.close)
    closer.start()
    closer.join(0.3)  # ends at once if it waits for nobody
    assert closer.is_alive()
    at_work.end()
    closer.join(PATIENCE_S)
    assert at_work.told == [1]
    with pytest.raises(ClosedError):
        client.publish("x", b"2")


def test_a_fork_is_told_so_whatever_a_thread_was_doing(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That thread is not in it, and will never be done."""
    client = mesh.client("a")
    client.publish("x", b"1")
    at_work = _AtWork(client, monkeypatch)
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        with pytest.raises(ClosedError, match="forked"):
            client.publish("x", b"2")
        client.close()
    at_work.end()
    assert at_work.told == [1]
    client.publish("x", b"2")


def test_leases_are_renewed_beside_the_thread_at_work(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lets the time of a mesh in memory pass does so for all its clients."""
    client = mesh.client("a")
    client.subscribe("e", "x", lease_s=9)
    client.publish("x", b"1")
    at_work = _AtWork(client, monkeypatch)
    for _ in range(10):
        mesh.pause(3)
        client.renew_leases()
    at_work.end()
    assert ("e", "x") in client.subscribed()
