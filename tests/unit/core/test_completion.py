"""Applied, complete and open: how far a subscription is known."""

from __future__ import annotations

import pytest

from mesh.core.completion import WAITING_MAX, Completion, Need
from mesh.model.control import Acknowledgement, Ownership, Scope

OUT = Scope("Z", "", Ownership.OWN)


def test_complete_follows_the_readers_and_open_names_the_links() -> None:
    """Spec: K24."""
    completion = Completion("a", epoch=3)
    completion.applied("clients", 0, 7, [Need(OUT, 2, ("b", "c"))])
    assert completion.settle() == {"clients": Acknowledgement(0, 7, -1, (("a", "b"), ("a", "c")))}
    completion.acknowledged("b", OUT, Acknowledgement(3, 2, 2))
    completion.acknowledged("c", OUT, Acknowledgement(3, 2, 1, (("c", "d"),)))
    assert completion.settle() == {"clients": Acknowledgement(0, 7, -1, (("c", "d"),))}
    completion.acknowledged("c", OUT, Acknowledgement(3, 2, 2))
    assert completion.settle() == {"clients": Acknowledgement(0, 7, 7)}
    assert completion.settle() == {}


def test_acknowledgements_of_an_older_epoch_do_not_count() -> None:
    """Spec: K24."""
    completion = Completion("a", epoch=3)
    completion.acknowledged("b", OUT, Acknowledgement(2, 99, 99))
    completion.applied("clients", 0, 1, [Need(OUT, 1, ("b",))])
    assert completion.settle()["clients"].complete == -1


@pytest.mark.parametrize("again", [(3, 1, 1), (2, 9, 9), (3, 2, -1), (-7, 48, 48), (8, 1, 1)])
def test_a_record_that_comes_again_takes_nothing_back(again: tuple[int, int, int]) -> None:
    """An old one that somebody wrote once more, or a new leader's first word. Spec: K24, R12."""
    completion = Completion("a", epoch=3)
    completion.acknowledged("b", OUT, Acknowledgement(3, 2, 2))
    completion.acknowledged("b", OUT, Acknowledgement(*again))
    assert completion.has("b", OUT, 2)
    completion.acknowledged("b", OUT, Acknowledgement(3, 3, 3))
    assert completion.has("b", OUT, 3)


def test_a_version_that_feeds_nothing_is_complete_at_once() -> None:
    """Spec: K24."""
    completion = Completion("a", epoch=1)
    completion.applied("b Z:/own", 5, 4, [])
    assert completion.settle() == {"b Z:/own": Acknowledgement(5, 4, 4)}


def test_a_new_epoch_of_the_input_starts_anew() -> None:
    """Spec: K23, K24."""
    completion = Completion("a", epoch=1)
    completion.applied("b Z:/own", 5, 4, [])
    completion.settle()
    completion.applied("b Z:/own", 6, 1, [Need(OUT, 1, ("c",))])
    assert completion.settle()["b Z:/own"] == Acknowledgement(6, 1, -1, (("a", "c"),))


def test_what_was_open_behind_a_reader_counts_only_of_what_it_has_applied() -> None:
    """It may be long over, and a reader that is not heard will never say so. Spec: K24."""
    completion = Completion("a", epoch=3)
    completion.acknowledged("b", OUT, Acknowledgement(3, 2, 1, (("b", "c"),)))
    completion.applied("clients", 0, 7, [Need(OUT, 2, ("b",))])
    assert completion.settle()["clients"].open_links == (("b", "c"),)
    completion.silent = {"b": None}
    assert completion.settle()["clients"].open_links == (("a", "b"),)
    completion.silent = {}
    completion.applied("clients", 0, 8, [Need(OUT, 3, ("b",))])
    assert completion.settle()["clients"].open_links == (("a", "b"),)


def test_what_waits_for_a_node_that_is_down_does_not_grow_with_every_change() -> None:
    """Ten changes a second for a day; when the node is back all is complete at once. Spec: K24."""
    completion = Completion("a", epoch=1)
    for number in range(1, 5_001):
        completion.applied("clients", 0, number, [Need(OUT, number, ("b", "c"))])
        completion.acknowledged("c", OUT, Acknowledgement(1, number, number))
        completion.settle()
    assert len(completion._waiting["clients"]) == WAITING_MAX
    assert completion.state("clients").open_links == (("a", "b"),)
    completion.acknowledged("b", OUT, Acknowledgement(1, 4_999, 4_999))
    assert completion.settle()["clients"].complete == WAITING_MAX - 1
    completion.acknowledged("b", OUT, Acknowledgement(1, 5_000, 5_000))
    assert completion.settle()["clients"].complete == 5_000
    assert not completion._waiting["clients"]


def test_an_old_acknowledgement_takes_back_nothing() -> None:
    """A stranger has copied it, and its reader, who has said all, will not say so again. K24."""
    completion = Completion("a", epoch=3)
    newest = Acknowledgement(3, 2, 2)
    for ack in (newest, Acknowledgement(2, 9, 9), Acknowledgement(3, 1, 1), newest):
        completion.acknowledged("b", OUT, ack)
        assert completion.has("b", OUT, 2)
    completion.acknowledged("b", OUT, Acknowledgement(3, 3, -1, (("b", "c"),)))
    completion.applied("clients", 0, 7, [Need(OUT, 2, ("b",))])
    completion.applied("clients", 0, 8, [Need(OUT, 3, ("b",))])
    assert completion.settle()["clients"] == Acknowledgement(0, 8, 7, (("b", "c"),))
