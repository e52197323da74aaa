"""The way of one send, seen by an application that watches every node. Spec: tree_layer 6.8."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from mesh.client.role_messages import Call
from mesh.client.roles import Roles
from mesh.client.watching import Passing, Verdict, Watcher

STEP_S = 0.01


@dataclass(frozen=True, slots=True)
class Sighting:
    """A message, or a reply to it, at one node.

    Attributes:
        node: The node.
        came_from: The neighbour, or "" for the node itself.
        what: `message`, or the kind of the reply.
        hops: Links that the message had crossed.
        has_role: The role is hosted there.
        is_last: For a reply: nothing follows it, as far as the node knows.
    """

    node: str
    came_from: str
    what: str
    hops: int
    has_role: bool
    is_last: bool


def trace_send(
    at: Mapping[str, Roles],
    start: str,
    tree: str,
    role: str,
    payload: bytes = b"",
    *,
    timeout_s: float,
    one_instance: bool = False,
    local_realm: bool = False,
) -> tuple[Call, Sequence[Sighting], Collection[str]]:
    """Send, and return the call, what passed each node, and which nodes were silent.

    The sightings are in the order of the hops; those of silent nodes may be missing. The
    watches end with the lease of the application: another process of the same name may be
    watching the same tree just now.

    Args:
        at: An application that is open at each node that is to be watched.
        start: The node that sends.
        tree: Name or UUID of the tree.
        role: The role to send to.
        payload: The content.
        timeout_s: How long to wait for the last reply, and for each node's answer.
        one_instance: Send to the nearest holder only.
        local_realm: Send only to holders in the sender's realm.
    """
    mark = f"trace {uuid4().hex}".encode()
    seen: list[tuple[str, Passing]] = []
    for node, roles in at.items():
        roles.snoop(_noting(node, seen), tree, holds=False)
    silent: dict[str, None] = {}

    def let_answer() -> None:
        """Wait for an answer of each node: earlier requests are then in force, or read."""
        for node, roles in at.items():
            try:
                if node not in silent:
                    roles.routes(tree, role, timeout_s=timeout_s)
            except TimeoutError:
                silent[node] = None

    let_answer()
    call = at[start].send(
        tree, role, payload, header=mark, timeout_s=timeout_s,
        one_instance=one_instance, local_realm=local_realm,
    )  # fmt: skip
    deadline = at[start].deadline(timeout_s)
    while not call.is_done and call.refusal is None and not at[start].is_past(deadline):
        for roles in at.values():
            roles.step(STEP_S)
    let_answer()
    mids = {one.shown.mid for _, one in seen if one.shown.header == mark}
    own = [(node, one) for node, one in seen if one.shown.mid in mids]
    return call, sorted((_seen(*one) for one in own), key=_order), silent


def _noting(node: str, seen: list[tuple[str, Passing]]) -> Watcher:
    def note(passing: Passing) -> Verdict:
        seen.append((node, passing))
        return Verdict.CONTINUE

    return note


def _seen(node: str, passing: Passing) -> Sighting:
    shown = passing.shown
    what = "message" if shown.kind is None else str(shown.kind)
    return Sighting(node, shown.link, what, shown.hops, shown.has_role, shown.is_last)


def _order(one: Sighting) -> tuple[bool, int]:
    """Sort messages by their hops, then replies from the far end; otherwise as they came."""
    is_reply = one.what != "message"
    return is_reply, -one.hops if is_reply else one.hops
