"""A repair excuses the frames that it sends again, and no second copy of what they bring."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.wire.keys import repair_key
from streaming.tables.rows import TopicPartition
from tests.streaming.conftest import Bench
from tests.streaming.planted import Plant, topic_id

pytestmark = pytest.mark.spark

ABC = ["a", "b", "c"]
COUNT, LOST, REPAIRED = 9, range(3, 6), range(3, 9)
"""Messages; those of a frame that was cut out of the log of a->b; and what is sent again."""


class Mended:
    """A mesh in which b asked a for what it lacked, got it, and took it to c and to two endpoints."""

    def __init__(self, bench: Bench, plant: Plant) -> None:
        self.bench, self.plant = bench, plant
        for node in ("b", "c"):
            plant.cuts_everywhere(node, plant.subscribe(node, "s1", "acme/>"))
        offsets = plant.publish("a", "acme/x", COUNT)
        told = {"path": ["a"], "source": "a.in.g"}
        before = plant.frame("a->b", offsets[:3], **told)
        plant.frame("a->b", offsets[6:], **told, previous=5)
        self._pass_on(offsets[:3], before)
        asked = repair_key(topic_id("mesh.a.in.g"), 0, 0, MessageClass.GUARANTEED)
        plant.put("b.to.a.c", 0, asked, b"")
        again = plant.frame("a->b", [*REPAIRED], **told, flags=1, previous=2)
        self._pass_on([*REPAIRED], again)
        plant.send("a", "a.to.b.g", 0, "a.in.g", COUNT - 1)
        plant.progress("a", "a.in.g", 0, COUNT)
        plant.accept("b", "a.to.b.g", 0, "a.in.g", COUNT - 1)
        plant.progress("b", "a.to.b.g", 0, again + 1)
        assert self.found() == []
        assert sorted(one.equal for one in bench.certificates.values()) == [True, True]

    def _pass_on(self, offsets: Sequence[int], at: int) -> None:
        plant = self.plant
        sent = plant.frame("b->c", offsets, path=["a", "b"], source="a.to.b.g", span=(at, at))
        plant.send("b", "b.to.c.g", 0, "a.to.b.g", at)
        plant.accept("c", "b.to.c.g", 0, "a.to.b.g", at)
        plant.progress("c", "b.to.c.g", 0, sent + 1)
        plant.deliver("b/s1", offsets, ABC[:2])
        plant.deliver("c/s1", offsets, ABC)

    def found(self) -> list[tuple]:
        """Return all findings; the gap was one, and stays one."""
        self.bench.settle()
        return sorted(
            (one.kind.value, one.link or one.endpoint, one.first, one.last)
            for one in self.bench.auditor.state.register.findings.values()
            if one.kind is not FindingKind.GAP
        )


@pytest.fixture
def mended(bench: Bench, plant: Plant) -> Mended:
    return Mended(bench, plant)


@pytest.mark.parametrize("endpoint", ["b/s1", "c/s1"])
def test_a_repaired_message_twice_at_an_endpoint_is_a_duplicate(
    mended: Mended, endpoint: str
) -> None:
    mended.plant.deliver(endpoint, [4], ABC[: ABC.index(endpoint[0]) + 1])
    assert mended.found() == [("duplicate", endpoint, 4, 4)]
    equal = {one.endpoint: one.equal for one in mended.bench.certificates.values()}
    assert equal == {"b/s1": endpoint != "b/s1", "c/s1": endpoint != "c/s1"}


def test_one_in_another_partition_is_a_duplicate(mended: Mended) -> None:
    mended.plant.deliver("c/s1", [4], ABC, at=1)
    assert ("duplicate", "c/s1", 4, 4) in mended.found()


def test_one_after_its_block_was_certified_for_good_is_a_duplicate(mended: Mended) -> None:
    blocks, place = mended.bench.auditor.state.certifier.blocks, TopicPartition("mesh.a.in.g", 0)
    del blocks.open[place][0]
    blocks.dropped[place] = 0
    mended.plant.deliver("c/s1", [4], ABC)
    assert mended.found() == [("duplicate", "c/s1", 4, 4)]


def test_a_repair_that_is_sent_twice_and_delivered_twice_is_a_duplicate(mended: Mended) -> None:
    """The link may carry it again; who takes it twice is told at each endpoint and link behind."""
    plant = mended.plant
    told = {"path": ["a"], "source": "a.in.g", "flags": 1, "previous": 2}
    again = plant.frame("a->b", [*REPAIRED], **told)
    assert mended.found() == []
    plant.frame("b->c", [*REPAIRED], path=["a", "b"], source="a.to.b.g", span=(again, again))
    plant.deliver("c/s1", REPAIRED, ABC)
    assert mended.found() == [("duplicate", "b->c", 3, 8), ("duplicate", "c/s1", 3, 8)]


def test_a_repair_on_a_chain_of_which_none_was_asked_for_is_a_duplicate(mended: Mended) -> None:
    told = {"path": ["a", "b"], "source": "a.to.b.g", "span": (2, 2), "flags": 1, "previous": 0}
    mended.plant.frame("b->c", [*REPAIRED], **told)
    assert mended.found() == [("duplicate", "b->c", 3, 8)]
