"""Rules that random lives seldom meet, one by one. Spec: tree_layer 4, 6, 8."""

from __future__ import annotations

from mesh.model.tree_frames import (
    Cause,
    Frame,
    Options,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRequest,
    Reopen,
    Reply,
    ReplyKind,
    Send,
)
from mesh.model.trees import Extent, InstanceId, MessageId
from mesh.trees.inputs import AppGone
from mesh.trees.outputs import Transmit
from tests.sim.trees.rules import check_quiet, inside
from tests.sim.trees.scenes import REALMS, ask, kinds, said, world
from tests.sim.trees.world import APP, address

PLACE = address("t", "r")
FAR = 10_000
"""More links than a frame may cross."""


def bodies(outputs: list, link: str) -> list:
    return [one.frame.body for one in outputs if isinstance(one, Transmit) and one.link == link]


def test_one_instance_stays_in_the_realm_also_with_one_response() -> None:
    """`one_response` is forced off, and nothing else with it. Spec: tree_layer 6.1, 8."""
    mesh = world(realms=REALMS, roles="c")
    options = {"one_instance": True, "one_response": True}
    assert kinds(ask(mesh, "a", local_realm=True, **options)) == [("not_found", True)]
    assert ask(mesh, "a", **options).reached == ["c"]


def test_a_message_that_has_gone_too_far_is_accounted_for() -> None:
    """Else whoever handed it on would wait for the reply. Spec: tree_layer 4 (H19), 6.3."""
    mesh = world(roles="c")
    for one_way in (False, True):
        mid = MessageId((90 + one_way) << 64)
        kept = (InstanceId(0), "", Options(one_way=one_way), b"", b"x", False, False, FAR)
        outputs = said(mesh, "a", "b", Send(mid, *PLACE, *kept))
        copy = Reply(mid, ReplyKind.DUPLICATE, is_last=True)
        assert bodies(outputs, "a") == ([] if one_way else [copy])
        assert not bodies(outputs, "c")
        mesh.run()


def test_a_recovery_that_has_gone_too_far_is_incomplete() -> None:
    """Its origin must not trust what it has not heard. Spec: tree_layer 5.8 (H19)."""
    mesh = world(roles="c")
    asked = RecoveryRequest(MessageId(91 << 64), *PLACE, Extent.CLOUD, MessageId(1), FAR)
    outputs = said(mesh, "a", "b", asked)
    assert bodies(outputs, "a") == [RecoveryDone(asked.id, ok=False)]
    assert not bodies(outputs, "c")


def test_what_waits_for_a_recovery_ends_with_its_application() -> None:
    """Nobody is given a message whose sender is gone. Spec: tree_layer 13."""
    mesh = world(roles="c")
    call = mesh.send("a", "r")
    assert inside(mesh, "a").recoveries
    call.was_gone = True
    mesh.step("a", AppGone(APP))
    mesh.run()
    check_quiet(mesh)
    assert (call.reached, call.answers) == ([], [])


def test_one_response_tells_an_incomplete_recovery_once() -> None:
    """With the answers, and not before them. Spec: tree_layer 6.4, 11 (17, 50)."""
    mesh = world((("a", "b"), ("a", "c")), roles="c")
    mesh.intercept = lambda a, _, frame: (
        [Frame(frame.session, frame.number, Reopen(MessageId(1)))]
        if a == "b" and isinstance(frame.body, (RecoveryAnswer, RecoveryDone))
        else [frame]
    )
    call = mesh.send("a", "r", one_response=True)
    mesh.run()
    assert kinds(call) == [("null", False), ("data", True)]
    assert call.answers[0].cause is Cause.RECOVERY_INCOMPLETE
