"""Waits that double."""

from __future__ import annotations

from mesh.model.patience import Patience


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    patience = Patience(2, 15)
    waits = [patience.first]
    while len(waits) < 5:
        waits.append(patience.after(waits[-1]))
    assert waits == [2, 4, 8, 15, 15]
    assert [patience.nth(number) for number in range(5)] == waits
    assert patience.after(None) == patience.first


def test_however_often_it_was_in_vain_a_wait_has_its_end() -> None:
    assert Patience(0.5, 30.0).nth(10**9) == 30.0
