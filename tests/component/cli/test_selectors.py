"""Selectors on the command line: refused with their place, named where they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.cli.conftest import Run

ORDER = 'headers["kind"] == "order"'


def mesh_file(folder: Path, when: str = ORDER) -> str:
    file = folder / "mesh.yaml"
    file.write_text(
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: m}\nspec:\n  kafka: {k: {}}\n"
        "  nodes: {a: {}, b: {}}\n  zones:\n    Z: {kind: one-hop, nodes: [a, b]}\n"
        f"  selectors:\n    - {{link: [a, b], from: a, when: '{when}'}}\n"
    )
    return str(file)


def test_a_condition_that_does_not_parse_is_one_line(run: Run, tmp_path: Path) -> None:
    """Spec: EMS-14, lab.md 3."""
    file = mesh_file(tmp_path, "subject ==")
    found = run("validate", file)
    assert found.code == 2
    (line,) = (found.out + found.err).strip().splitlines()
    assert line.startswith(f"{file}:10:31: spec.selectors[0].when: ")
    assert line.endswith("[BAD_CONDITION]")


@pytest.mark.parametrize(("kind", "refused"), [("order", []), ("quote", [ORDER])])
def test_explain_names_the_condition_that_refuses(
    run: Run, tmp_path: Path, kind: str, refused: list[str]
) -> None:
    """Spec: EMS-14."""
    words = ("explain", "x", "--from", "a", "-f", mesh_file(tmp_path), "--subscribe", "b/e=>")
    found = run(*words, "--header", f"kind={kind}", "-o", "json").data
    assert [one["selector"] for one in found["refused"] if "selector" in one] == refused
    assert (refused == []) is ("b" in [one["node"] for one in found["reached"]])
