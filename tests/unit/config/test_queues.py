"""`spec.queues`: what a file may say of queues, and that it survives being written."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.config.topology_writer import topology_document, write_topology
from mesh.core.differences import Action, Described, ItemKind, differences_between
from mesh.errors import ConfigError
from mesh.model.queues import Queue, QueuePolicy


def spec(**queues: object) -> dict[str, object]:
    return {"kafka": {"k": {}}, "nodes": {"ny1": {}, "tk1": {}}, "queues": queues}


def faults(**queues: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping(spec(**queues))
    return [problem.line() for problem in caught.value.problems]


WHOLE = {"policy": "home", "home": "ny1", "maxDeliveries": 5, "maxAge": "2h"}


def test_a_queue_with_every_key_survives_being_written(tmp_path: Path) -> None:
    """Spec: DESIGN 6."""
    topology = topology_from_mapping(spec(orders=WHOLE, jobs={"policy": "any"}, all={}), name="m")
    assert topology.queues["orders"] == Queue(
        name="orders",
        policy=QueuePolicy.HOME,
        home="ny1",
        max_deliveries=5,
        max_age_s=7200.0,
    )
    assert topology.queues["all"].policy is QueuePolicy.EVERY
    write_topology(topology, tmp_path / "mesh.yaml")
    assert load_topology(tmp_path / "mesh.yaml") == topology


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ({"policy": "home", "home": "ny2"}, "queues.q.home: no node is called 'ny2'; did you mean"),
        ({"policy": "any", "home": "ny1"}, "queues.q.home: only a queue with policy home has one"),
        ({"home": "ny1"}, "queues.q.home: only a queue with policy home has one"),
        ({"policy": "home", "home": ["ny1", "tk1"]}, "queues.q.home: must be text"),
        ({"maxDeliveries": 0}, "queues.q.maxDeliveries: must be at least 1"),
        ({"maxAge": "soon"}, "queues.q.maxAge: 'soon' is not a duration above 0"),
        ({"maxAge": "0s"}, "queues.q.maxAge: '0s' is not a duration above 0"),
        ({"policy": "most"}, "queues.q.policy: must be"),
        ({"retries": 1}, "queues.q.retries:"),
    ],
)
def test_a_bad_queue_is_one_located_line(queue: dict[str, object], words: str) -> None:
    (line,) = faults(q=queue)
    assert line.startswith(words)


def test_a_name_counts_once_whatever_its_case() -> None:
    (line,) = faults(orders={}, Orders={"policy": "any"})
    assert line.startswith("queues.Orders: 'Orders' and 'orders' are one queue")
    (line,) = faults(**{"or.ders": {}})
    assert "'or.ders' is not a name" in line


def test_a_plan_tells_what_becomes_of_a_queue() -> None:
    before, after = (
        topology_from_mapping(spec(**queues))
        for queues in ({"orders": {"policy": "any"}, "old": {}}, {"orders": WHOLE, "new": {}})
    )
    described = [
        Described(topology=one, document=topology_document(one)) for one in (before, after)
    ]
    found = differences_between(*described)
    assert [(one.what, one.name, one.action) for one in found] == [
        (ItemKind.QUEUE, "orders", Action.CHANGE),
        (ItemKind.QUEUE, "old", Action.DELETE),
        (ItemKind.QUEUE, "new", Action.CREATE),
    ]
