"""What standbys have heard is told, and the doctor warns of one that has heard too little.

Spec: K16, K21.
"""

from __future__ import annotations

from mesh.model.facts import InForce
from mesh.model.state import Standby
from mesh.operate.doctor import Category
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.keys import standby_key
from mesh.wire.standbys import GONE_MS, standbys
from mesh.wire.state import encode_standby
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import failed, unwell

PLACE = TopicPartition("mesh.a.learned", 0)


def told(mesh: Mesh) -> dict[str, Standby]:
    kafka = mesh.world.kafka["left"]
    records = read_logs(kafka, [PLACE], name="test")
    found = standbys((one.key(), one.value(), one.timestamp()[1]) for one in records)
    return {name: standby for name, (standby, _) in found.items()}


def stand_by(mesh: Mesh) -> None:
    mesh.world.start("a", 1)
    mesh.world.workers["a#1"].name = "spare"
    mesh.pause(8.0)


def test_a_standby_tells_what_it_has_heard_until_it_takes_a_lane(mesh: Mesh) -> None:
    stand_by(mesh)
    before = told(mesh)["spare"]
    mesh.subscribe("c", "e", "acme/>")
    mesh.pause(8.0)
    assert told(mesh)["spare"] != before
    assert {one.scope.partition(" ")[0] for one in told(mesh)["spare"].in_force} >= {"b"}
    assert not unwell(mesh, Category.LANES)
    mesh.world.kill("a", 0)
    mesh.pause(10.0)
    assert mesh.world.workers["a#1"].lanes.owned
    assert told(mesh) == {}


def test_a_standby_that_ends_takes_its_word_back(mesh: Mesh) -> None:
    stand_by(mesh)
    assert told(mesh)
    mesh.world.workers.pop("a#1").close()
    assert told(mesh) == {}


def test_the_doctor_warns_of_a_standby_that_hears_less(mesh: Mesh) -> None:
    """Its own way to b is cut: nobody else would see that before it is needed."""
    stand_by(mesh)
    mesh.world.workers["a#1"].isolate(["b"])
    mesh.pause(0.5)
    mesh.subscribe("c", "e", "acme/>")
    mesh.pause(90.0)
    found = failed(mesh, Category.LANES)
    assert found == {
        "standbys of a have heard what its lanes go by": "spare has not heard all of b"
    }
    mesh.world.workers["a#1"].isolate([])
    mesh.pause(30.0)
    assert not unwell(mesh, Category.LANES)


def test_the_word_of_a_standby_that_was_killed_counts_no_more_and_is_cleared_away(
    mesh: Mesh,
) -> None:
    writer = mesh.world.kafka["left"].writer("client")
    old = encode_standby(Standby((InForce("clients", 0, 0),)))
    writer.produce(PLACE.topic, old, standby_key("dead"), 0)
    mesh.pause(GONE_MS / 1000)
    assert not unwell(mesh, Category.LANES)
    stand_by(mesh)
    assert set(told(mesh)) == {"spare"}
