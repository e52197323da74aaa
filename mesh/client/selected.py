"""The mesh that the user's commands address, for programs that run beside them."""

from __future__ import annotations

from mesh.config.context import context_named, current_context
from mesh.config.topology_file import load_topology
from mesh.errors import wrong_input
from mesh.model.topology import Topology, with_addresses


def selected_topology(context: str | None = None) -> Topology:
    """Return the topology of the context in force, with the addresses that its mesh has.

    `mesh up` and the demo select one, because the addresses of embedded Kafka clusters are in no
    file; so do `mesh context use` and the variable `MESH_CONTEXT`.

    Args:
        context: Name of another one.

    Raises:
        ConfigError: None is selected, there is none of that name, or its file is wrong.
    """
    found = current_context() if context is None else context_named(context)
    if found is None:
        message = "none is selected: start a mesh by `mesh up`, or `mesh context use NAME`"
        raise wrong_input("context", message, code="NO_CONTEXT")
    return with_addresses(load_topology(found.file), found.addresses)
