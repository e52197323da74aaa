"""Of records with one key the newest is decoded alone, and what nobody can read hides nothing."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topics import TopicNames
from mesh.view import mesh_view
from mesh.wire.keys import heartbeat_key
from tests.component.in_memory_mesh import Mesh


def test_beats_are_decoded_once_per_node(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a mesh has run, a fresh view decodes one heartbeat of each node."""
    mesh.pause(30.0)
    decoded: list[bytes] = []
    decode = mesh_view.decode_heartbeat
    monkeypatch.setattr(
        mesh_view, "decode_heartbeat", lambda value: decoded.append(value) or decode(value)
    )
    view = mesh.view()
    view.refresh()
    assert len(decoded) == len(mesh.topology.nodes)
    assert all(seen.is_ready for seen in view.nodes.values())


def test_a_record_that_nobody_can_read_hides_nothing(mesh: Mesh) -> None:
    """A stranger wrote it under a key of the mesh: the one before it stands."""
    mesh.pause(3.0)
    writer = mesh.world.kafka["left"].writer("stranger")
    writer.produce(TopicNames(mesh.topology.prefix).control("a"), b"nonsense", heartbeat_key(), 0)
    writer.flush()
    view = mesh.view()
    view.refresh()
    assert view.nodes["a"].is_ready


def test_a_node_may_be_called_as_a_topic_is() -> None:
    """Its neighbours' acknowledgements are no subscriptions."""
    spec = {
        "kafka": {"left": {}},
        "nodes": {"a": {}, "clients": {}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "clients"]]}},
    }
    mesh = Mesh(topology_from_mapping(spec))
    mesh.pause(5.0)
    view = mesh.view()
    view.refresh()
    assert {neighbour for neighbour, _ in view.nodes["a"].acks} == {"clients"}
    assert view.nodes["a"].link_states.keys() == {"clients"}
    assert view.nodes["a"].clients_offset == -1
    mesh.close()
