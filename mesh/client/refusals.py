"""Whether a node has accepted a known subscription, or refuses it and why. Spec: K13."""

from __future__ import annotations

from collections.abc import Callable

from mesh.model.words import EndpointWord
from mesh.view.mesh_view import MeshView

_LOOK_S = 0.1


def refusal(
    view: MeshView,
    node: str,
    endpoint: str,
    *,
    until_ms: int,
    now_ms: Callable[[], int],
    pause: Callable[[float], None],
) -> str | None:
    """Return why a node refuses an endpoint's subscription, or None if it does not.

    A node reports that with its heartbeats; only one that began after this call counts.

    Args:
        view: Follows the node; it was refreshed just now.
        node: The node.
        endpoint: Endpoint of the subscription, which the node has read.
        until_ms: When to go by what is known, if the node sends no heartbeats.
        now_ms: The clock.
        pause: Waits a number of seconds.
    """
    first = view.nodes[node].heartbeat
    while True:
        view.refresh()
        beat = view.nodes[node].heartbeat
        if beat is not None and (first is None or beat.beat > first.beat + 1):
            break
        if beat is not None and first is not None and beat.epoch != first.epoch:
            break
        if now_ms() >= until_ms:
            break
        pause(_LOOK_S)
    refused = (one for one in view.nodes[node].endpoints if one.state == EndpointWord.REFUSED)
    return next((one.reason for one in refused if one.endpoint == endpoint), None)
