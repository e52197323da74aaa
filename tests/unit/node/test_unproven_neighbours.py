"""How long a start waits for the proofs of its neighbours, and what waits for them all the same."""

from __future__ import annotations

from mesh.core.local_links import LocalLink
from mesh.core.scopes import ScopeReader
from mesh.model.control import Mark, Ownership, Scope
from mesh.model.topology import ZoneKind
from mesh.node.neighbour import Neighbour
from mesh.node.unproven_neighbours import AGAIN_MS, START_PATIENCE_MS, UnprovenNeighbours

SCOPE = Scope("Z", "a", Ownership.OWN)


def heard(name: str) -> Neighbour:
    """Return a neighbour that was read to its end, and offers nothing."""
    link = LocalLink(name, "Z", ZoneKind.MULTI_HOP)
    return Neighbour(link, caught_up=True, scopes={SCOPE: ScopeReader()})


def mark(neighbour: Neighbour, number: int, *, is_proven: bool) -> None:
    neighbour.scopes[SCOPE].marked(Mark(1, number, 0 if is_proven else 1, 0))


def test_strangers_who_write_in_turns_make_nobody_wait_for_good() -> None:
    """Each proof is gone for a moment only, and never are both there."""
    neighbours = {name: heard(name) for name in "bc"}
    unproven = UnprovenNeighbours()
    overdue: list[str] = []
    for now_ms in range(0, START_PATIENCE_MS + AGAIN_MS, 100):
        for turn, name in enumerate("bc"):
            mark(neighbours[name], now_ms + 1, is_proven=now_ms // 1_000 % 2 == turn)
        assert not all(one.is_settled for one in neighbours.values())
        overdue += unproven.overdue(neighbours, now_ms)
    assert overdue == ["b"]  # the other one is proven just then


def test_who_was_gone_without_in_vain_is_told_again_after_a_while() -> None:
    """What the node has kept of it is read beside the loop, which may fail."""
    neighbours, unproven = {"b": heard("b")}, UnprovenNeighbours()
    mark(neighbours["b"], 1, is_proven=False)
    told = [
        now_ms
        for now_ms in range(0, START_PATIENCE_MS + 2 * AGAIN_MS + 100, 100)
        if list(unproven.overdue(neighbours, now_ms))
    ]
    assert told == [START_PATIENCE_MS + again * AGAIN_MS for again in range(3)]


def test_who_is_heard_is_known_by_its_proof_alone() -> None:
    """A change, or a link that gives way, waits for it although the node serves. Spec: K27, K28."""
    neighbour = heard("b")
    mark(neighbour, 1, is_proven=False)
    neighbour.frozen = True
    assert neighbour.is_settled
    assert not neighbour.is_known
    neighbour.caught_up = False  # nobody can say what it wants now
    assert neighbour.is_known
    neighbour.caught_up, neighbour.is_disabled = True, True
    assert neighbour.is_known
    neighbour.is_disabled = False
    mark(neighbour, 2, is_proven=True)
    assert neighbour.is_known
