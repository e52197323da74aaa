"""The vocabulary of the tree layer: trees, roles, instances, extents, colours, fresh ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType
from uuid import UUID, uuid5

TreeId = NewType("TreeId", str)
"""A UUID in its canonical text form."""

InstanceId = NewType("InstanceId", int)
"""One hosting of a role, 128 bits: Lamport clock, incarnation, count. Later ones are higher."""

MessageId = NewType("MessageId", int)
"""Of sends, floods, recoveries and events: 128 bits, incarnation and count."""

NO_INSTANCE = InstanceId(0)
NO_MESSAGE = MessageId(0)

TREES = UUID("8a4fd9a2-6f3c-5d0b-9f57-1c1d6f2b7e30")
"""The name space that maps the name of a tree to its UUID."""

NAME_BYTES_MAX = 200
"""Limit for a role or the name of a tree, in UTF-8: a record's key holds both."""

ID_BITS = 64
_CLOCK_SHIFT = 96
_COUNT_BITS = 32


class Extent(StrEnum):
    """How far something reaches: a published role, a flood, a map of routes, a colour."""

    CLOUD = "cloud"
    REALM = "realm"
    NODE = "node"

    def covers(self, other: Extent) -> bool:
        """Return whether this extent reaches at least as far as another."""
        return self in (Extent.CLOUD, other) or other is Extent.NODE


class Colour(NamedTuple):
    """The label of the connected part of the mesh; the later one wins. Spec: tree_layer 7.1.

    Attributes:
        clock: Lamport clock of the node that created it.
        id: Fresh, so that two created at the same clock differ.
    """

    clock: int
    id: int

    def __str__(self) -> str:
        """Return its label: the clock, and what distinguishes two created at the same clock."""
        return f"{self.clock}-{self.id:032x}"

    @classmethod
    def labelled(cls, text: str) -> Colour:
        """Return the colour of a label.

        Raises:
            ValueError: It is not one, or not in the canonical form.
        """
        clock, _, id_ = text.partition("-")
        found = cls(int(clock), int(id_, 16))
        if str(found) != text or found.id >> 2 * ID_BITS:
            raise ValueError(f"no label of a colour: {text[:80]!r}")
        return found


class Address(NamedTuple):
    """Where a message goes: a role on a tree, wherever it is hosted."""

    tree: TreeId
    role: str


@dataclass(slots=True)
class Ids:
    """Fresh ids of one incarnation of a node: no randomness, and never the same twice.

    Attributes:
        incarnation: 64 bits that no other incarnation of any node has.
        used: How many were given out.
    """

    incarnation: int
    used: int = 0

    def fresh(self) -> MessageId:
        """Return an id that nobody else gives out."""
        self.used += 1
        return MessageId(self.incarnation << ID_BITS | self.used)

    def instance(self, clock: int) -> InstanceId:
        """Return an id above all that were created with a lower clock. Spec: tree_layer 5.4."""
        self.used += 1
        count = self.used & (1 << _COUNT_BITS) - 1
        return InstanceId(clock << _CLOCK_SHIFT | self.incarnation << _COUNT_BITS | count)


def clock_of(iid: InstanceId) -> int:
    """Return the Lamport clock at which an instance was made."""
    return iid >> _CLOCK_SHIFT


def tree_id(name: str) -> TreeId:
    """Return the tree that a UUID or a name stands for.

    Raises:
        ValueError: the text is empty, too long or has control characters or spaces.
    """
    if fault := name_fault(name):
        raise ValueError(fault)
    try:
        found = UUID(name)
    except ValueError:
        return TreeId(str(uuid5(TREES, name)))
    # Python also reads digits of other scripts, and passes over `_` between them.
    is_uuid = found.hex in name.lower().replace("-", "")
    return TreeId(str(found if is_uuid else uuid5(TREES, name)))


def name_fault(name: str) -> str | None:
    """Return why a text names no role and no tree, or None if it does."""
    if not name:
        return "a name is empty; write 1 to 200 bytes without spaces"
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        return f"{name[:40]!r}... is longer than {NAME_BYTES_MAX} bytes"
    if not name.isprintable() or any(one.isspace() for one in name):
        return f"{name[:80]!r} has spaces or control characters; write it without"
    return None
