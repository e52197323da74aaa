"""What a leader writes of chains that broke and are whole again. Spec: K11."""

from __future__ import annotations

from mesh.model.control import RepairRequest
from mesh.model.effects import WriteRepair
from mesh.node.faults import Faults

REQUEST = RepairRequest("mesh.b.to.c.g", 0, b"a" * 16, 0, 5, 0)
ENDED = [WriteRepair("b", REQUEST, is_open=False)]


def test_an_end_is_written_once_however_often_lanes_report_it() -> None:
    """A request of a former leader may still be there, so the first is written in any case."""
    faults = Faults()
    assert [*faults.mended("b", REQUEST)] == ENDED
    assert [*faults.mended("b", REQUEST)] == []
    assert [*faults.found("b", REQUEST)] == [WriteRepair("b", REQUEST, is_open=True)]
    assert [*faults.mended("b", REQUEST)] == ENDED


def test_who_begins_to_lead_writes_it_again() -> None:
    """What it had decided before it led was not written."""
    faults = Faults()
    list(faults.mended("b", REQUEST))
    assert [*faults.everything([])] == []
    assert [*faults.mended("b", REQUEST)] == ENDED


def test_nothing_is_kept_of_a_link_that_was_removed() -> None:
    faults = Faults()
    list(faults.mended("b", REQUEST))
    faults.forget(["b"])
    assert faults == Faults()
