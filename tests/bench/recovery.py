"""How long a node is away when its worker is killed under load and started again at once.

From `kill -9` to the first delivery of something published after it. The lane of the node is free
only when Kafka has noticed that the member is gone.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer

from mesh.errors import StartError
from mesh.local.jars import find_kafka
from mesh.model.record_headers import SUBJECT_HEADER
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.quiet import reader_of
from tests.bench.stage import NODES, PARTITIONS, Stage, last_words, refuse_fallen

RATE = 500
DEADLINE_S = 60.0
SUBJECT = "near/site/line"
GOAL_S = 3.0
_STAMP = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from each kill to the first delivery of something published after it."""

    seconds: Sequence[float]

    def goals(self) -> Sequence[Goal]:
        """Return what is promised, judged by the worst."""
        return [Goal("kill -9 to serving again, s, worst", GOAL_S, max(self.seconds))]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {"seconds": self.seconds, "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        told = ", ".join(f"{one:.1f}" for one in self.seconds)
        return [f"away after kill -9, s: {told}", *(goal_line(g.as_json()) for g in self.goals())]


def takeovers(stage: Stage, node: str, source: str, target: str, *, kills: int) -> list[float]:
    """Return, per `kill -9`, the seconds until something published after it was delivered.

    The node's lane is free only when Kafka has noticed that the member is gone.

    Args:
        stage: The broker and the nodes.
        node: Who is killed.
        source: Topic to publish to, guaranteed, at another node.
        target: Topic of an endpoint of the killed node.
        kills: How often.
    """
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 0})
    consumer = reader_of(stage, target)
    try:
        found: list[float] = []
        for number in range(1, kills + 1):
            delivered = partial(_until_delivered, stage, producer, consumer, source)
            delivered(time.monotonic(), f"before kill {number} of {node}")
            killed_s = time.monotonic()
            stage.fleet.kill_node(node)
            stage.fleet.start_node(node)
            found.append(delivered(killed_s, f"after kill {number} of {node}") - killed_s)
            say(f"kill {number}: {found[-1]:.1f} s")
    finally:
        producer.flush(5)
        consumer.close()
    return found


def _until_delivered(
    stage: Stage, producer: Producer, consumer: Consumer, source: str, after_s: float, when: str
) -> float:
    """Publish evenly until something published after a moment arrives; return when it did.

    However fast what has piled up arrives: who publishes one for each that arrives keeps all of it
    in the mesh, and adds to it with each kill, until the newest is a minute behind.
    """
    headers: list[tuple[str, str | bytes | None]] = [(SUBJECT_HEADER, SUBJECT.encode())]
    due_s = time.monotonic()
    deadline_s = due_s + DEADLINE_S
    number = 0
    while (now_s := time.monotonic()) < deadline_s:
        if now_s >= due_s:
            refuse_fallen(stage.fleet)
            number += 1
            producer.produce(source, _STAMP.pack(now_s), b"k", number % PARTITIONS, headers=headers)
            producer.poll(0)
            due_s = max(due_s, now_s) + 1 / RATE
        message = consumer.poll(max(0.0, due_s - time.monotonic()))
        if message is None or message.error() is not None:
            continue
        (sent_s,) = _STAMP.unpack(message.value() or b"")
        if sent_s > after_s:
            return time.monotonic()
    logs = "\n".join(f"{node}:\n{last_words(stage.fleet, node)}" for node in NODES)
    raise StartError(f"nothing arrived within {DEADLINE_S:.0f} s {when}; last words\n{logs}")


def measure(directory: Path, *, kills: int) -> Found:
    """Kill b again and again."""
    with Stage(directory, find_kafka(progress=say), say) as stage:
        stage.start_nodes()
        source, target = f"{stage.names.prefix}a.in.g", stage.names.endpoint("b", "near-g")
        return Found(takeovers(stage, "b", source, target, kills=kills))


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("recovery", __doc__)
    parser.add_argument("--kills", type=at_least(1), default=10)
    options = parser.parse_args(arguments)
    run = partial(measure, kills=options.kills)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
