"""What nodes refused, or quarantined for one target. Spec: R12."""

from __future__ import annotations

from collections import Counter

from mesh.operate.doctor.checks import Category, Check, Result, judged
from mesh.operate.doctor.examination import Examination
from mesh.operate.messages.dead_letters import header_of
from mesh.transport.reading import read_logs

LETTERS_MAX = 1_000
"""Newest dead letters of each partition that are counted."""

UNREADABLE = "UNREADABLE"
"""Stands in for the reason of a dead letter without one."""


def count_letters(at: Examination, kafka: str) -> dict[str, Counter[str]]:
    """Return the dead letters of every node on a Kafka cluster, by reason."""
    nodes = {at.topology.names.dead_letters(node): node for node in at.nodes_on(kafka)}
    places = at.lane_places(nodes)
    found: dict[str, Counter[str]] = {node: Counter() for node in nodes.values()}
    for record in read_logs(at.answering(kafka), places, most=LETTERS_MAX, name="letters"):
        letter = header_of(record)
        found[nodes[record.topic()]][UNREADABLE if letter is None else letter.reason] += 1
    return found


def check_letters(at: Examination, node: str, letters: Counter[str]) -> Check:
    """Return whether a node has dead letters: what it refused, or quarantined."""
    topic = at.topology.names.dead_letters(node)
    reasons = ", ".join(f"{count} {reason}" for reason, count in letters.most_common())
    return judged(
        Category.DELIVERY,
        f"{node} has refused nothing and put nothing aside",
        f"{letters.total()} dead letters in {topic}: {reasons}" if letters else "",
        f"`mesh dlq {node}` lists them with their reasons: correct the publisher, or what the "
        "target allows",
        result=Result.WARNING,
        figures=dict(letters),
    )
