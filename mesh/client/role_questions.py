"""What an application may ask of all nodes. Spec: tree_layer 7.5, 8 (getTreeNodes)."""

from __future__ import annotations

from typing import Protocol

from mesh.client.role_messages import Call
from mesh.client.role_records import address_of
from mesh.model.tree_frames import ReplyKind
from mesh.model.tree_nodes import NODES, NodeSeen, nodes_in


class Asker(Protocol):
    """An application that sends, as `Roles` does."""

    def deadline(self, timeout_s: float) -> int:
        """Return the moment until which somebody waits."""

    def wait_until(self, deadline: int, what: str) -> None:
        """Let a little happen, or raise TimeoutError if it is too late."""

    def send(
        self,
        tree: str,
        role: str,
        payload: bytes = ...,
        *,
        one_response: bool = ...,
        timeout_s: float = ...,
    ) -> Call:
        """Send to whoever holds a role."""


def ask_nodes(roles: Asker, tree: str, timeout_s: float) -> list[NodeSeen]:
    """Return the nodes that can be reached, or those on a tree; see `Roles.nodes`.

    A null says that somebody may have been missed: all are asked again.
    """
    asked = address_of(tree, "any").tree.encode() if tree else b""
    deadline = roles.deadline(timeout_s)
    while True:
        call = roles.send(*NODES, asked, one_response=True, timeout_s=timeout_s)
        if all(one.kind is not ReplyKind.NULL for one in call.wait()):
            break
        roles.wait_until(deadline, "no word of all nodes")
    seen = nodes_in(item for one in call.replies for item in one.items)
    on = (one for one in seen if not tree or one.neighbours is not None)
    return sorted(on, key=lambda one: one.node)
