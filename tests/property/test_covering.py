"""Covering against brute force: what is offered, and that nobody gets more or less."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.core.covering import Covering
from mesh.model.control import Interest
from mesh.model.subject import matches

_LEVELS = st.sampled_from(["a", "b", "*"])
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, ">"] if rest or not levels else levels),
    st.lists(_LEVELS, max_size=3),
    st.booleans(),
) | st.sampled_from(["$node/u", "$queue/q/u", "$node/v"])
INTERESTS = st.none() | st.builds(Interest, st.booleans(), st.booleans(), st.booleans())
ROUNDS = st.lists(st.dictionaries(FILTERS, INTERESTS, max_size=6), max_size=12)


def covers(wide: str, narrow: str) -> bool:
    """By the words: whatever the narrow one matches, letter for letter of a small alphabet."""
    if wide == narrow or "$" in wide[0] + narrow[0]:
        return False
    wider, levels = wide.split("/"), narrow.split("/")
    for level in wider:
        if level == ">":
            return bool(levels)
        if not levels or levels[0] == ">" or level not in ("*", levels[0]):
            return False
        levels = levels[1:]
    return not levels


def brute(entries: Mapping[str, Interest]) -> dict[str, Interest]:
    def is_as_strong(a: Interest, b: Interest) -> bool:
        return a.durable >= b.durable and a.live >= b.live and a.static >= b.static

    return {
        name: interest
        for name, interest in entries.items()
        if not any(covers(g, name) and is_as_strong(entries[g], interest) for g in entries)
    }


@given(ROUNDS)
def test_what_is_offered_is_what_nothing_else_covers(
    rounds: list[dict[str, Interest | None]],
) -> None:
    """After any changes, made in any batches; told are exactly the differences. Spec: K22."""
    covering, entries, offered = Covering(), dict[str, Interest](), dict[str, Interest]()
    for changes in rounds:
        for filter_, before, after in covering.apply(changes):
            assert offered.get(filter_) == before != after
            offered.pop(filter_, None)
            if after is not None:
                offered[filter_] = after
        for name, interest in changes.items():
            entries.pop(name, None)
            if interest is not None:
                entries[name] = interest
        assert offered == brute(entries) == covering.offered_of(entries)


@given(st.dictionaries(FILTERS, st.builds(Interest, st.booleans(), st.booleans(), st.booleans())))
def test_a_reader_sees_the_same_interest_for_every_subject(entries: dict[str, Interest]) -> None:
    """Spec: K22, DESIGN 6."""
    offered = {name: after for name, _, after in Covering().apply(entries) if after is not None}
    for subject in ("a", "a/b", "b/b/a", "a/b/b/a", "$node/u"):
        assert seen(entries, subject) == seen(offered, subject)


def seen(entries: Mapping[str, Interest], subject: str) -> tuple[bool, ...]:
    found = [interest for name, interest in entries.items() if matches(name, subject)]
    strong = [any(getattr(one, flag) for one in found) for flag in ("durable", "live", "static")]
    return (bool(found), *strong)


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_one_change_looks_at_what_it_concerns(count: int) -> None:
    """However many entries there are, one that concerns none of them is a few look-ups."""
    covering = Covering()
    rng = random.Random(1)
    covering.apply({f"t/{n}/{rng.randint(0, 9)}": Interest() for n in range(count)})
    looked = Counted(covering)
    assert covering.apply({"u/x/>": Interest()}) == [("u/x/>", None, Interest())]
    assert covering.apply({"u/x/y": Interest()}) == []
    assert covering.apply({"u/x/>": None}) == [
        ("u/x/>", Interest(), None),
        ("u/x/y", None, Interest()),
    ]
    assert looked.count < 30


class Counted(dict[str, Interest]):
    """Stands for the entries, and counts how often one is looked at."""

    def __init__(self, covering: Covering) -> None:
        super().__init__(covering._interests)
        covering._interests = self
        self.count = 0

    def get(self, name: str, default: Interest | None = None) -> Interest | None:  # type: ignore[override]
        self.count += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> Interest:
        self.count += 1
        return super().__getitem__(name)

    def __iter__(self):  # type: ignore[no-untyped-def]
        raise AssertionError("all entries were looked at")
