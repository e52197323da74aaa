"""Eras that a lane keeps as one, against those by which each record was taken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.lineage import first_lineage
from mesh.lane.cuts import cut_lane, eras_of
from mesh.lane.link_ages import LinkAges
from mesh.lane.run import Run
from mesh.model.control import Lineage, LinkNumbers, Stage, change_version
from mesh.model.frames import Era
from mesh.model.interest_inputs import CHANGE
from tests.property.effort import examples
from tests.unit.lane.steps import INGRESS, NOW_MS, Alone, published

NODES = "abcd"
PAIRS = list(combinations(NODES, 2))
CHANGES = st.lists(
    st.tuples(st.sets(st.sampled_from(PAIRS)), st.integers(0, 2)), min_size=1, max_size=12
)
"""Links of each topology that follows, and how many records are taken by it."""


def barred(lineage: Lineage, era: Era, one: Alone) -> Sequence[tuple[str, ...]]:
    """Return over whose links each node hands nothing on that was taken in an era."""
    found = []
    for node in NODES:
        ages = LinkAges()
        ages.follow(lineage, one.lane.names, node)
        found.append(ages.barred((era,), lineage.domain))
    return found


@examples(200)
@given(CHANGES)
def test_no_link_tells_an_era_that_is_kept_from_the_one_that_was(
    changes: Sequence[tuple[set[tuple[str, str]], int]],
) -> None:
    """Neither by the topology in force nor by the one before or after. Spec: K10, K28."""
    follow(changes)


def follow(changes: Sequence[tuple[set[tuple[str, str]], int]]) -> None:
    """Have a lane follow changes, and look at each stage by which eras it would read again."""
    one = Alone()
    lineage = first_lineage(one.lane.topology)
    taken: list[int] = []
    one.learner.lineage, links = lineage, {}
    for number, (pairs, records) in enumerate(changes, 1):
        before, links = (
            lineage,
            {pair: links.get(pair, LinkNumbers(*pair, number, number - 1)) for pair in pairs},
        )
        lineage = Lineage(lineage.domain, tuple(sorted(links.values())))
        for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
            if stage is Stage.SWITCH:
                one.learner.topology_number, one.learner.lineage = number, lineage
            cut_lane(one.lane, {CHANGE: change_version(number, stage)}, {}, NOW_MS)
            run = Run(
                one.lane, one.lane.open(NOW_MS), one.lane.sources.get(INGRESS) or one.read(INGRESS)
            )
            for offset, was in enumerate(taken):
                [kept] = eras_of(run, offset)
                for known in (before, lineage)[stage is Stage.RUN :]:
                    assert barred(known, kept, one) == barred(known, Era(lineage.domain, was), one)
        for _ in range(records):
            one.step(INGRESS, published(len(taken)))
            taken.append(number)
        one.commit()
    assert len(one.lane.progress.eras.get(INGRESS, ())) <= len(PAIRS) + 3
