"""The client library: publish, subscribe and receive at the node next to you.

```python
topology = load_topology("mesh.yaml")  # or selected_topology(): that of `mesh up`
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
from mesh.client.published import NotPublishedError, Published
from mesh.client.role_messages import Call, RoleMessage, RoleReply
from mesh.client.roles import Roles
from mesh.client.selected import selected_topology
from mesh.client.watching import Passing, Verdict
from mesh.config.topology_file import load_topology
from mesh.errors import (
    BackpressureError,
    ClosedError,
    LaggardsError,
    MeshError,
    NodeGoneError,
    OtherKindError,
    PausedError,
    RoleRefusedError,
    SharedError,
    SubjectError,
    TransportError,
)
from mesh.model.control import EndpointKind
from mesh.model.frames import MessageClass
from mesh.model.losses import Loss
from mesh.model.queues import QueuePolicy
from mesh.model.tree_apps import (
    ColourChanged,
    NewsKind,
    NodesFound,
    NodesLost,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleRequest,
    RoleTaken,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_nodes import NodeSeen
from mesh.model.trees import Address, Extent
from mesh.transport.port import Skipped
from mesh.view.messages import MessageIdentity, ReceivedMessage

__all__ = [
    "Address",
    "BackpressureError",
    "Call",
    "ChannelReader",
    "ClosedError",
    "ColourChanged",
    "Deliveries",
    "EndpointKind",
    "Extent",
    "LaggardsError",
    "Loss",
    "MeshClient",
    "MeshError",
    "MessageClass",
    "MessageIdentity",
    "NewsKind",
    "NodeGoneError",
    "NodeSeen",
    "NodesFound",
    "NodesLost",
    "NotPublishedError",
    "OtherKindError",
    "PartitionSuspected",
    "Passing",
    "PausedError",
    "Published",
    "QueueConsumer",
    "QueueMessage",
    "QueuePolicy",
    "ReceivedMessage",
    "Refused",
    "RoleLost",
    "RoleMessage",
    "RoleRefusedError",
    "RoleReply",
    "RoleRequest",
    "RoleTaken",
    "Roles",
    "SharedError",
    "Skipped",
    "SubjectError",
    "TransportError",
    "TreeBuilt",
    "Unpartitioned",
    "Verdict",
    "connect",
    "load_topology",
    "selected_topology",
]
