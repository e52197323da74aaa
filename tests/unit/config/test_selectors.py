"""`spec.selectors` of a file: refused with its place, and kept by everything that writes files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mesh.config.published import published_document, published_text, published_topology
from mesh.config.topology_file import load_topology, topology_from_mapping, topology_schema
from mesh.core.cutover import cut_over
from mesh.core.differences import Action, Described, ItemKind, differences_between
from mesh.errors import ConfigError
from mesh.model.topology import Topology

ORDER = 'headers["kind"] == "order"'
ACME = 'subject.startsWith("acme/")'


def mesh(*selectors: dict[str, Any], **more: Any) -> Topology:
    return topology_from_mapping(
        {
            "kafka": {"k": None},
            "nodes": {"a": {}, "b": {}, "c": {}, "d": {}},
            "zones": {
                "Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]},
                "J": {"kind": "join", "from": "c", "to": "d"},
            },
            "selectors": list(selectors),
            **more,
        }
    )


def selector(a: str, b: str, from_: str, when: str = ORDER) -> dict[str, Any]:
    return {"link": [a, b], "from": from_, "when": when}


def test_selectors_are_of_a_direction() -> None:
    """Spec: EMS-14."""
    found = mesh(selector("b", "a", "a"), selector("a", "b", "a", ACME), selector("c", "d", "c"))
    assert found.conditions == {("a", "b"): [ORDER, ACME], ("c", "d"): [ORDER]}


@pytest.mark.parametrize(
    ("wrong", "code", "key"),
    [
        (selector("a", "c", "a"), "UNKNOWN_LINK", "link"),
        (selector("a", "x", "a"), "UNKNOWN_NODE", "link"),
        (selector("a", "b", "c"), "UNKNOWN_NODE", "from"),
        (selector("c", "d", "d"), "ONE_WAY", "from"),
        (selector("a", "b", "a", "1 +"), "BAD_CONDITION", "when"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(wrong: dict[str, Any], code: str, key: str) -> None:
    """Spec: EMS-14."""
    with pytest.raises(ConfigError) as caught:
        mesh(selector("b", "c", "b"), wrong)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == (code, f"selectors[1].{key}")


def test_the_place_in_a_file_is_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: m}\nspec:\n  kafka: {k: {}}\n"
        "  nodes: {a: {}, b: {}}\n  zones:\n    Z: {kind: one-hop, nodes: [a, b]}\n"
        "  selectors:\n    - {link: [a, b], from: a, when: 'subject =='}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_topology(file)
    (problem,) = caught.value.problems
    assert problem.where == f"{file}:10:31: spec.selectors[0].when"
    assert "\n" not in problem.message


def test_what_is_written_is_read_back() -> None:
    before = mesh(selector("b", "a", "a"), selector("d", "c", "c", ACME), covering=True)
    assert before.covering
    assert published_topology(published_text(before)).selectors == before.selectors
    assert published_topology(published_text(before)).covering
    assert "selectors" in str(topology_schema())


def test_a_change_of_selectors_alone_is_told_and_followed_in_place() -> None:
    """Who sends over that link that way holds, until it drained to the end. Spec: EMS-14, K28."""
    before, after = mesh(selector("a", "b", "a")), mesh(selector("a", "b", "a", ACME))
    described = [Described(topology=t, document=published_document(t)) for t in (before, after)]
    (change,) = differences_between(*described)
    assert (change.what, change.name, change.action) == (ItemKind.SELECTOR, "a->b", Action.CHANGE)
    cut = cut_over(before, after)
    assert cut.holding == ["a"]
    assert cut.drain_waves == [[("a", "b")], [("b", "c")], [("c", "d")]]
