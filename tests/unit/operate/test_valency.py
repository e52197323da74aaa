"""How many ways lead to a role that have no link in common. Spec: tree_layer 13."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from mesh.operate.roles.valency import disjoint_ways


def linked(*pairs: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one, other in pairs:
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


@pytest.mark.parametrize(
    ("pairs", "ends", "count"),
    [
        ("ab bc", "c", 1),
        ("ab bc ac", "c", 2),
        ("ab ac bd cd", "d", 2),
        ("ab ac bd cd de", "e", 1),
        ("ab ac", "bc", 2),
        ("bc", "c", 0),
        # The shortest way takes a link of both others, which must be given back.
        ("ab bc cd ac bd", "d", 2),
        ("as st tz au uv vt sw wx xz", "z", 2),
    ],
)
def test_ways_that_share_no_link_are_counted(pairs: str, ends: str, count: int) -> None:
    assert disjoint_ways(linked(*pairs.split()), "a", ends) == count


def test_a_link_that_one_end_alone_names_does_not_count() -> None:
    assert disjoint_ways({"a": ["b"], "b": []}, "a", "b") == 0


@pytest.mark.parametrize("seed", range(40))
def test_so_many_links_must_be_lost_and_no_fewer(seed: int) -> None:
    """Against all choices of links (Menger)."""
    chance = Random(seed)
    pairs = ["".join(pair) for pair in combinations("abcde", 2) if chance.random() < 0.6]
    count = disjoint_ways(linked(*pairs), "a", "de")
    least = next(
        lost
        for lost in range(len(pairs) + 1)
        if any(
            disjoint_ways(linked(*(set(pairs) - {*cut})), "a", "de") == 0
            for cut in combinations(pairs, lost)
        )
    )
    assert count == least
