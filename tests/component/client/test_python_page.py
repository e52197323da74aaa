"""The Python that pages show does what they say, in their order, on the mesh that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import mesh.client as mesh_client
from mesh.testing.memory import InMemoryMesh

ROOT = Path(__file__).parents[3]
FIG36 = ROOT / "examples" / "topologies" / "fig36.yaml"


class Enough(Exception):  # noqa: N818  # nothing is wrong
    """A loop without end has shown what it had to."""


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMesh]:
    """The mesh that `connect` leads to."""
    with InMemoryMesh(FIG36) as mesh:
        monkeypatch.setattr("mesh.client.selected_topology", lambda: mesh.topology)
        monkeypatch.setattr("mesh.client.connect", lambda _topology, node: mesh.client(node))
        yield mesh


def shown_by(page: str) -> list[str]:
    """Run the examples of a page one after the other; return what they print."""
    lines: list[str] = []

    def tell(*words: object) -> None:
        lines.append(" ".join(map(str, words)))
        if is_endless:
            raise Enough

    names: Mapping[str, object] = {"print": tell}
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        is_endless = re.search(r"^for ", block, re.MULTILINE) is not None
        with suppress(Enough):
            exec(compile(block, page, "exec"), names)  # type: ignore[arg-type]
    return lines


def test_the_page_for_python_does_what_it_says(mesh: InMemoryMesh) -> None:
    sent, received, job = shown_by("docs/python.md")
    assert re.fullmatch(r"mesh\.tk3\.in\.g/\d/0", sent)
    path = ("tk3", "tk1", "ny1", "pa1", "pa2")
    assert received == f"orders/eu/1 {b'hello'} {path}"
    assert job == f"{b'print'} 1"


def test_so_does_the_readme(mesh: InMemoryMesh) -> None:
    [line] = shown_by("README.md")
    assert "orders/eu/1" in line
    assert "b'hello'" in line


def test_what_pages_say_that_the_client_raises_can_be_had_from_it() -> None:
    """Whoever is to publish again later has to catch what says so."""
    pages = [*ROOT.glob("docs/*.md")]
    told = {name for page in pages for name in re.findall(r"`(\w+Error)`", page.read_text())}
    of_client = told - {"StartError"}  # of containers under test
    assert {"BackpressureError", "PausedError"} <= of_client
    assert all(hasattr(mesh_client, name) for name in of_client)
