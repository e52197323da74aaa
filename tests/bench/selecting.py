"""What selectors cost, and that who has none pays nothing: CPU per message on the simulator.

A chain a - b - c; a and b each send what a publishes over a link that selects nothing, by
subject, or by header, with all messages selected or half of them. Of several runs the quickest
counts: what else a machine does only adds.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import StartError
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.wire.keys import subscription_key
from mesh.worker.process.logs import set_up_logs
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.interest import TimedBackend, begin

START_MS, DRAIN_MS = 3_000, 6_000
PAYLOAD = 200
SUBJECTS = 50

WAYS: Mapping[str, tuple[str | None, int]] = {
    "none": (None, 1),
    "the way back": ("back", 1),
    "subject": ('subject.startsWith("acme/")', 1),
    "header, all selected": ('headers["kind"] == "0"', 1),
    "header, half selected": ('headers["kind"] == "0"', 2),
}
"""What the link selects by, and of how many messages it selects one."""


@dataclass(frozen=True, slots=True)
class Found:
    """CPU per message in microseconds, by what selects: at a, who encodes, and at b, in transit."""

    messages: int
    microseconds: Mapping[str, Mapping[str, float]]


def run(way: str, messages: int) -> Mapping[str, float]:
    """Send messages down the chain once."""
    when, parts = WAYS[way]
    sides = [("a", "b"), ("b", "c")]
    if when == "back":
        sides, when = [("b", "a"), ("c", "b")], "false"
    chosen = [{"link": list(one), "from": one[0], "when": when} for one in sides if when]
    zone = {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}
    nodes: dict[str, object] = {"a": {}, "b": {}, "c": {}}
    spec = {"kafka": {"k": {}}, "nodes": nodes, "zones": {"Z": zone}, "selectors": chosen}
    topology, names = topology_from_mapping(spec), TopicNames()
    backend = TimedBackend(topology)
    begin(topology, backend)
    writer = backend.kafka["k"].writer("bench-selectors")
    writer.produce(names.clients("c"), b"{}", subscription_key("s", ">"), 0)
    writer.flush()
    rest(backend, START_MS)
    ingress = names.ingress("a", MessageClass.GUARANTEED)
    for number in range(messages):
        subject = (SUBJECT_HEADER, b"acme/%d" % (number % SUBJECTS))
        headers = [subject, ("kind", b"%d" % (number % parts))]
        writer.produce(ingress, bytes(PAYLOAD), b"k", number % 4, headers=headers)
    writer.flush()
    backend.cpu_s.clear()
    rest(backend, DRAIN_MS)
    logs = backend.kafka["k"].topics[names.endpoint("c", "s")].logs
    arrived = sum(entry is not None for log in logs for entry in log.entries)
    if arrived != messages // parts:
        raise StartError(f"{arrived} messages arrived, not {messages // parts}")
    return {node: backend.cpu_s[node] * 1e6 / messages for node in ("a", "b")}


def rest(backend: TimedBackend, length_ms: int) -> None:
    """Let virtual time pass."""
    until = backend.now_ms() + length_ms
    while backend.now_ms() < until:
        backend.advance()


def measure(messages: int, runs: int, directory: Path) -> Found:
    """Run every way so often, in turn."""
    best: dict[str, dict[str, float]] = {}
    for number in range(runs):
        say(f"run {number + 1} of {runs}")
        for way in WAYS:
            for node, cost in run(way, messages).items():
                known = best.setdefault(way, {})
                known[node] = min(cost, known.get(node, cost))
    return Found(messages, best)


def rows(found: Found) -> Sequence[str]:
    """Return the figures as lines for people."""
    lines = [f"{'SELECTS BY':24}{'PUBLISHED, µs':>15}{'IN TRANSIT, µs':>16}"]
    for way, costs in found.microseconds.items():
        lines.append(f"{way:24}{costs['a']:15.2f}{costs['b']:16.2f}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("selecting", __doc__)
    parser.add_argument("--messages", type=at_least(2), default=20_000)
    parser.add_argument("--runs", type=at_least(1), default=5)
    options = parser.parse_args(arguments)
    set_up_logs(level=logging.ERROR)
    return carry_out(options, partial(measure, options.messages, options.runs), rows, asdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
