"""Numbers and names in sentences for people."""

from __future__ import annotations

import pytest

from mesh.model.counted import counted, listed, numbered


@pytest.mark.parametrize(("count", "said"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_noun_stands_in_its_number(count: int, said: str) -> None:
    assert counted(count, "record") == said


@pytest.mark.parametrize(("count", "said"), [(1, "worker 0 alone"), (3, "workers 0 to 2")])
def test_what_is_numbered_is_told_by_its_ends(count: int, said: str) -> None:
    assert numbered(count, "worker") == said


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_of_many_names_the_first_are_told_and_how_many_more(names: list[str], said: str) -> None:
    assert listed(names, 2) == said
