"""Frames say by which topology their messages were taken, also when they are made a second time."""

from __future__ import annotations

from dataclasses import replace

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.core.lineage import first_lineage, lineage_after
from mesh.lane.cuts import eras_of
from mesh.lane.run import Run
from mesh.model.control import Change, Lineage, Stage
from mesh.model.facts import EraBegan
from mesh.model.frames import Era
from mesh.model.reasons import Reason
from mesh.model.topology import Topology
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_change, encode_config
from mesh.wire.frames import decode_header
from mesh.wire.keys import change_key, config_key
from mesh.wire.state import decode_ledger
from tests.component.worker.conftest import CHAIN, SmallMesh, subject

FIRST, SECOND = "mesh.a.to.b.g", "mesh.b.to.c.g"


def eras(mesh: SmallMesh, topic: str) -> list[tuple[Era, ...]]:
    return [decode_header(record.key() or b"").origin.eras for record in mesh.read(topic)]


def change(mesh: SmallMesh, number: int) -> None:
    """Put the same links in force under another number, past the stage in which nodes hold."""
    before = mesh.world.topology
    after = replace(before, keep_s=before.keep_s + number)
    lineage = lineage_after(first_lineage(before), before, 0, after, number)
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        word = Change(number, stage, published_text(after), (), lineage)
        mesh.write(mesh.names.config(), encode_change(word), key=change_key())
        mesh.run(2_000)


def test_every_hop_says_by_which_topology_the_origin_worked(mesh: SmallMesh) -> None:
    """Spec: K10."""
    domain = first_lineage(mesh.world.topology).domain
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    change(mesh, 3)
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    expected = [(Era(domain, 0),), (Era(domain, 3),)]
    assert eras(mesh, FIRST) == eras(mesh, SECOND) == expected


def test_a_repair_stamps_what_was_stamped_before(mesh: SmallMesh) -> None:
    """Read again after a change, by another owner of the lane, a record keeps its era. K10, K20."""
    domain = first_lineage(mesh.world.topology).domain
    mesh.world.workers["b"].isolate(["a"])
    mesh.run(300)
    for value in (b"0", b"1"):
        mesh.publish(value, [subject("x")])
        mesh.run(1_500)
    mesh.kafka.truncate(TopicPartition(FIRST, 0), 1)
    change(mesh, 3)
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run(3_000)
    mesh.world.workers["b"].isolate([])
    mesh.run(2_000)
    mesh.publish(b"2", [subject("x")])
    mesh.run(20_000)
    assert [record.value() for record in mesh.delivered()] == [b"0", b"1", b"2"]
    [first, *_] = [
        header.origin
        for record in mesh.read(FIRST)
        if (header := decode_header(record.key() or b"")).flags and header.origin.count
    ]
    assert (first.first, first.eras) == (1, (Era(domain, 0),))


class ChangingMesh(SmallMesh):
    """The chain, whose links are exchanged by hand, whatever waits on those of before."""

    def __init__(self, links: str) -> None:
        self.topology = self._of(links)
        super().__init__({**CHAIN, "zones": self._zones(links)})
        self.number, self.lineage = 0, first_lineage(self.topology)

    def change_to(self, links: str) -> None:
        self.say(links, Stage.HOLD)
        self.end_change(links)

    def end_change(self, links: str) -> None:
        self.lineage = self.say(links, Stage.SWITCH, Stage.RUN)
        self.topology, self.number = self._of(links), self.number + 1

    def say(self, links: str, *stages: Stage) -> Lineage:
        after, number = self._of(links), self.number + 1
        lineage = lineage_after(self.lineage, self.topology, self.number, after, number)
        for stage in stages:
            word = Change(number, stage, published_text(after), (), lineage)
            self.write(self.names.config(), encode_change(word), key=change_key())
            self.run(2_000)
        return lineage

    def found(self, number: int) -> None:
        """Write what the nodes' files say as what is in force."""
        config = encode_config(number, published_text(self.topology), self.lineage)
        self.write(self.names.config(), config, key=config_key())
        self.run(2_000)
        self.number = number

    def values(self) -> list[bytes | None]:
        return [record.value() for record in self.delivered()]

    def told(self) -> tuple[set[tuple[str, int]], set[tuple[str, str, int]]]:
        """What b says that it dropped, and that did not leave on links for being too old."""
        ledgers = [decode_ledger(one.value() or b"") for one in self.read(self.names.ledger("b"))]
        old = Reason.EARLIER_TOPOLOGY.value
        return (
            {(d.topic, d.messages) for one in ledgers for d in one.dropped if d.reason == old},
            {
                (r.neighbour, r.reason, r.messages)
                for one in ledgers
                for r in one.not_forwarded
                if r.reason == old
            },
        )

    @staticmethod
    def _zones(links: str) -> dict[str, object]:
        return {"Z": {"kind": "multi-hop", "links": [list(one) for one in links.split()]}}

    def _of(self, links: str) -> Topology:
        return topology_from_mapping({**CHAIN, "zones": self._zones(links)})


def over_changes(mesh: ChangingMesh, *changes: str) -> None:
    """Have a message wait for b while links change."""
    mesh.world.cut("b", ["a"])
    mesh.publish(b"0", [subject("x")])
    mesh.run(2_000)
    for links in changes:
        mesh.change_to(links)
    mesh.world.cut("b", [])
    mesh.run(3_000)


def test_eras_end_with_what_was_taken_in_them() -> None:
    """Of what is there still each record keeps its own, whoever takes the lane. Spec: K10, K12."""
    mesh, at = ChangingMesh("ab bc"), TopicPartition("mesh.a.in.g", 0)
    for links in ("ab", "ab bc", "ab bc", ""):
        mesh.publish(b"0", [subject("x")])
        mesh.run()
        if links:
            mesh.change_to(links)

    def known() -> list[tuple[int, int]]:
        lanes = mesh.world.workers["a"].lanes
        assert lanes is not None
        return [(one.first, one.era.number) for one in lanes.owned[0].progress.eras[at]]

    assert known() == [(0, 0), (1, 1), (3, 3)]
    mesh.kafka.admin().delete_before({at: 2})
    for _ in range(2):  # who takes the lane next finds what the one before has kept
        mesh.world.kill("a")
        mesh.world.start("a")
        mesh.run()
        assert known() == [(1, 1), (3, 3)]
    mesh.kafka.admin().delete_before({at: 4})
    mesh.world.kill("a")
    mesh.world.start("a")
    mesh.run()
    assert known() == [(3, 3)]


def test_what_is_older_than_the_topology_before_a_link_does_not_cross_it() -> None:
    """It came by ways that no topology with that link had. Spec: K10, K28."""
    mesh = ChangingMesh("ab bc")
    over_changes(mesh, "ab", "ab bc")
    mesh.publish(b"1", [subject("x")])
    mesh.run(3_000)
    assert mesh.values() == [b"1"]
    assert mesh.told() == (set(), {("c", "earlier_topology", 1)})


def test_what_the_topology_before_a_link_took_crosses_it() -> None:
    """Who published it may know already what is wanted behind the link. Spec: K25, K28."""
    mesh = ChangingMesh("ab")
    mesh.subscribe("b", "s", ">")
    mesh.run()
    over_changes(mesh, "ab bc")
    assert mesh.values() == [b"0"]
    assert mesh.told() == (set(), set())


def test_what_is_taken_while_a_change_holds_crosses_its_links_where_a_mesh_was_founded_late() -> (
    None
):
    """Its nodes go by their files, and by what was written since before they hold. Spec: K28."""
    mesh = ChangingMesh("ab")
    mesh.subscribe("b", "s", ">")
    mesh.run()
    mesh.say("ab bc", Stage.HOLD, Stage.ABORT)
    mesh.found(2)
    mesh.say("ab bc", Stage.HOLD)
    mesh.world.cut("b", ["a"])
    mesh.publish(b"0", [subject("x")])
    mesh.run(2_000)
    mesh.end_change("ab bc")
    mesh.world.cut("b", [])
    mesh.run(3_000)
    assert mesh.values() == [b"0"]
    assert mesh.told() == (set(), set())


def test_what_waited_on_a_link_that_went_and_came_back_is_counted_and_goes_nowhere() -> None:
    """Its chain goes on: nobody asks for it again. Spec: K11, K28."""
    mesh = ChangingMesh("ab bc")
    over_changes(mesh, "bc", "ab bc")
    mesh.publish(b"1", [subject("x")])
    mesh.run(3_000)
    assert mesh.values() == [b"1"]
    assert mesh.told() == ({("mesh.a.to.b.g", 1)}, set())


def test_eras_that_a_link_tells_apart_are_kept_and_others_become_one() -> None:
    """What is sent again after more changes crosses the links that it crossed before. K10, K28."""
    mesh, at = ChangingMesh("ab bc"), TopicPartition("mesh.a.in.g", 0)
    mesh.world.workers["b"].isolate(["a"])
    mesh.run(300)
    for links in ("ab", "ab bc", "ab bc", "ab bc"):
        mesh.publish(b"%d" % mesh.number, [subject("x")])
        mesh.run(1_500)
        mesh.change_to(links)
    mesh.kafka.truncate(TopicPartition(FIRST, 0), 3)
    known = mesh.world.workers["a"].lanes.owned[0].progress.eras[at]
    assert [(one.first, one.era.number) for one in known] == [(0, 0), (1, 1), (4, 4)]
    mesh.world.workers["b"].isolate([])
    mesh.run(2_000)
    mesh.publish(b"4", [subject("x")])
    mesh.run(20_000)
    assert mesh.values() == [b"1", b"2", b"3", b"4"]
    assert mesh.told() == (set(), {("c", "earlier_topology", 1)})


def test_what_was_taken_in_a_former_series_of_topologies_is_older_than_all_of_this_one() -> None:
    """A node was started with another file: what it reads again is not of its domain. Spec: K10."""
    mesh = ChangingMesh("ab bc")
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    for links in ("ab", "ab bc"):
        mesh.change_to(links)
    lane = mesh.world.workers["b"].lanes.owned[0]
    [source] = [one for one in lane.sources.values() if one.at == TopicPartition(FIRST, 0)]
    former = Era(b"formerly", 5)
    lane.progress.eras[source.at] = (EraBegan(0, former),)
    run = Run(lane, lane.open(mesh.world.clock.ms), source)
    assert eras_of(run, 0, (former,)) == (former,)
    assert eras_of(run, 0) == (former,)
    assert lane.ages.barred((former,), lane.learner.lineage.domain) == ("c",)
