"""What the entries of `spec.queues` must mean to each other and to the nodes. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.config.located import KeyPath
from mesh.config.scalars import DURATION_RULE, duration_s
from mesh.config.shapes import nearest
from mesh.model.names import fold, name_fault
from mesh.model.queues import QueuePolicy

Fault = tuple[str, str, KeyPath]
"""Code, message, and the path below `spec`."""


def queue_faults(spec: Mapping[str, object]) -> Iterator[Fault]:
    """Yield what is wrong with the queues of a Mesh spec, as it was read."""
    queues, nodes = spec.get("queues"), spec.get("nodes")
    known = list(nodes) if isinstance(nodes, Mapping) else []
    seen: dict[str, str] = {}
    for name, queue in queues.items() if isinstance(queues, Mapping) else ():
        if (fault := name_fault(name)) is not None:
            yield "BAD_NAME", fault, ("queues", name)
        other = seen.setdefault(fold(name), name)
        if other != name:
            message = f"{name!r} and {other!r} are one queue: case makes no other name; make one"
            yield "NAME_CLASH", message, ("queues", name)
        if isinstance(queue, Mapping):
            yield from _of_queue(name, queue, known)


def _of_queue(name: str, queue: Mapping[str, object], nodes: list[str]) -> Iterator[Fault]:
    home, age = queue.get("home"), queue.get("maxAge")
    if isinstance(home, str):
        path: KeyPath = ("queues", name, "home")
        if home not in nodes:
            hint = nearest(home, nodes) or "; none is declared"
            yield "UNKNOWN_NODE", f"no node is called {home!r}{hint}", path
        if queue.get("policy") != QueuePolicy.HOME:
            message = "only a queue with policy home has one; write policy: home or remove it"
            yield "CONFLICTING_KEYS", message, path
    if isinstance(age, str) and not duration_s(age):
        message = f"{age[:60]!r} is no duration above 0; write {DURATION_RULE}"
        yield "WRONG_VALUE", message, ("queues", name, "maxAge")
