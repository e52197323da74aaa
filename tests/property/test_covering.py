"""Covering against brute force: what is offered, and that nobody gets more or less."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.core.covering import Covering
from mesh.model.control import Wish
from mesh.model.subject import matches

_LEVELS = st.sampled_from(["a", "b", "*"])
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, ">"] if rest or not levels else levels),
    st.lists(_LEVELS, max_size=3),
    st.booleans(),
) | st.sampled_from(["$node/u", "$queue/q/u", "$node/v"])
WISHES = st.none() | st.builds(Wish, st.booleans(), st.booleans(), st.booleans())
ROUNDS = st.lists(st.dictionaries(FILTERS, WISHES, max_size=6), max_size=12)


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


def brute(entries: Mapping[str, Wish]) -> dict[str, Wish]:
    def is_as_strong(a: Wish, b: Wish) -> bool:
        return a.durable >= b.durable and a.live >= b.live and a.static >= b.static

    return {
        name: wish
        for name, wish in entries.items()
        if not any(covers(g, name) and is_as_strong(entries[g], wish) for g in entries)
    }


@given(ROUNDS)
def test_what_is_offered_is_what_nothing_else_covers(
    rounds: list[dict[str, Wish | None]],
) -> None:
    """After any changes, made in any batches; told are exactly the differences. Spec: K22."""
    covering, entries, offered = Covering(), dict[str, Wish](), dict[str, Wish]()
    for changes in rounds:
        for filter_, before, after in covering.apply(changes):
            assert offered.get(filter_) == before != after
            offered.pop(filter_, None)
            if after is not None:
                offered[filter_] = after
        for name, wish in changes.items():
            entries.pop(name, None)
            if wish is not None:
                entries[name] = wish
        assert offered == brute(entries) == covering.offered_of(entries)


@given(st.dictionaries(FILTERS, st.builds(Wish, st.booleans(), st.booleans(), st.booleans())))
def test_a_reader_sees_the_same_wish_for_every_subject(entries: dict[str, Wish]) -> None:
    """Spec: K22, DESIGN 6."""
    offered = {name: after for name, _, after in Covering().apply(entries) if after is not None}
    for subject in ("a", "a/b", "b/b/a", "a/b/b/a", "$node/u"):
        assert seen(entries, subject) == seen(offered, subject)


def seen(entries: Mapping[str, Wish], subject: str) -> tuple[bool, ...]:
    found = [wish for name, wish in entries.items() if matches(name, subject)]
    strong = [any(getattr(one, flag) for one in found) for flag in ("durable", "live", "static")]
    return (bool(found), *strong)


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_one_change_looks_at_what_it_concerns(count: int) -> None:
    """However many entries there are, one that concerns none of them is a few look-ups."""
    covering = Covering()
    rng = random.Random(1)
    covering.apply({f"t/{n}/{rng.randint(0, 9)}": Wish() for n in range(count)})
    looked = Counted(covering)
    assert covering.apply({"u/x/>": Wish()}) == [("u/x/>", None, Wish())]
    assert covering.apply({"u/x/y": Wish()}) == []
    assert covering.apply({"u/x/>": None}) == [("u/x/>", Wish(), None), ("u/x/y", None, Wish())]
    assert looked.count < 30


class Counted(dict[str, Wish]):
    """Stands for the entries, and counts how often one is looked at."""

    def __init__(self, covering: Covering) -> None:
        super().__init__(covering._wishes)
        covering._wishes = self
        self.count = 0

    def get(self, name: str, default: Wish | None = None) -> Wish | None:  # type: ignore[override]
        self.count += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> Wish:
        self.count += 1
        return super().__getitem__(name)

    def __iter__(self):  # type: ignore[no-untyped-def]
        raise AssertionError("all entries were looked at")
