"""Where nodes are drawn: Kafka clusters as regions on a grid, their nodes on a ring each.

Places are arithmetic and not a simulation of springs: they follow from the topology alone, so they
are the same at every visit, no node lies on a link of others, and a node that comes later takes a
free place near its neighbours while everybody else stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, cos, hypot, pi, sin, sqrt

from mesh.model.topology import Topology

NODE_GAP = 84.0
"""Least distance between two neighbours on a ring."""

RADIUS_MIN = 78.0
MARGIN = 64.0
"""Between a ring and the edge of its region."""

_SLOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Places of a ring: some stay free, so that a node more moves nobody."""

_ROUNDS_MAX = 12
CROSSED = 400.0
"""A link that crosses a node is as bad as so much more of length."""

CLEARANCE = 34.0
"""Between a link and a node that is none of its ends."""

CAREFUL_MAX = 60
"""In meshes of more nodes only lengths count: they are not drawn whole."""

WEIGHED_MAX = 60_000
"""Lengths that are computed at most: about a second, for the largest meshes."""

_ASPECT = 1.5
"""Columns to rows of the grid: windows are wide."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A Kafka cluster as a rectangle."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is drawn.

    Attributes:
        regions: By Kafka cluster.
        nodes: By node.
        cells: Column and row of each Kafka cluster.
        slots: Place of each node on the ring of its Kafka cluster.
        sizes: Places of each ring.
    """

    regions: Mapping[str, Region] = field(default_factory=dict)
    nodes: Mapping[str, Point] = field(default_factory=dict)
    cells: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def places_of(topology: Topology, before: Places | None = None) -> Places:
    """Return where the nodes of a topology are drawn.

    Args:
        topology: The mesh.
        before: Places of an earlier topology: what is still there stays as it was.
    """
    before = before or Places()
    by_kafka = {name: _nodes_on(topology, name) for name in topology.kafka}
    sizes = {
        name: max(before.sizes.get(name, 1), _size(len(nodes))) for name, nodes in by_kafka.items()
    }
    cells = _cells(topology, before.cells)
    radii = {name: _radius(size) for name, size in sizes.items()}
    step = 2 * (max(radii.values(), default=RADIUS_MIN) + MARGIN) + MARGIN
    centres = {name: (column * step, row * step * 0.82) for name, (column, row) in cells.items()}
    rings = {
        name: [_on_ring(centres[name], radii[name], number, size) for number in range(size)]
        for name, size in sizes.items()
    }
    slots = {
        node: before.slots[node]
        for name, nodes in by_kafka.items()
        for node in nodes
        if node in before.slots and before.sizes.get(name) == sizes[name]
    }
    _fill(topology, by_kafka, rings, centres, slots)
    return Places(
        regions={
            name: Region(
                x=round(x - radii[name] - MARGIN, 1),
                y=round(y - radii[name] * 0.82 - MARGIN, 1),
                width=round(2 * (radii[name] + MARGIN), 1),
                height=round(2 * (radii[name] * 0.82 + MARGIN) + 20, 1),
            )
            for name, (x, y) in centres.items()
        },
        nodes={
            node: rings[name][slots[node]] for name, nodes in by_kafka.items() for node in nodes
        },
        cells=cells,
        slots=slots,
        sizes=sizes,
    )


def _nodes_on(topology: Topology, kafka: str) -> Sequence[str]:
    return sorted(node for node, one in topology.nodes.items() if one.kafka == kafka)


def _size(count: int) -> int:
    return next((size for size in _SLOTS if size >= count), count)


def _radius(size: int) -> float:
    return 0.0 if size == 1 else max(RADIUS_MIN, size * NODE_GAP / (2 * pi) * 1.1)


def _on_ring(centre: Point, radius: float, number: int, size: int) -> Point:
    # A sixteenth of a turn: no two nodes of a small ring lie on one level, nor above each other.
    angle = 2 * pi * number / size + pi / 8
    return (
        round(centre[0] + radius * cos(angle), 1),
        round(centre[1] + radius * 0.82 * sin(angle), 1),
    )


def _cells(
    topology: Topology, before: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[int, int]]:
    """Return a cell of the grid for each Kafka cluster: those with many links close together."""
    links: dict[tuple[str, str], int] = {}
    for link in topology.links:
        one, other = (topology.nodes[node].kafka for node in link.ends)
        if one != other:
            links[one, other] = links.get((one, other), 0) + 1
            links[other, one] = links.get((other, one), 0) + 1
    cells = {name: cell for name, cell in before.items() if name in topology.kafka}
    columns = max(1, ceil(sqrt(len(topology.kafka) * _ASPECT)))
    rows = max(1, ceil(len(topology.kafka) / columns))
    free = [(column, row) for row in range(rows) for column in range(columns)]
    free += [(column, rows) for column in range(columns)]
    free = [cell for cell in free if cell not in cells.values()]
    waiting = sorted(name for name in topology.kafka if name not in cells)
    while waiting:
        name = max(waiting, key=lambda one: sum(links.get((one, other), 0) for other in cells))
        waiting.remove(name)
        best = min(
            free,
            key=lambda cell: (
                sum(
                    links.get((name, other), 0) * hypot(cell[0] - at[0], cell[1] - at[1])
                    for other, at in cells.items()
                ),
                free.index(cell),
            ),
        )
        free.remove(best)
        cells[name] = best
    return cells


def _lies_on(point: Point, start: Point, end: Point) -> bool:
    """Return whether a node would be drawn over a link between two others."""
    if point in (start, end):
        return False
    dx, dy = end[0] - start[0], end[1] - start[1]
    square = dx * dx + dy * dy
    if square == 0:
        return False
    along = ((point[0] - start[0]) * dx + (point[1] - start[1]) * dy) / square
    if not 0 < along < 1:
        return False
    return hypot(point[0] - start[0] - along * dx, point[1] - start[1] - along * dy) < CLEARANCE


@dataclass(slots=True)
class _Seating:
    """Nodes on the places of their rings, while these are given out.

    Attributes:
        near: Nodes that links should not cross; none in large meshes.
        long_links: Links between Kafka clusters, which cross rings; none in large meshes.
        weighed: How often a place was weighed.
    """

    topology: Topology
    rings: Mapping[str, Sequence[Point]]
    centres: Mapping[str, Point]
    slots: dict[str, int]
    near: Sequence[str] = ()
    long_links: Sequence[tuple[str, str]] = ()
    weighed: int = 0

    def point(self, node: str) -> Point:
        """Return where a node is, or the middle of its region before it has a place."""
        kafka = self.topology.nodes[node].kafka
        return self.rings[kafka][self.slots[node]] if node in self.slots else self.centres[kafka]

    def length(self, node: str) -> float:
        """Return how long the links of a node are together, and worse where one crosses a node."""
        self.weighed += 1
        here = self.point(node)
        neighbours = self.topology.neighbours(node)
        ends = [self.point(other) for other in neighbours]
        between = [self.point(one) for one in self.near if one in self.slots]
        crossed = sum(_lies_on(point, here, end) for end in ends for point in between)
        crossed += sum(
            _lies_on(here, self.point(a), self.point(b))
            for a, b in self.long_links
            if node not in (a, b)
        )
        return sum(hypot(here[0] - end[0], here[1] - end[1]) for end in ends) + crossed * CROSSED

    def seat(self, node: str, free: Sequence[int]) -> None:
        """Give a node the free place nearest to its neighbours."""

        def length_at(slot: int) -> float:
            self.slots[node] = slot
            return self.length(node)

        self.slots[node] = min(free, key=length_at)

    def improve(self, nodes: Sequence[str], size: int) -> bool:
        """Move and swap nodes of one ring where that makes links shorter; say whether any was."""
        at = {self.slots[node]: node for node in nodes}
        is_better = False
        for node in nodes:
            for slot in range(size):
                if self.weighed < WEIGHED_MAX and self._swap(node, at.get(slot), slot):
                    at = {self.slots[one]: one for one in nodes}
                    is_better = True
        return is_better

    def _swap(self, node: str, other: str | None, slot: int) -> bool:
        if other == node:
            return False
        both = [node] if other is None else [node, other]
        before = sum(map(self.length, both))
        home = self.slots[node]
        self.slots[node] = slot
        if other is not None:
            self.slots[other] = home
        if sum(map(self.length, both)) < before - 1:
            return True
        self.slots[node] = home
        if other is not None:
            self.slots[other] = slot
        return False


def _fill(
    topology: Topology,
    by_kafka: Mapping[str, Sequence[str]],
    rings: Mapping[str, Sequence[Point]],
    centres: Mapping[str, Point],
    slots: dict[str, int],
) -> None:
    """Give every node a place of its ring; those that have one keep it."""
    seating = _Seating(topology, rings, centres, slots)
    if len(topology.nodes) <= CAREFUL_MAX:
        kafka_of = {node: one.kafka for node, one in topology.nodes.items()}
        seating.near = list(topology.nodes)
        seating.long_links = [
            link.ends for link in topology.links if kafka_of[link.ends[0]] != kafka_of[link.ends[1]]
        ]
    is_first = not slots
    for name, nodes in by_kafka.items():
        for node in nodes:
            if node not in slots:
                taken = {slots[one]: None for one in nodes if one in slots}
                seating.seat(node, [n for n in range(len(rings[name])) if n not in taken])
    for _ in range(_ROUNDS_MAX if is_first else 0):
        moved = [seating.improve(nodes, len(rings[name])) for name, nodes in by_kafka.items()]
        if not any(moved):
            break
