"""How far a worker has read and routes by: a version of each of its inputs. Spec: K16, K24, K25.

An input is the own `clients`, a scope of a neighbour, or the record of changes; a version is a
pair that only grows: an epoch, and a number or an offset in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mesh.node.relinking import UNCHANGED

Version = tuple[int, int]


@dataclass(slots=True)
class InputVersions:
    """What was read of each input, and what of it the routing in force goes by.

    Attributes:
        read: What the next round brings into force.
        routed: What is in force.
    """

    read: dict[str, Version] = field(default_factory=dict)
    routed: Mapping[str, Version] = field(default_factory=dict)
    _voided: dict[str, Version] = field(default_factory=dict)
    _is_asked: bool = True

    @property
    def has_news(self) -> bool:
        """Whether a round would bring another version into force, or one is asked for."""
        return self._is_asked or self.routed != self.read

    def note(self, source: str, version: Version) -> None:
        """Record that an input is read up to a version: the lanes commit it in a round."""
        self.read[source] = version

    def ask_for_round(self) -> None:
        """Have news even without any."""
        self._is_asked = True

    def begin_round(self) -> Mapping[str, Version]:
        """Route by all that was read; return what that is."""
        self._is_asked = False
        self.routed = dict(self.read)
        return self.routed

    def is_unread(self, source: str, version: Version) -> bool:
        """Return whether less than a version of an input was read."""
        return self.read.get(source, UNCHANGED) < version

    def is_unrouted(self, source: str, version: Version) -> bool:
        """Return whether the routing in force goes by less than a version of an input."""
        return self.routed.get(source, UNCHANGED) < version

    def is_late(self, source: str, version: Version) -> bool:
        """Return whether it does, and the version can still be read."""
        is_void = version <= self._voided.get(source, UNCHANGED)
        return not is_void and self.is_unrouted(source, version)

    def void(self, source: str, version: Version) -> None:
        """Stop waiting for a version of an input: the topic that announced it has lost its end."""
        self._voided[source] = max(self._voided.get(source, UNCHANGED), version)

    def begin_again(self, source: str) -> None:
        """Have an input read again, whose versions known so far may never be seen again."""
        self.void(source, self.read.pop(source, UNCHANGED))
        self.void(source, self.routed.get(source, UNCHANGED))

    def forget(self, neighbours: Collection[str]) -> None:
        """Have no input of these neighbours."""
        for source in list(self.read):
            if " " in source and source.split(" ")[0] in neighbours:
                del self.read[source]
