"""What a scenario's result says of the tree layer, and what its expectations are judged by.

Spec: lab.md 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mesh.errors import TransportError
from mesh.lab.backend import Backend
from mesh.lab.step_rules import COUNTS
from mesh.lab.steps import Expect
from mesh.lab.tree_sends import LabApplications
from mesh.model.topology import Topology
from mesh.transport.port import TopicPartition, place_of
from mesh.transport.reading import read_logs
from mesh.view.mesh_view import MeshView

KINDS: Mapping[str, Sequence[str]] = {
    "publish": ("publish", "bulk"),
    "recovery": (
        "recovery_request",
        "recovery_answer",
        "recovery_done",
        "route_break",
        "trees",
    ),
    "send": ("send",),
    "reply": ("reply", "reopen"),
    "edge": ("edge",),
    "event": ("colour", "heal", "heal_notice"),
}
"""What is counted together -> keys of frames; PING, PONG, HELLO, BYE and the
question of a new link (`get_trees`) are left out."""

_COUNTED = {key: kind for kind, keys in KINDS.items() for key in keys}
_NO_COLOUR = "-"


@dataclass(slots=True)
class TreeFrames:
    """Counts frames of the tree layer on every link from the beginning of a scenario on.

    Attributes:
        topology: The first one.
        backend: Where its topics are.
    """

    topology: Topology
    backend: Backend
    _begins: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Remember where the topics end now."""
        for kafka, places in _places([self.topology]).items():
            ends = self.backend.kafka[kafka].admin().ends(list(places))
            self._begins |= {place: ends.get(place, 0) for place in places}

    def document(self, topologies: Sequence[Topology]) -> Mapping[str, Mapping[str, int]]:
        """Return how many frames of each kind there were, per direction.

        Directions of which the Kafka cluster does not answer are left out.

        Args:
            topologies: All that were in force: links that came or went count as any other.
        """
        counts: dict[str, Counter[str]] = {}
        for kafka, places in _places(topologies).items():
            counted = {link: Counter[str]() for link in places.values()}
            with suppress(TransportError):  # told as what is not counted at the end of the run
                cluster = self.backend.kafka[kafka]
                logs = read_logs(cluster, list(places), passed=self._begins, name="tree-frames")
                for record in logs:
                    kind = _COUNTED.get((record.key() or b"").decode("utf-8", "replace"))
                    if kind is not None:
                        link = places[place_of(record)]
                        counted[link][kind] += 1
                counts |= counted
        return {
            link: {kind: found[kind] for kind in KINDS} for link, found in sorted(counts.items())
        }


def _places(topologies: Sequence[Topology]) -> Mapping[str, Mapping[TopicPartition, str]]:
    """Return, per Kafka cluster, the topic of each direction, and what it is called."""
    found: dict[str, dict[TopicPartition, str]] = {}
    for topology in topologies:
        names = topology.names
        for node, declared in topology.nodes.items():
            for other in topology.neighbours(node):
                place = TopicPartition(names.to_trees(node, other), 0)
                found.setdefault(declared.kafka, {})[place] = f"{node}->{other}"
    return found


def colours(view: MeshView, nodes: Sequence[str]) -> Mapping[str, str]:
    """Return the label of each node's part, as its heartbeat has it."""
    beats = {node: view.nodes[node].heartbeat for node in nodes}
    return {node: _NO_COLOUR if beat is None else beat.colour or _NO_COLOUR
            for node, beat in sorted(beats.items())}  # fmt: skip


def parts_of(labels: Mapping[str, str]) -> list[list[str]]:
    """Return the nodes of each colour; one without has a part of its own."""
    found: dict[str, list[str]] = {}
    for node, label in sorted(labels.items()):
        found.setdefault(node if label == _NO_COLOUR else f" {label}", []).append(node)
    return sorted(found.values())


def tree_faults(expect: Expect, apps: LabApplications, labels: Mapping[str, str]) -> Sequence[str]:
    """Return how what is expected of sends, holders or parts differs from what is."""
    if expect.parts is not None:
        wanted, found = sorted(sorted(part) for part in expect.parts), parts_of(labels)
        return [] if wanted == found else [f"parts are {found}, expected {wanted}"]
    if expect.holder is not None:
        holders = list(apps.holders(list(labels)).get(expect.holder, ()))
        wanted_nodes = [] if expect.node is None else [expect.node]
        fault = f"{expect.holder} is held by {holders or 'nobody'}, expected {expect.node}"
        return [] if holders == wanted_nodes else [fault]
    return differences(expect, "send", apps.sends[expect.send or ""].document())


def differences(expect: Expect, of: str, found: Mapping[str, object]) -> list[str]:
    """Return how what was counted of a link or a send differs from what is expected."""
    told = []
    for name in COUNTS[of]:
        wanted = getattr(expect, name)
        wanted = sorted(wanted) if isinstance(wanted, list) else wanted
        if wanted not in (None, found[name]):
            told.append(f"{getattr(expect, of)}: {name} {found[name]}, expected {wanted}")
    return told
