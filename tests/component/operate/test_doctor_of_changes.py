"""A change of the topology that stands still is found, with the way on and back."""

from __future__ import annotations

from mesh.config.published import published_text
from mesh.model.control import Change, Stage
from mesh.operate.doctor import Category
from mesh.view.change_records import write_change
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import unwell


def test_a_change_that_stands_still_for_a_minute_is_found(mesh: Mesh) -> None:
    """Spec: K28."""
    mesh.pause(5)
    assert unwell(mesh, Category.NODES) == []
    text = published_text(mesh.topology)
    for stage, ways in ((Stage.HOLD, 2), (Stage.SWITCH, 1)):
        write_change(Change(9, stage, text, ("a", "b")), mesh.world.kafka, "mesh.")
        assert unwell(mesh, Category.NODES) == []
        mesh.pause(61)
        [found] = unwell(mesh, Category.NODES)
        assert found.description == "the change to version 9 goes on"
        assert f"at stage {stage} for 6" in found.error
        assert found.hint.count("mesh apply") == ways
        assert ("2 nodes take nothing" in found.error) is (stage is Stage.HOLD)
    write_change(Change(9, Stage.RUN, text), mesh.world.kafka, "mesh.")
    assert unwell(mesh, Category.NODES) == []
