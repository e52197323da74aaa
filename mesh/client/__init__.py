"""The client library: publish, subscribe and receive at the node next to you.

```python
topology = load_topology("mesh.yaml")
with connect(topology, "tk1") as client:
    client.wait(client.subscribe("orders", "acme/orders/>"))
    sent = client.publish("acme/orders/eu", b"42", key=b"order-42")
    client.flush()
    print(sent.identity)
    for message in client.channel("orders", group="billing"):  # goes on where the group was
        print(message.subject, message.payload, message.path)
    jobs = client.consume("jobs")  # a queue: each message for one of its consumers
    for one in jobs:
        jobs.ack(one)
```
"""

from __future__ import annotations

from mesh.client.channels import ChannelReader
from mesh.client.client import MeshClient, connect
from mesh.client.consuming import QueueConsumer, QueueMessage
from mesh.client.deliveries import Deliveries
from mesh.client.published import Published
from mesh.config.topology_file import load_topology
from mesh.errors import (
    LaggardsError,
    MeshError,
    NotPublishedError,
    OtherKindError,
    SubjectError,
    TransportError,
)
from mesh.model.control import EndpointKind
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.view.messages import MessageIdentity, ReceivedMessage

__all__ = [
    "ChannelReader",
    "Deliveries",
    "EndpointKind",
    "LaggardsError",
    "MeshClient",
    "MeshError",
    "MessageClass",
    "MessageIdentity",
    "NotPublishedError",
    "OtherKindError",
    "Published",
    "QueueConsumer",
    "QueueMessage",
    "QueuePolicy",
    "ReceivedMessage",
    "SubjectError",
    "TransportError",
    "connect",
    "load_topology",
]
