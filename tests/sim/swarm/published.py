"""What clients do, as the judges of a schedule know it, and what they say of what must not be."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.model.frames import MessageClass

Identity = tuple[bytes, int, int]
"""Topic id, partition and offset of the ingress."""

Name = tuple[bytes, int, int, int]
"""Likewise, and how many had these before."""


class ViolationError(Exception):
    """Something that must never be.

    Attributes:
        rule: The invariant, in a few words that stay the same from seed to seed.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


@dataclass(slots=True)
class Message:
    """What a client has published."""

    identity: Identity
    node: str
    place: tuple[str, int]
    subject: str
    payload: bytes
    key: bytes | None
    of: MessageClass
    at: int
    life: int = 0

    @property
    def name(self) -> tuple[bytes, int, int, int]:
        """What tells it from all others: a log that was cut off gives its offsets out again."""
        return (*self.identity, self.life)

    @property
    def order(self) -> tuple[int, int]:
        """Where it stands in its partition."""
        return self.life, self.identity[2]


@dataclass(slots=True)
class Wish:
    """What a client has subscribed to.

    Attributes:
        offset: Of its record on `clients`; it is in force from there on.
        ended: Of the record that ended it, or None.
        settled_ms: When the node said that it is known everywhere, or None.
    """

    node: str
    endpoint: str
    filter_: str
    of: MessageClass
    offset: int
    ended: int | None = None
    settled_ms: int | None = None
