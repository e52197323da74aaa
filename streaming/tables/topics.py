"""What a topic name says: whose topic it is and what it carries. Spec: kafka.md 1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

INGRESS = "in"
OUTBOX = "to"
ENDPOINT = "ep"
CONFIG = "config"
"""What operators say: the topology in force, and the change under way. Spec: kafka.md 1, K28."""

LEDGER = "ledger"

CLIENTS = "clients"
SMALL_KINDS = (CLIENTS, "control", "progress", LEDGER, CONFIG)
"""Topics of few and small records, whose bytes may reach Python."""

ANNOUNCEMENT = "gap"
"""Stands for a record in an endpoint that announces a loss: it is no delivery."""

GUARANTEED = "g"
DIRECT = "d"
CONTROL = "c"

_NAME = "[A-Za-z0-9][A-Za-z0-9-]*"

TOPIC_NAME_MAX = 249
"""Characters that Kafka allows in the name of a topic."""

NAMES_KEPT = 65_536
"""Names that were taken apart, kept at most."""


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A topic taken apart.

    Attributes:
        node: Owner.
        kind: `in`, `to`, `ep`, or one of the small kinds.
        other: Outbox: the neighbour; endpoint: its name; else empty.
        letter: `g`, `d` or `c` where the name ends with one; else empty.
    """

    node: str
    kind: str
    other: str = ""
    letter: str = ""

    @property
    def link(self) -> str:
        """Return `tk1->ny1` for an outbox, else nothing."""
        return f"{self.node}->{self.other}" if self.kind == OUTBOX else ""

    @property
    def endpoint(self) -> str:
        """Return `pa2/s1` for an endpoint, else nothing."""
        return f"{self.node}/{self.other}" if self.kind == ENDPOINT else ""


@lru_cache(maxsize=NAMES_KEPT)
def place_of(prefix: str, topic: str) -> TopicPlace:
    """Return what a topic of the mesh is.

    Raises:
        ValueError: The name does not start with the prefix or has no known form.
    """
    if not topic.startswith(prefix):
        raise ValueError(f"{topic!r} is no topic of the mesh {prefix!r}")
    match topic[len(prefix) :].split("."):
        case [node, "in", letter]:
            return TopicPlace(node, INGRESS, letter=letter)
        case [node, "to", other, letter]:
            return TopicPlace(node, OUTBOX, other, letter)
        case [node, "ep", other]:
            return TopicPlace(node, ENDPOINT, other)
        case ["config"]:
            return TopicPlace("", CONFIG)
        case [node, kind] if kind in SMALL_KINDS and kind != CONFIG:
            return TopicPlace(node, kind)
    raise ValueError(f"{topic!r} has no form that a topic of the mesh may have")


def is_place(prefix: str, topic: str) -> bool:
    """Return whether a name that a record tells can be one of a topic of the mesh."""
    return len(topic) <= TOPIC_NAME_MAX and _audited(prefix).fullmatch(topic) is not None


@cache
def _audited(prefix: str) -> re.Pattern[str]:
    return re.compile(audited_pattern(prefix))


def is_of_data(prefix: str, topic: str) -> bool:
    """Return whether a topic holds messages; others say what the messages are judged by."""
    place = place_of(prefix, topic)
    return place.kind not in SMALL_KINDS and place.letter != CONTROL


def audited_pattern(prefix: str) -> str:
    """Return the Java regular expression of all topics that the auditor reads.

    Nodes are not spelled out, because a change of the topology may bring others while the auditor
    runs, and their topics are audited from the first record on; endpoints are not, because
    clients make new ones at any time. It is anchored: Spark looks for the pattern anywhere in a
    name, and `control` would also find `control.log`.
    """
    rests = (
        "in\\.[gd]",
        f"to\\.{_NAME}\\.[gdc]",
        f"ep\\.{_NAME}",
        *(kind for kind in SMALL_KINDS if kind != CONFIG),
    )
    of_nodes = f"(?!audit\\.|config\\.){_NAME}\\.(?:{'|'.join(rests)})"
    return f"^{re.escape(prefix)}(?:{of_nodes}|{CONFIG})$"
