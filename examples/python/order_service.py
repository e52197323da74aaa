"""An order service on a mesh: takes orders at one node, confirms them wherever somebody listens."""

from __future__ import annotations

import json

from mesh.client import MeshClient

ORDERS = "acme/orders/>"


class OrderService:
    """Confirms every order, also those that came while it did not run.

    Once, unless it dies between a confirmation and the note that the order is done.

    Args:
        client: Of the node next to this service.
    """

    def __init__(self, client: MeshClient) -> None:
        self._client = client
        client.wait(client.subscribe("order-service", ORDERS))
        # A group keeps how far it has come; `deliveries` would begin anew with the first order.
        self._orders = client.channel("order-service", group="order-service")

    def work(self, timeout_s: float = 5.0) -> int:
        """Confirm the orders that are there; return how many."""
        orders = self._orders.read(timeout_s)
        for order in orders:
            number = json.loads(order.payload or b"{}")["order"]
            region = order.subject.rpartition("/")[2]
            confirmed = json.dumps({"order": number, "from": order.path[0]}).encode()
            self._client.publish(f"acme/confirmed/{region}", confirmed, key=order.key)
        self._client.flush()
        self._orders.commit()
        return len(orders)
