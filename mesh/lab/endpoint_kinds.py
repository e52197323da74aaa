"""What a scenario's subscriptions make of each endpoint: it has one kind and one class. K13."""

from __future__ import annotations

from mesh.lab.steps import Subscribe, Unsubscribe


class EndpointKinds:
    """Follows the steps of a scenario; what a node would refuse in silence is wrong in the file."""

    def __init__(self) -> None:
        self._subscriptions: dict[tuple[str, str], dict[str, str]] = {}

    def follow(self, step: Subscribe | Unsubscribe) -> str | None:
        """Take the next step; return what is wrong with it."""
        subscriptions = self._subscriptions.setdefault((step.node, step.endpoint), {})
        if isinstance(step, Unsubscribe):
            subscriptions.pop(step.filter, None)
            return None
        is_now = f"{step.class_} {step.kind}"
        subscriptions[step.filter] = is_now
        first = next(iter(subscriptions.values()))
        if first == is_now:
            return None
        return (
            f"endpoint {step.endpoint} of {step.node} is a {first} already and cannot be a "
            f"{is_now} too; name another one, or unsubscribe it first"
        )
