"""Which queues would be shared out in another way: only those that somebody has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import EndpointKind, Subscription
from mesh.model.topology import Topology
from mesh.operate.changes.queue_changes import queues_shared_otherwise
from mesh.transport.memory import MemoryKafka
from mesh.view.mesh_view import MeshView

Declared = dict[str, object]


def mesh(**queues: Declared) -> Topology:
    nodes = {name: {"kafka": "k"} for name in "ab"}
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}
    return topology_from_mapping(
        {"kafka": {"k": {}}, "nodes": nodes, "zones": zones, "queues": queues}
    )


@pytest.mark.parametrize(
    ("said", "before", "after", "found"),
    [
        (None, {}, {"policy": "any"}, ["jobs"]),
        ("any", {}, {"policy": "any"}, []),  # it says what the subscription said
        (None, {"policy": "any"}, {}, ["jobs"]),
        (None, {"policy": "home", "home": "a"}, {"policy": "home", "home": "b"}, ["jobs"]),
        (None, {"policy": "any"}, {"policy": "any", "maxAge": "1h"}, []),
    ],
)
def test_what_decides_who_gets_a_message(
    said: str | None, before: Declared, after: Declared, found: list[str]
) -> None:
    """Spec: DESIGN 6, K28."""
    old, new = (mesh(**({"JOBS": one} if one else {})) for one in (before, after))
    view = MeshView(old, {"k": MemoryKafka("k")}, lambda: 0)
    assert queues_shared_otherwise(view, old, new) == []  # nobody has it
    asked = Subscription(EndpointKind.QUEUE, policy=said)
    view.nodes["b"].subscriptions["Jobs", "x"] = asked
    assert queues_shared_otherwise(view, old, new) == found
    view.nodes["b"].subscriptions["Jobs", "x"] = replace(asked, kind=EndpointKind.CHANNEL)
    assert queues_shared_otherwise(view, old, new) == []
