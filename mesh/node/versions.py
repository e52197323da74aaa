"""How far a worker has read and routes by: a version of each of its inputs. Spec: K16, K24, K25.

An input is the own `clients`, a scope of a neighbour, or the record of changes; a version is a
pair that only grows: an epoch, and a number or an offset in it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mesh.model.control import NEVER, Version
from mesh.model.interest_inputs import VersionByInput, neighbour_of


@dataclass(slots=True)
class InputVersions:
    """What was read of each input, and how much of it the routing in force uses.

    Attributes:
        read: What the next round puts in force.
        routed: What is in force.
    """

    read: dict[str, Version] = field(default_factory=dict)
    routed: VersionByInput = field(default_factory=dict)
    _voided: dict[str, Version] = field(default_factory=dict)
    _is_asked: bool = True

    @property
    def has_news(self) -> bool:
        """Whether a round would put another version in force, or one was requested."""
        return self._is_asked or self.routed != self.read

    def note(self, input_: str, version: Version) -> None:
        """Record that an input is read up to a version: the lanes commit it in a round."""
        self.read[input_] = version

    def ask_for_round(self) -> None:
        """Request a round even without news."""
        self._is_asked = True

    def begin_round(self) -> VersionByInput:
        """Route by everything that was read; return that."""
        self._is_asked = False
        self.routed = dict(self.read)
        return self.routed

    def is_unread(self, input_: str, version: Version) -> bool:
        """Return whether less than a version of an input was read."""
        return self.read.get(input_, NEVER) < version

    def is_unrouted(self, input_: str, version: Version) -> bool:
        """Return whether the routing in force uses less than a version of an input."""
        return self.routed.get(input_, NEVER) < version

    def is_late(self, input_: str, version: Version) -> bool:
        """Return whether that is so, and the version can still be read."""
        is_void = version <= self._voided.get(input_, NEVER)
        return not is_void and self.is_unrouted(input_, version)

    def void(self, versions: VersionByInput) -> None:
        """Stop waiting for these: the topics that announced them have lost their ends."""
        for input_, version in versions.items():
            self._voided[input_] = max(self._voided.get(input_, NEVER), version)

    def begin_again(self, input_: str) -> None:
        """Read an input again; versions known so far may never be seen again."""
        read = self.read.pop(input_, NEVER)
        self.void({input_: max(read, self.routed.get(input_, NEVER))})

    def forget(self, neighbours: Collection[str]) -> None:
        """Drop the inputs of these neighbours, and void nothing of newcomers under their names."""
        for known in (self.read, self._voided):
            for input_ in [one for one in known if neighbour_of(one) in neighbours]:
                del known[input_]
