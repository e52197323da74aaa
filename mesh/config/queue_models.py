"""The shape of `spec.queues`; what its values mean to each other is in `queue_rules`.

Spec: DESIGN 6.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mesh.config.scalars import duration_s
from mesh.config.shapes import StrictModel
from mesh.model.queues import Queue, QueuePolicy

PolicyName = Literal["every", "local", "home", "any"]


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
