"""`spec.queues` of a Mesh file: its shape, and what it must mean. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from mesh.config.located import KeyPath
from mesh.config.nearest import nearest
from mesh.config.scalars import DURATION_RULE, duration_s
from mesh.config.shapes import StrictModel
from mesh.model.names import fold, name_fault
from mesh.model.queues import Queue, QueuePolicy

PolicyName = Literal["every", "local", "home", "any"]
Fault = tuple[str, str, KeyPath]
"""Code, message, and the path below `spec`."""


class QueueSpec(StrictModel):
    """All queues of one name."""

    policy: PolicyName = Field(
        "every",
        description="every: each queue of the name gets a copy; local: nothing crosses links; "
        "home: one node has it, neighbours send there; any: the nearest member gets a message.",
    )
    home: str | None = Field(None, description="With policy home: the node that has the queue.")
    max_deliveries: int | None = Field(
        None, alias="maxDeliveries", ge=1, description="How often consumers are given a message."
    )
    max_age: str | None = Field(
        None, alias="maxAge", description="How long a message may wait in it, as in 2h."
    )


def queue_of(name: str, spec: QueueSpec) -> Queue:
    """Return what a file declares of a queue."""
    return Queue(
        name=name,
        policy=QueuePolicy(spec.policy),
        home=spec.home,
        max_deliveries=spec.max_deliveries,
        max_age_s=None if spec.max_age is None else duration_s(spec.max_age),
    )


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
            message = (
                f"{name[:80]!r} and {other[:80]!r} are one queue: case does not tell names apart; "
                "merge the two"
            )
            yield "NAME_CLASH", message, ("queues", name)
        if isinstance(queue, Mapping):
            yield from _of_queue(name, queue, known)


def _of_queue(name: str, queue: Mapping[str, object], nodes: list[str]) -> Iterator[Fault]:
    home, age = queue.get("home"), queue.get("maxAge")
    if isinstance(home, str):
        path: KeyPath = ("queues", name, "home")
        if home not in nodes:
            hint = nearest(home, nodes) or "; none is declared"
            yield "UNKNOWN_NODE", f"no node is called {home[:80]!r}{hint}", path
        if queue.get("policy") != QueuePolicy.HOME:
            message = "only a queue with policy home has one; write policy: home or remove it"
            yield "CONFLICTING_KEYS", message, path
    if isinstance(age, str) and not duration_s(age):
        message = f"{age[:60]!r} is not a duration above 0; write {DURATION_RULE}"
        yield "WRONG_VALUE", message, ("queues", name, "maxAge")
