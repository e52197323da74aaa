"""How long one message of a million is looked for: `python -m tests.bench.trace`.

The nine nodes of the demo's three zones on one embedded broker, without workers: what they would
have written is written here, by the codecs that they use. Every node has an endpoint; two get all
messages, the others every tenth. Ten messages are traced, from the first to the last.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from mesh.config.topology_file import topology_from_mapping
from mesh.local.brokers import EmbeddedKafka, KafkaClusters
from mesh.local.embedded import start_together
from mesh.local.jars import find_kafka
from mesh.model.frames import (
    Chain,
    FrameHeader,
    Hop,
    Message,
    MessageClass,
    Origin,
    SourcePartition,
)
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import DeliveredCount, Ledger, SourceRange
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.messages.trace import Tracer
from mesh.transport.kafka import RealKafka
from mesh.transport.port import TopicSpec
from mesh.wire.deliveries import delivery_headers, delivery_prefix
from mesh.wire.frames import encode_value
from mesh.wire.header import encode_header
from mesh.wire.state import encode_ledger
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line

SPEC: Mapping[str, object] = {
    "kafka": {"tokyo": None, "newyork": None, "paris": None},
    "nodes": {
        f"{zone}{number}": {"kafka": kafka, "partitions": 1}
        for zone, kafka in (("tk", "tokyo"), ("ny", "newyork"), ("pa", "paris"))
        for number in (1, 2, 3)
    },
    "zones": {
        **{
            zone.upper(): {"kind": "one-hop", "nodes": [f"{zone}{number}" for number in (1, 2, 3)]}
            for zone in ("tk", "ny", "pa")
        },
        "WO": {"kind": "multi-hop", "links": [["tk1", "ny1"], ["ny1", "pa1"]]},
    },
}
ORIGIN = "ny1"
WAYS = (
    ("ny1", "ny2"),
    ("ny1", "ny3"),
    ("ny1", "tk1"),
    ("ny1", "pa1"),
    ("ny1", "tk1", "tk2"),
    ("ny1", "tk1", "tk3"),
    ("ny1", "pa1", "pa2"),
    ("ny1", "pa1", "pa3"),
)
HUNGRY = ("tk3", "pa3")
"""Nodes whose endpoints get all."""

FRAME = 100
A_SECOND = 1_000
"""Messages a second, by the times that records carry."""

TRACES = 10
SUBJECT = "flights/JFK/AA/LAX"


@dataclass(slots=True)
class Found:
    """What was measured."""

    messages: int
    wall_s: Sequence[float]
    cpu_s: Sequence[float]
    found: int


def goals(found: Found) -> Sequence[Goal]:
    """Return what is promised."""
    return [
        Goal("a message of the last million, s", 3, max(found.wall_s)),
        Goal("traces that are not whole", 0, TRACES - found.found),
    ]


def _fill(kafka: RealKafka, topology: Topology, count: int) -> None:
    """Write what nodes would have written of so many messages."""
    names, begin_ms = (
        TopicNames(topology.prefix),
        int(time.time() * 1000) - count // A_SECOND * 1000,
    )
    ingress = names.ingress(ORIGIN, MessageClass.GUARANTEED)
    ends = {node: names.endpoint(node, "all") for node in topology.nodes}
    outboxes = [names.outbox(*way[-2:], MessageClass.GUARANTEED) for way in WAYS]
    ledgers = {node: names.ledger(node) for node in topology.nodes}
    topics = [ingress, *ends.values(), *outboxes, *ledgers.values()]
    topics += map(names.progress, topology.nodes)
    kafka.admin().create([TopicSpec(name=name, partitions=1, settings={}) for name in topics])
    source = SourcePartition(kafka.admin().describe([ingress])[ingress].topic_id, 0)
    writer, payload = kafka.writer("bench"), b"x" * 100
    paths = dict.fromkeys((ORIGIN,), (ORIGIN,)) | {way[-1]: way for way in WAYS}
    came = {way[-1]: outbox for way, outbox in zip(WAYS, outboxes, strict=True)}
    prefixes = {
        node: delivery_prefix(MessageClass.GUARANTEED, path, source, 0)
        for node, path in paths.items()
    }
    subject = (SUBJECT_HEADER, SUBJECT.encode())
    for first in range(0, count, FRAME):
        offsets, last = range(first, first + FRAME), first + FRAME - 1
        at_ms = begin_ms + first * 1000 // A_SECOND
        origin = Origin(
            node=ORIGIN,
            source=source,
            generation=0,
            first=first,
            last=last,
            count=FRAME,
            subjects=[SUBJECT],
        )
        messages = [
            Message(
                offset=one, subject=SUBJECT, timestamp=at_ms, key=None, headers=[], payload=payload
            )
            for one in offsets
        ]
        value = encode_value(messages, origin)
        for _ in offsets:
            writer.produce(ingress, payload, None, 0, timestamp=at_ms, headers=[subject])
        for way, outbox in zip(WAYS, outboxes, strict=True):
            chain = Chain(source=source, previous=first - 1, first=first, last=last)
            hop = Hop(
                zone="Z",
                hops=1,
                join_hops=0,
                crossed_external=False,
                lane_epoch=1,
                path=way[:-1],
                chain=chain,
            )
            key = encode_header(FrameHeader(hop=hop, origin=origin))
            writer.produce(outbox, value, key, 0, timestamp=at_ms + 50)
        for node, topic in ends.items():
            taken = offsets if node in HUNGRY else offsets[::10]
            for header in delivery_headers(prefixes[node], taken):
                own = [subject, (MESH_HEADER, header)]
                writer.produce(topic, payload, None, 0, timestamp=at_ms, headers=own)
            read = (first, last + 1) if node == ORIGIN else (first // FRAME, first // FRAME + 1)
            account = Ledger(
                node=node,
                lane=0,
                lane_epoch=1,
                sources=[SourceRange(came.get(node, ingress), source.topic_id, 0, *read, FRAME)],
                delivered=[DeliveredCount("all", MessageClass.GUARANTEED, len(taken))],
            )
            writer.produce(ledgers[node], encode_ledger(account), None, 0, timestamp=at_ms + 90)
        if first % 100_000 == 0:
            say(f"{first:,} of {count:,} messages")
            writer.flush()
    writer.flush()
    writer.close()


def measure(count: int, directory: Path) -> Found:
    """Measure everything."""
    topology = topology_from_mapping(SPEC, name="traced")
    broker = EmbeddedKafka("here", directory / "kafka", find_kafka(progress=say))
    start_together([broker])
    running = KafkaClusters({"here": broker})
    options = {"bootstrap.servers": broker.bootstrap_servers}
    kafka = {name: RealKafka(name, options) for name in topology.kafka}
    found = Found(messages=count, wall_s=[], cpu_s=[], found=0)
    try:
        _fill(kafka["newyork"], topology, count)
        tracer, wall_s, cpu_s = Tracer(topology, kafka), [], []
        for number in range(TRACES):
            offset = number * (count - 1) // (TRACES - 1) // 10 * 10  # everybody wants it
            begun_s, used_s = time.monotonic(), time.process_time()
            one = tracer.trace(tracer.find(f"mesh.{ORIGIN}.in.g/0/{offset}"))
            wall_s.append(time.monotonic() - begun_s)
            cpu_s.append(time.process_time() - used_s)
            timed = [of for of in one.deliveries if of.committed_ms is not None]
            found.found += (len(one.frames), len(timed)) == (len(WAYS), len(topology.nodes))
        found.wall_s, found.cpu_s = wall_s, cpu_s
    finally:
        for client in kafka.values():
            client.close()
        running.stop()
    return found


def rows(found: Found) -> Sequence[str]:
    """Return the figures as lines for people."""
    return [
        f"{TRACES} traces among {found.messages:,} messages; each first time in its part of the topics",
        *(goal_line(goal.as_json()) for goal in goals(found)),
        "on the wall, s: " + ", ".join(f"{one:.2f}" for one in found.wall_s),
        "of the processor, s: " + ", ".join(f"{one:.2f}" for one in found.cpu_s),
    ]


def as_json(found: Found) -> dict[str, object]:
    """Return the figures and goals as plain values."""
    return {**asdict(found), "goals": [goal.as_json() for goal in goals(found)]}


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("trace", __doc__)
    parser.add_argument("--messages", type=at_least(1_000), default=1_000_000, help="in the topics")
    options = parser.parse_args(arguments)
    return carry_out(options, partial(measure, options.messages), rows, as_json, goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
