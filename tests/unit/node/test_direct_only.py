"""What is reported of queues whose members are out of reach, by zone or by a local subject."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.queues import MemberKind
from mesh.node.queue_choices import queue_choices
from tests.unit.core.direct_only import PLAIN, TOPOLOGY, D, G, queued

NOBODY = "queue q: nobody, for only direct messages come to its members"


@pytest.mark.parametrize(
    ("members", "guaranteed", "direct"),
    [
        ([("b", MemberKind.ANY)], NOBODY, "queue q: b, its only member, 1 link away"),
        ([("a", MemberKind.PROXY), ("b", MemberKind.HOME)], NOBODY, "queue q: b, its home"),
        (
            [("b", MemberKind.ANY), ("z", MemberKind.ANY)],
            "queue q: z, its only member, 1 link away",
            "queue q: b, 1 link away as z, and first by name",
        ),
    ],
)
def test_who_gets_it_is_told_by_class(
    members: list[tuple[str, MemberKind]], guaranteed: str, direct: str
) -> None:
    """Spec: DMR-11, DESIGN 6."""
    made = queued(TOPOLOGY, *members)
    assert list(queue_choices(made, "x", G)) == [guaranteed]
    assert list(queue_choices(made, "x", D)) == [direct]


@pytest.mark.parametrize(
    "members", [[("b", MemberKind.ANY)], [("a", MemberKind.PROXY), ("b", MemberKind.HOME)]]
)
def test_nobody_gets_what_is_kept_local_on_the_way(members: list[tuple[str, MemberKind]]) -> None:
    """Spec: EMS-11, DESIGN 6."""
    kept = replace(PLAIN, interest=(InterestControl("b", ControlKind.LOCAL, "x"),))
    made = queued(kept, *members)
    prefix = "queue q: nobody, since x is kept local on the way to "
    assert [one.startswith(prefix) for one in queue_choices(made, "x", G)] == [True]
    assert not any("kept local" in one for one in queue_choices(made, "y", G))
