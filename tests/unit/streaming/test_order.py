"""Where messages of one source are: in one partition of an endpoint, in order. Spec: K3."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from streaming.audits.order import Order
from streaming.tables.digest import Digest
from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition

SOURCE = SourceKey("aa", 0)


@dataclass
class Endpoint:
    """What an endpoint gets, message by message."""

    order: Order = field(default_factory=Order)
    offset: int = 0

    def gets(
        self,
        partition: int,
        *path: str,
        message_class: str = "guaranteed",
        source: SourceKey = SOURCE,
    ) -> list[int]:
        """Return where messages of the same way were before, if they were elsewhere."""
        self.offset += 1
        row = DeliveryRow(
            place=TopicPartition("mesh.c.ep.s", partition),
            source=source,
            generation=0,
            path=path,
            block=0,
            digest=Digest(1),
            first=self.offset,
            last=self.offset,
            record_first=0,
            record_last=0,
            late=0,
            message_class=message_class,
        )
        assert not list(self.order.absorb([row]))
        return [before for _, before in self.order.astray([row])]


@pytest.mark.parametrize("message_class", ["guaranteed", "direct"])
def test_messages_of_one_source_stay_in_one_partition(message_class: str) -> None:
    """In two nobody who reads them knows their order; guaranteed ones used to be no finding."""
    endpoint = Endpoint()
    assert endpoint.gets(0, "a", "c", message_class=message_class) == []
    assert endpoint.gets(1, "a", "c", message_class=message_class) == [0]
    assert endpoint.gets(0, "a", "c", message_class=message_class) == []


def test_where_a_walk_has_moved_the_partition_may_be_another_one() -> None:
    """On its way is a node with fewer partitions, so all of K3 holds."""
    endpoint = Endpoint()
    assert endpoint.gets(3, "a", "b", "c") == []
    assert endpoint.gets(1, "a", "d", "c") == []
    assert endpoint.gets(3, "a", "b", "c") == []


def test_sources_that_strangers_invent_make_nothing_grow_and_hide_nothing(monkeypatch) -> None:
    """Whoever may write to an endpoint names sources as it likes; each was known for ever."""
    monkeypatch.setattr("streaming.audits.order.SOURCES_MAX", 5)
    endpoint = Endpoint()
    for number in range(20):
        endpoint.gets(0, "a", "c")
        endpoint.gets(0, "a", str(number), source=SourceKey(f"{number:032x}", 0))
    assert [len(known) for known in endpoint.order.reached.values()] == [5]
    assert [len(known) for known in endpoint.order.partitions.values()] == [5]
    assert endpoint.gets(1, "a", "c") == [0]
