"""What a node writes of itself fits into records, however much it is. Spec: K6."""

from __future__ import annotations

import pytest

from mesh.lane import batch
from mesh.lane.batch import in_records
from mesh.model.frames import MessageClass
from mesh.model.state import Cut, DeliveredCount, Ledger, SourceRange
from mesh.wire.control import encode_learned
from mesh.wire.state import decode_ledger, encode_ledger
from mesh.worker.control import control_writer
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.stops import payloads, publish

ROOM = 100_000
"""Bytes that a record of any mesh may have, whatever it allows its messages."""

LONG = 64 * "x"
TOPIC = f"{LONG}.{LONG}.in.g"


def test_the_account_of_a_batch_is_told_in_as_many_records_as_it_takes() -> None:
    """The ranges that were read stand in the first, with what was passed over there."""
    at = 1 << 40
    cuts = [Cut(TOPIC, 16 * b"x", 1023, at, f"{number:032x}", at) for number in range(1_001)]
    delivered = [
        DeliveredCount(f"{number:064}", MessageClass.GUARANTEED, at) for number in range(600)
    ]
    whole = Ledger(
        node=LONG,
        lane=0,
        lane_epoch=at,
        sources=[SourceRange(TOPIC, 16 * b"x", 7, 0, 1, 1)],
        delivered=delivered,
        cuts=cuts,
    )
    parts = list(in_records(whole))
    assert max(len(encode_ledger(one)) for one in parts) < ROOM
    assert [cut for one in parts for cut in one.cuts] == cuts
    assert [name for one in parts for name in one.delivered] == delivered
    assert [len(one.sources) for one in parts] == [1, 0, 0, 0, 0]
    assert list(in_records(Ledger(node="a", lane=0, lane_epoch=1))) != []


def test_a_lane_begins_though_its_cuts_do_not_fit_into_one_record(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are as many as nodes times partitions. Spec: K25."""
    monkeypatch.setattr(batch, "LISTED_MAX", 3)
    ledger = mesh.kafka.topics[mesh.names.ledger("a")]
    mesh.world.kill("a")
    mesh.run(1_000)
    ledger.message_bytes_max = 400
    mesh.world.start("a")
    mesh.run()
    publish(mesh, b"1")
    mesh.run()
    assert payloads(mesh) == [b"1"]
    told = [decode_ledger(one.value()) for one in mesh.read(mesh.names.ledger("a"))]
    begun = [cut for one in told if one.lane_epoch == 2 for cut in one.cuts]
    ingress = [
        cut for cut in begun if cut.topic == mesh.names.ingress("a", MessageClass.GUARANTEED)
    ]
    assert len({(cut.partition, cut.uuid) for cut in ingress}) == 4 * 3


def test_what_a_neighbour_wants_is_kept_in_records_that_fit() -> None:
    """Else the leadership would end with it, again and again. Spec: K21."""
    filters = [f"{number}/*/x" for number in range(40_000)]
    parts = list(control_writer._parts(filters))
    assert [one for part in parts for one in part] == filters
    assert max(len(encode_learned(1 << 40, 1 << 40, part)) for part in parts) < ROOM
