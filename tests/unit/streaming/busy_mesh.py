"""A mesh of four nodes in a row, read by an auditor whose micro-batches take their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.model.control import Heartbeat, LinkState
from streaming.audits.splits import Splits


@dataclass
class Read:
    """What an auditor reads of one Kafka cluster in micro-batches that take their time."""

    nodes: Sequence[str]
    lasts: Sequence[int]
    batch: int = 0
    written: list[tuple[str, int] | tuple[str, str, int]] = field(default_factory=list)
    taken: list[tuple[str, int] | tuple[str, str, int]] = field(default_factory=list)
    done_s: int = 0
    read_s: int | None = None


class BusyMesh:
    """a-b on one Kafka cluster, c-d on another, b-c between: read by a slow auditor.

    A micro-batch takes what was written until it begins, and is taken when it ends.
    """

    def __init__(self, lasts: Sequence[Sequence[int]]) -> None:
        self.splits = Splits("abcd", list(pairwise("abcd")))
        self.reads = [Read("ab", lasts[0]), Read("cd", lasts[1])]
        self.now_s = 0
        self.number = 0
        self.found: list[str] = []

    def run(self, seconds: int, *, dead: str = "", is_cut: bool = False) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.number += 1
            for read in self.reads:
                for node in read.nodes:
                    if node not in dead:
                        self._write(read, node, dead, is_cut=is_cut)
                if self.now_s >= read.done_s:
                    self._take(read)
            until = {node: read.read_s for read in self.reads for node in read.nodes}
            self.splits.until = {node: at for node, at in until.items() if at is not None}
            self.found += [one.kind.value for one in self.splits.judge(self.now_s)]

    def _write(self, read: Read, node: str, dead: str, *, is_cut: bool) -> None:
        read.written.append((node, self.number))
        for one, other in pairwise("abcd"):
            if node in (one, other) and not (is_cut and (one, other) == ("b", "c")):
                neighbour = other if node == one else one
                if neighbour not in dead:
                    read.written.append((node, neighbour, self.number))

    def _take(self, read: Read) -> None:
        for record in read.taken:
            match record:
                case (node, neighbour, number):
                    self.splits.acknowledge(node, neighbour, LinkState(1, number))
                case (node, number):
                    beat = Heartbeat(1, number, ready=True)
                    self.splits.beat(node, beat, self.now_s)
        self.splits.taken(read.nodes, is_whole=True)
        if read.batch:
            read.read_s = read.done_s - read.lasts[(read.batch - 1) % len(read.lasts)]
        read.taken, read.written = read.written, []
        read.done_s = self.now_s + read.lasts[read.batch % len(read.lasts)]
        read.batch += 1
