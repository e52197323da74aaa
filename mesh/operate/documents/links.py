"""`mesh links` as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mesh.model.words import LinkWord
from mesh.operate.links.flows import LinkFlow, link_flows
from mesh.view.mesh_view import RunningMesh


def links_document(mesh: RunningMesh) -> dict[str, Any]:
    """Return both directions of every link: state, what waits on it, how much is wanted."""
    flows = link_flows(mesh)
    return {
        "ok": all(flow.state in (LinkWord.UP, LinkWord.DISABLED) for flow in flows),
        "links": [_flow(flow) for flow in flows],
    }


def _flow(flow: LinkFlow) -> dict[str, Any]:
    told = asdict(flow)
    return {"link": f"{told.pop('source')}->{told.pop('target')}", **told}
