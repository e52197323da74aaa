"""Sources that stand still while links come: what came before goes over them in no repair."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.core.lineage import lineage_after
from mesh.errors import TransportUnavailableError
from mesh.model.control import Change, Stage, Stop
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from mesh.worker.lanes import sources
from tests.component.worker.conftest import CHAIN, SmallMesh
from tests.component.worker.stops import INGRESS, accept, payloads, publish, stops

LINK = TopicPartition("mesh.a.to.c.g", 0)


def link_directly(mesh: SmallMesh) -> None:
    """Have c hear a over a link of their own, no longer by way of b."""
    change_to(mesh, {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}})


def change_to(
    mesh: SmallMesh, zones: Mapping[str, object], ms: int = 4_000, number: int = 3
) -> None:
    after = topology_from_mapping({**CHAIN, "zones": zones})
    machine = next(iter(mesh.world.workers.values())).machine
    learner, before = machine.learner, machine.topology
    lineage = lineage_after(learner.lineage, before, learner.topology_number, after, number)
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        word = Change(number, stage, published_text(after), (), lineage)
        mesh.write(mesh.names.config(), encode_change(word), key=change_key())
        mesh.run(ms)


def begin_again(mesh: SmallMesh, node: str) -> None:
    mesh.world.kill(node)
    mesh.world.start(node)
    mesh.run()


def cut_off(mesh: SmallMesh, records: int) -> None:
    mesh.kafka.truncate(TopicPartition(INGRESS, 0), records)
    mesh.run()


def lose_what_came(mesh: SmallMesh, stop: Stop | None = None) -> None:
    """Lose what the new link has carried, perhaps behind a loss accepted, and send it again."""
    mesh.world.workers["c"].isolate(["a"])
    mesh.run(500)
    if stop is not None:
        accept(mesh, "a", stop)
    publish(mesh, b"4")
    mesh.run()
    mesh.kafka.truncate(LINK, mesh.kafka.topics[LINK.topic].logs[0].end)
    mesh.world.workers["c"].isolate([])
    mesh.run()
    publish(mesh, b"5")
    mesh.run(30_000)


@pytest.mark.parametrize("moment", ["while it stands still", "before", "unseen"])
def test_a_link_carries_a_stopped_source_from_where_it_stopped(
    mesh: SmallMesh, moment: str
) -> None:
    """Whoever takes the lane then, or took it before it could follow. Spec: K20, K28, R6."""
    for value in (b"1", b"2", b"3"):
        publish(mesh, value)
        mesh.run(1_500)
    if moment != "before":
        cut_off(mesh, 2)
    if moment == "unseen":
        mesh.world.kill("a")
    link_directly(mesh)
    if moment == "before":
        cut_off(mesh, 2)
    if moment == "unseen":
        mesh.world.start("a")
        mesh.run()
    begin_again(mesh, "a")
    [stop] = stops(mesh, "a").values()
    lose_what_came(mesh, stop)
    assert stops(mesh, "a") == {}
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_link_carries_what_was_not_read_yet_when_it_came_from_where_it_is_read_on(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who followed the change died before it knew where its sources begin. Spec: K16, K28."""

    def none(*_: object) -> None:
        raise TransportUnavailableError("no broker answers")

    publish(mesh, b"1", b"2", b"3")
    mesh.run()
    mesh.world.kill("a")
    link_directly(mesh)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_bounds", none)
        mesh.world.start("a")
        mesh.run()
    begin_again(mesh, "a")
    lose_what_came(mesh)
    assert payloads(mesh) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_link_that_stayed_carries_all_of_a_source_that_is_found_again(mesh: SmallMesh) -> None:
    """For a lane that lived through a change as for one that was taken since. Spec: K20, K28."""
    mesh.subscribe("b", "s", ">")
    mesh.run()
    publish(mesh, b"1")
    mesh.run()
    link_directly(mesh)
    mesh.world.workers["b"].isolate(["a"])
    mesh.run(300)
    publish(mesh, b"2")
    mesh.run(1_500)
    lanes = mesh.world.workers["a"].lanes
    lanes.sources.lost(lanes.owned, [TopicPartition(INGRESS, 0)])
    mesh.run(1_500)
    mesh.kafka.truncate(TopicPartition("mesh.a.to.b.g", 0), 1)
    mesh.world.workers["b"].isolate([])
    mesh.run(1_500)
    publish(mesh, b"3")
    mesh.run(20_000)
    assert [record.value() for record in mesh.read("mesh.b.ep.s")] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_link_in_the_place_of_another_carries_what_comes_from_then_on(
    mesh: SmallMesh, is_taken: bool
) -> None:
    """What came before may have gone other ways: no repair sends it there. Spec: K20, K28."""
    publish(mesh, b"1")
    mesh.run()
    if is_taken:
        begin_again(mesh, "a")
    change_to(mesh, {"Y": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}})
    since = mesh.world.workers["a"].lanes.owned[0].progress.since
    outbox = TopicPartition("mesh.a.to.b.g", 0)
    assert max(first for (at, _), first in since.items() if at == outbox) == 1
