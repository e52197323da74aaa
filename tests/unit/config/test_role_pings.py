"""`spec.roles` of topology files: when a link counts as down for roles on trees."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from mesh.config.published import published_text, published_topology
from mesh.config.topology_file import topology_from_mapping, topology_schema
from mesh.config.topology_writer import topology_document, topology_spec
from mesh.errors import ConfigError
from mesh.model.topology import RolePings
from mesh.trees.settings import Settings

BARE = {"kafka": {"k": {}}, "nodes": {"a": {}}}
SOON = {**BARE, "roles": {"pingEvery": "500ms", "pingsMissed": 6}}


def test_links_are_tried_each_second_and_down_after_ten() -> None:
    """Spec: tree_layer 12, K32."""
    pings = topology_from_mapping(BARE).role_pings
    assert pings == RolePings(every_s=1.0, missed_max=10)
    assert (Settings().ping_ms, Settings().pings_missed_max) == (1_000, 10)


@pytest.mark.parametrize("mesh", [BARE, SOON])
def test_they_survive_writing_and_publishing(mesh: dict[str, object]) -> None:
    topology = topology_from_mapping(mesh)
    assert ("roles" in topology_spec(topology)) is ("roles" in mesh)
    assert topology_from_mapping(topology_spec(topology), name=topology.name) == topology
    assert published_topology(published_text(topology)) == topology
    validator = Draft202012Validator(topology_schema())
    validator.validate(topology_document(topology))
    wrong = {**topology_document(topology), "spec": {**mesh, "roles": {"pingevery": "1s"}}}
    assert list(validator.iter_errors(wrong))


@pytest.mark.parametrize(
    ("roles", "line"),
    [
        ({"pingEvery": "0s"}, "roles.pingEvery: '0s' is not a duration from 100ms to 60s"),
        ({"pingEvery": "2m"}, "roles.pingEvery: '2m' is not a duration from 100ms to 60s"),
        ({"pingEvery": "often"}, "roles.pingEvery: 'often' is not a duration from"),
        ({"pingEvery": 1}, "roles.pingEvery: must be"),
        ({"pingsMissed": 0}, "roles.pingsMissed: must be"),
        ({"pingsMissed": 1}, "roles: a link that is silent for 1 times 1s is down"),
        ({"pingsMissed": True}, "roles.pingsMissed: must be"),
        ({"pingsMissed": 1e300}, "roles.pingsMissed: must be"),
        ({"pingEvery": "100ms"}, "roles: a link that is silent for 10 times 100ms is down"),
        ({"pingEvery": "60s", "pingsMissed": 11}, "let that be from 2s to 600s"),
        ({"missed": 3}, "roles.missed"),
        ("often", "roles: must be"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(roles: object, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topology_from_mapping({**BARE, "roles": roles})
    assert len(caught.value.problems) == 1
    assert line in str(caught.value)
