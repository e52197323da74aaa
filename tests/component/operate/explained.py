"""What `mesh explain` tells of a simulated mesh."""

from __future__ import annotations

from mesh.model.frames import MessageClass
from mesh.node.explanation import Explanation, explain
from mesh.operate.interest.knowledge import known_nodes
from mesh.operate.status import observe
from tests.component.in_memory_mesh import Mesh


def told(
    mesh: Mesh, subject: str, source: str, message_class: MessageClass = MessageClass.GUARANTEED
) -> Explanation:
    """Return who would get a message, by what the mesh shows of itself."""
    view = mesh.view()
    view.refresh()
    seen = mesh.seen(view, observe(view, mesh.time, 20.0))
    found = explain(mesh.topology, known_nodes(seen), subject, source, message_class)
    view.close()
    return found
