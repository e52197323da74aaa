"""The topologies of a scenario, one after another, and who reached whom under them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.core.controls import controls_barring
from mesh.core.direct_only import guaranteed_part
from mesh.lab.checker.reach import Copy, copies_from
from mesh.model.frames import MessageClass
from mesh.model.subject import matches
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
            subject: Of the messages; every join on the way must select it, and no node on the way
                keep it local.
            steps: First and last; under all that was in force meanwhile they must go.
            message_class: Of the messages; a direct-only link carries direct ones alone.
        """
        since, until = steps
        ends = [step for step, _ in self.found[1:]] + [until + 1]
        return all(
            self._carries(index, (source, target), subject, message_class)
            for index, (began, _) in enumerate(self.found)
            if began <= until and ends[index] > since
        )

    def _carries(
        self, index: int, ends: tuple[str, str], subject: str, message_class: MessageClass
    ) -> bool:
        """Return whether messages must arrive by one topology: there is one way at most.

        What a selector may refuse on its way may come, but need not.
        """
        (source, target), topology = ends, self.found[index][1]
        if message_class is MessageClass.GUARANTEED:
            topology = guaranteed_part(topology)
        if (key := (index, source, message_class)) not in self._ways:
            self._ways[key] = {source: Copy((source,))} | copies_from(topology, source)
        way = self._ways[key].get(target)
        return (
            way is not None
            and not way.is_selected
            and all(matches(one, subject) for one in way.filters)
            and (source == target or not any(controls_barring(topology, way.path, subject)))
        )
