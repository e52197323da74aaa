"""A client whose filters have too many shapes gets more than it asked for, and alone pays for it.

Spec: DESIGN 3.
"""

from __future__ import annotations

import itertools

from mesh.core.interest import EXACT_FILTERS
from mesh.lane.accounts import NAMES_MAX, OTHERS, Accounts
from mesh.model.frames import MessageClass
from mesh.model.state import Ledger
from mesh.worker.http.figures import figures_of
from tests.component.worker.conftest import SmallMesh, subject


def test_needless_copies_are_counted_towards_who_has_too_many_shapes(mesh: SmallMesh) -> None:
    """Nobody else gets one more message."""
    mesh.subscribe("c", "s", ">", None)
    for at, choice in enumerate(itertools.product(*(("*", letter) for letter in "abcdefg"))):
        mesh.subscribe("c", "hostile", f"{'/'.join(choice)}/{at}")  # none covers another
    for at in range(EXACT_FILTERS + 1):
        mesh.subscribe("c", "hostile", f"hot{at}/*/*/*/*/*/*/x")
    mesh.subscribe("b", "calm", "quiet/*/*/*/*/*/*/x")
    mesh.run(8_000)
    topic = mesh.names.ingress("c", MessageClass.GUARANTEED)
    for address in ("hot0/1/1/1/1/1/1/x", "quiet/1/1/1/1/1/1/x", "other/1/1/1/1/1/1/x"):
        mesh.write(topic, b"1", headers=[subject(address)])
    mesh.run()
    worker = mesh.world.workers["c"]
    assert worker.lanes is not None
    # The first of them it did ask for: whether it did is not looked at.
    assert worker.lanes.accounts.needless == {"hostile": 3}
    assert figures_of(worker).accounts.needless == {"hostile": 3}
    assert len(mesh.read(mesh.names.endpoint("c", "hostile"))) == 3
    assert len(mesh.read(mesh.names.endpoint("b", "calm"))) == 1
    assert not mesh.dead_letters("c")


def test_of_needless_copies_only_so_many_names_are_told_apart() -> None:
    accounts, ledger = Accounts(), Ledger(node="a", lane=0, lane_epoch=1)
    for number in range(3 * NAMES_MAX):
        accounts.add(ledger, {f"e{number}": 2})
    accounts.add(ledger, {"e0": 1})
    assert len(accounts.needless) == NAMES_MAX + 1
    assert (accounts.needless["e0"], accounts.needless[OTHERS]) == (3, 4 * NAMES_MAX)
