"""`mesh links` as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mesh.model.topology import Topology
from mesh.model.words import LinkWord
from mesh.operate.links.flows import LinkFlow, link_flows
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView


def links_document(
    topology: Topology,
    view: MeshView,
    beats: Mapping[str, bool],
    kafka: Mapping[str, KafkaCluster],
) -> dict[str, Any]:
    """Return both directions of every link: state, what waits on it, how much is wanted.

    Args:
        topology: The topology in force.
        view: Of it, refreshed.
        beats: Which nodes are up.
        kafka: Its Kafka clusters.
    """
    flows = link_flows(topology, view, beats, kafka)
    return {
        "ok": all(flow.state in (LinkWord.UP, LinkWord.DISABLED) for flow in flows),
        "links": [_flow(flow) for flow in flows],
    }


def _flow(flow: LinkFlow) -> dict[str, Any]:
    told = asdict(flow)
    return {"link": f"{told.pop('source')}->{told.pop('target')}", **told}
