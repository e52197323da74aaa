"""The topologies of a scenario, one after another, and who reached whom under them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.lab.checker.reach import Copy, copies_from
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology


@dataclass(slots=True)
class Topologies:
    """What was in force, in order.

    Attributes:
        found: With the step that put it in force; -1 for the first.
    """

    found: list[tuple[int, Topology]]
    _ways: dict[tuple[int, str, MessageClass], dict[str, Copy]] = field(default_factory=dict)

    def is_changed(self, after: int, before: int) -> bool:
        """Return whether another was put in force between two steps."""
        return any(after < step < before for step, _ in self.found)

    def at(self, step: int) -> Topology:
        """Return what was in force at a step."""
        return self.found[self._index(step)][1]

    def _index(self, step: int) -> int:
        return max(i for i, (began, _) in enumerate(self.found) if began <= step)

    def carry(
        self,
        source: str,
        target: str,
        subject: str,
        steps: tuple[int, int],
        message_class: MessageClass = MessageClass.GUARANTEED,
    ) -> bool:
        """Return whether messages go from one node to another once they are wanted. Spec: DESIGN 3.

        Args:
            source: Where they are published.
            target: Where they are wanted.
            subject: Of the messages.
            steps: First and last; under all that was in force meanwhile they must go.
            message_class: Of the messages.
        """
        since, until = map(self._index, steps)
        ways = [self._way(source, target, at, message_class) for at in range(since, until + 1)]
        return all(way is not None and way.must_bring(subject) for way in ways)

    def way(self, source: str, target: str, step: int, message_class: MessageClass) -> Copy | None:
        """Return the one way that messages of a class had at a step, or None."""
        return self._way(source, target, self._index(step), message_class)

    def _way(self, source: str, target: str, at: int, message_class: MessageClass) -> Copy | None:
        if (key := (at, source, message_class)) not in self._ways:
            is_guaranteed = message_class is MessageClass.GUARANTEED
            copies = copies_from(self.found[at][1], source, guaranteed=is_guaranteed)
            self._ways[key] = {source: Copy((source,))} | copies
        return self._ways[key].get(target)
