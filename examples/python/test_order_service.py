"""Tests of the order service: real nodes and the real client library, in milliseconds."""

from __future__ import annotations

import json

from order_service import OrderService

from mesh.testing import MeshUnderTest


def order(number: int) -> bytes:
    """Return an order as shops write it."""
    return json.dumps({"order": number}).encode()


def test_an_order_is_confirmed_where_the_shop_listens(mesh: MeshUnderTest) -> None:
    """Over two links there and two back."""
    service = OrderService(mesh.client("pa1"))
    mesh.subscribe("tk1", "shop", "acme/confirmed/*")
    mesh.publish("tk1", "acme/orders/asia", order(1), order(2))
    confirmed = 0
    while confirmed < 2:
        confirmed += service.work()
    found = mesh.wait_delivered("tk1", "shop", 2)
    assert [json.loads(one.payload or b"")["order"] for one in found] == [1, 2]
    assert found[0].path == ("pa1", "ny1", "tk1")


def test_orders_wait_while_paris_is_cut_off(mesh: MeshUnderTest) -> None:
    """What is published meanwhile comes once, and in order, when the network is back."""
    service = OrderService(mesh.client("pa1"))
    mesh.cut("ny1", "pa1")
    mesh.publish("tk1", "acme/orders/asia", *map(order, range(10)), key=b"shop")
    assert service.work(timeout_s=5.0) == 0
    mesh.heal()
    assert len(mesh.wait_delivered("pa1", "order-service", 10)) == 10


def test_a_node_that_dies_loses_no_order(mesh: MeshUnderTest) -> None:
    """It goes on from what it had committed."""
    OrderService(mesh.client("pa1"))
    mesh.kill("ny1")
    mesh.publish("tk1", "acme/orders/asia", order(7))
    mesh.restart("ny1")
    [found] = mesh.wait_delivered("pa1", "order-service", 1)
    assert found.path == ("tk1", "ny1", "pa1")


def test_a_service_that_starts_again_confirms_nothing_twice(mesh: MeshUnderTest) -> None:
    """And what came meanwhile is not forgotten."""
    mesh.subscribe("tk1", "shop", "acme/confirmed/*")
    first = mesh.client("pa1")
    service = OrderService(first)
    mesh.publish("tk1", "acme/orders/asia", order(1))
    while not service.work():
        pass
    first.close()
    mesh.publish("tk1", "acme/orders/asia", order(2))
    again = OrderService(mesh.client("pa1"))
    assert again.work() == 1
    found = mesh.wait_delivered("tk1", "shop", 2)
    assert [json.loads(one.payload or b"")["order"] for one in found] == [1, 2]
