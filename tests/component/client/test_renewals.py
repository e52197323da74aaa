"""Subscriptions with a lease are renewed, and a renewal is no newer word than anybody's."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from mesh.client import (
    MeshClient,
)
from mesh.client.lease_records import ClientsRecords
from mesh.client.leases import Leases
from mesh.errors import TransportUnavailableError
from mesh.model.control import Subscription
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import Mesh


def test_leases_are_renewed_until_the_client_ends_them(mesh: Mesh) -> None:
    """Nobody who forgets its lease loses its subscription. Spec: K13."""
    keeper, other = mesh.client("c"), mesh.client("c")
    keeper.wait(keeper.subscribe("kept", "x", lease_s=3))
    other.wait(other.subscribe("forgotten", "y", lease_s=3))
    for _ in range(8):
        mesh.pause(1.0)
        keeper.renew_leases()
    assert list(keeper.subscribed()) == [("kept", "x")]
    keeper.unsubscribe("kept", "x")
    mesh.pause(2.0)
    keeper.renew_leases()
    assert keeper.subscribed() == {}


def test_leases_are_renewed_beside_an_application_that_does_something_else(mesh: Mesh) -> None:
    """Also where the first attempt fails; `close` ends the thread."""
    records = ClientsRecords(mesh.world.kafka["left"], "mesh.a.clients")
    renewed, tries = threading.Event(), list[bytes]()

    def repeat(key: bytes, _value: bytes | None, word: int) -> int:
        tries.append(key)
        if len(tries) == 1:
            raise TransportUnavailableError("not just now")
        renewed.set()
        return word

    records.repeat = repeat  # type: ignore[method-assign]
    leases = Leases(records, lambda: time.monotonic_ns() // 1_000_000)
    leases.keep(b"k", b"v", 1, 0)
    leases.begin()
    assert renewed.wait(20.0)
    leases.close()
    assert not [one for one in threading.enumerate() if one.name == "mesh-leases"]


def _renewed(mesh: Mesh, seconds: int, *clients: MeshClient) -> Mapping[tuple[str, str], object]:
    """Let some clients renew for a while; return what stands at their node then."""
    for _ in range(seconds):
        mesh.pause(1)
        for client in clients:
            client.renew_leases()
    return mesh.client("a").subscribed()


def test_a_renewal_is_no_newer_word_than_another_client_s(mesh: Mesh) -> None:
    """Whoever subscribes for good, ends or changes a subscription since is not undone. K13."""
    first, second = mesh.client("a"), mesh.client("a")
    for filter_ in ("lasts/>", "ends/>", "changes/>"):
        first.subscribe("e", filter_, lease_s=9)
    second.subscribe("e", "lasts/>")
    second.unsubscribe("e", "ends/>")
    second.subscribe("e", "changes/>", lease_s=60, noexport=True)
    lasts, changes = Subscription(), Subscription(lease_s=9, noexport=True)
    both = {("e", "lasts/>"): lasts, ("e", "changes/>"): changes}
    assert _renewed(mesh, 40, first) == both
    first.close()
    assert _renewed(mesh, 20) == {("e", "lasts/>"): lasts}


def test_of_two_that_renew_a_subscription_each_keeps_it(mesh: Mesh) -> None:
    """Whichever of them ends. Spec: K13."""
    short, long = mesh.client("a"), mesh.client("a")
    short.subscribe("e", "x", lease_s=6)
    long.subscribe("e", "x", lease_s=12)
    _renewed(mesh, 20, short, long)
    long.close()
    assert ("e", "x") in _renewed(mesh, 40, short)
    short.close()
    assert _renewed(mesh, 20) == {}


def test_who_could_not_renew_for_too_long_subscribes_again(mesh: Mesh) -> None:
    """The node has ended it meanwhile, which is nobody's word. Spec: K13."""
    client = mesh.client("a")
    client.subscribe("e", "x", lease_s=3)
    assert _renewed(mesh, 9) == {}
    assert ("e", "x") in _renewed(mesh, 9, client)


def test_in_a_topic_of_subscriptions_that_was_recreated_the_newer_word_counts(mesh: Mesh) -> None:
    """Also where it has outgrown what was read of the former one."""
    client, other = mesh.client("a"), mesh.client("a")
    for number in range(4):
        other.subscribe("e", f"y/{number}")
    client.subscribe("e", "x", lease_s=9)
    _renewed(mesh, 4, client)
    mesh.world.kafka["left"].recreate("mesh.a.clients")
    other.subscribe("e", "x")
    for number in range(8):
        other.subscribe("e", f"y/{number}")
    assert len(_renewed(mesh, 20, client)) == 9
    assert client.subscribed()["e", "x"].lease_s is None


def test_where_a_topic_of_subscriptions_lost_its_end_a_lease_is_kept(mesh: Mesh) -> None:
    """What stands last there of the subscription is that it had ended once."""
    client = mesh.client("a")
    client.subscribe("e", "x")
    client.unsubscribe("e", "x")
    client.subscribe("e", "x", lease_s=9)
    mesh.world.kafka["left"].truncate(TopicPartition("mesh.a.clients", 0), 1)
    assert ("e", "x") in _renewed(mesh, 20, client)


def test_a_renewal_is_no_newer_word_than_the_application_s(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease is due while `subscribe` waits for its own record. Spec: K13."""
    client = mesh.client("a")
    client.subscribe("orders", "acme/>", lease_s=9)
    reads_back = client._subscriptions._read_back

    def slowly(*given: object) -> int:
        mesh.pause(3.1)
        client.renew_leases()
        return reads_back(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(client._subscriptions, "_read_back", slowly)
    client.wait(client.subscribe("orders", "acme/>"))
    assert client.subscribed()["orders", "acme/>"].lease_s is None
    mesh.pause(20)
    assert ("orders", "acme/>") in client.subscribed()


def test_a_lease_goes_on_if_the_newer_word_was_not_taken(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mesh.client("a")
    client.subscribe("orders", "acme/>", lease_s=9)

    def refuses(*_given: object) -> int:
        raise TransportUnavailableError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(client._subscriptions, "_write", refuses)
        with pytest.raises(TransportUnavailableError):
            client.subscribe("orders", "acme/>", noexport=True)
    for _ in range(5):
        mesh.pause(4)
        client.renew_leases()
    assert ("orders", "acme/>") in client.subscribed()
