"""From which position of a source on what is wanted holds, and a topology. Spec: K10, K16, K25."""

from __future__ import annotations

from mesh.lane.cuts import cut_lane, eras_of, retell_cuts
from mesh.lane.following import RETELL_MS
from mesh.lane.run import Run
from mesh.model.control import Lineage, LinkNumbers, Stage, change_version
from mesh.model.facts import ErasBegun, InForce, InterestInForce
from mesh.model.frames import Era
from mesh.model.interest_inputs import CHANGE
from mesh.wire.state import encode_fact
from tests.unit.lane.steps import (
    FROM_A,
    INGRESS,
    INGRESS_DIRECT,
    NOW_MS,
    TO_C,
    Alone,
    frame,
    published,
)

IN_FORCE = {"a Z own": (2, 9)}
CUTS = {"uuid-a": 3, "uuid-b": 5}


def told(one: Alone) -> set[tuple[str, int, str, int]]:
    """Return (topic, position, node, offset of its clients) of the cuts to be told."""
    cuts = one.lane.open(NOW_MS).cuts
    return {(cut.topic, cut.position, cut.uuid, cut.clients_offset) for cut in cuts}


def test_who_publishes_here_owes_to_all_and_who_reads_an_outbox_to_its_own_clients() -> None:
    """What is direct is owed to nobody."""
    one = Alone()
    one.step(INGRESS, published(0), published(1))
    one.step(FROM_A, frame(0, -1, 4, 4))
    one.read(INGRESS_DIRECT)
    cut_lane(one.lane, IN_FORCE, CUTS, NOW_MS)
    assert told(one) == {
        (INGRESS.topic, 2, "uuid-a", 3),
        (INGRESS.topic, 2, "uuid-b", 5),
        (FROM_A.topic, 1, "uuid-b", 5),
    }
    assert one.lane.open(NOW_MS).is_awaited


def test_what_is_read_after_a_cut_is_routed_by_what_holds_then() -> None:
    """Subjects that are known are looked up anew."""
    one = Alone()
    one.step(INGRESS, published(0))
    router = one.learner.router
    before = len(one.rows(TO_C))
    for filter_ in list(router.table.entries):
        for member, _ in router.table.entries[filter_]:
            router.table.put(filter_, member, None)
    router.forget()
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    one.step(INGRESS, published(1))
    assert len(one.rows(TO_C)) == before


def test_a_successor_tells_what_its_former_owner_routed_by_until_it_knows_that_itself() -> None:
    """It stays promised, and nothing is read before. Spec: K16."""
    former = InterestInForce(-1, [InForce("c Z own", 4, 8)])
    one = Alone().recovered(former)
    one.lane.following.awaited = one.lane.progress.in_force
    assert one.lane.following.is_learning
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    assert one.lane.progress.in_force == {"a Z own": (2, 9), "c Z own": (4, 8)}
    cut_lane(one.lane, {"c Z own": (4, 9)}, {}, NOW_MS)
    assert one.lane.progress.in_force == {"c Z own": (4, 9)}


def test_an_era_begins_where_the_topology_changed_and_nowhere_else() -> None:
    """What was taken before is stamped by what held then, whenever it is read again."""
    one = Alone()
    one.step(INGRESS, published(0))
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    one.step(INGRESS, published(1))
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    one.step(INGRESS, published(2))
    one.learner.topology_number = 4
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    [begun] = one.facts_of(ErasBegun)
    assert [(each.first, each.era.number) for each in begun.eras] == [(1, 0), (3, 4)]
    run = Run(one.lane, one.lane.open(NOW_MS), one.lane.sources[INGRESS])
    assert [era.number for era in eras_of(run, 2)] == [0]
    assert [era.number for era in eras_of(run, 3)] == [4]


def test_what_came_with_an_era_of_this_domain_keeps_it() -> None:
    """A node of another domain adds its own."""
    one = Alone()
    source = one.read(FROM_A)
    run = Run(one.lane, one.lane.open(NOW_MS), source)
    here = Era(one.learner.lineage.domain, 3)
    elsewhere = Era(b"another domain..", 8)
    assert eras_of(run, 0, (here,)) == (here,)
    assert eras_of(run, 0, (elsewhere,)) == (elsewhere, one.learner.era)


def test_all_cuts_are_told_again_before_a_ledger_that_is_read_late_has_lost_them() -> None:
    one = Alone()
    one.lane.following.told_cuts(NOW_MS)
    one.read(INGRESS)
    cut_lane(one.lane, IN_FORCE, {}, NOW_MS)
    one.commit()
    retell_cuts(one.lane, NOW_MS + RETELL_MS - 1)
    assert one.lane.batch is None
    retell_cuts(one.lane, NOW_MS + RETELL_MS)
    assert one.lane.batch is not None


def test_a_record_of_eras_grows_with_the_links_that_changes_made_and_not_with_the_changes() -> None:
    """A link comes and goes 500 times while nothing is deleted; another one stays. Spec: K12."""
    one = Alone()
    domain = one.learner.lineage.domain
    stays = LinkNumbers("a", "c", 3, 2)
    for number in range(1, 1_001):
        one.step(INGRESS, published(number))
        guest = [LinkNumbers("a", "b", number, number - 1)] if number % 2 else []
        one.learner.topology_number = number
        one.learner.lineage = Lineage(domain, (*guest, *([stays] if number > 2 else [])))
        for stage in (Stage.SWITCH, Stage.RUN):
            cut_lane(one.lane, {CHANGE: change_version(number, stage)}, {}, NOW_MS)
        facts = one.commit()
    [begun] = [fact for fact in facts.values() if isinstance(fact, ErasBegun)]
    assert [each.era.number for each in begun.eras] == [1, 2, 1_000]
    assert len(encode_fact(begun, 0)) < 200
    run = Run(one.lane, one.lane.open(NOW_MS), one.lane.sources[INGRESS])
    assert [eras_of(run, offset)[0].number for offset in (2, 3, 499, 1_000)] == [1, 2, 2, 2]
