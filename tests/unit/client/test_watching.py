"""Several watches of one application see the same, and the node gets one word. Spec: tree_layer 6.8."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mesh.client.watching import Passing, Verdict, Watches
from mesh.errors import SubjectError
from mesh.model.tree_apps import AppSaid, Resumed, Snooped, SnoopWanted
from mesh.model.tree_frames import Options, ReplyKind
from mesh.model.trees import NO_INSTANCE, NO_MESSAGE, Address, MessageId, tree_id

TREE = tree_id("desk")
TOKEN = MessageId(7)
TOO_LARGE = b"too large"


@dataclass
class Spy:
    """An application that watches; notes what it says to its node, and who saw what."""

    app: str = "spy"
    said: list[AppSaid] = field(default_factory=list)
    watches: Watches = field(default_factory=Watches)
    seen: list[tuple[str, bytes, bool]] = field(default_factory=list)
    passing: list[Passing] = field(default_factory=list)

    def check(self, said: AppSaid) -> None:
        if getattr(said, "payload", None) == TOO_LARGE:
            raise SubjectError("too large")

    def say(self, said: AppSaid) -> None:
        self.check(said)
        self.said.append(said)

    def watch(
        self, name: str, verdict: Verdict, payload: bytes | None = None, *, holds: bool = True
    ) -> None:
        """Watch by a protocol of its own name, "" for all."""

        def watcher(passing: Passing) -> Verdict:
            self.seen.append((name, passing.payload, passing.waits))
            self.passing.append(passing)
            if payload is not None:
                passing.resume(payload)
            return verdict

        tree = TREE if name == "tree" else None
        protocol = "" if name in ("tree", "all") else name
        self.watches.begin(SnoopWanted(self.app, tree, protocol, holds), watcher)

    def show(
        self, token: MessageId = TOKEN, protocol: str = "p", kind: ReplyKind | None = None
    ) -> list[AppSaid]:
        items = () if kind is ReplyKind.NULL else (b"first",)
        shown = Snooped(
            self.app, token, MessageId(1), Address(TREE, "r"), NO_INSTANCE, protocol, Options(),
            b"", items, "a", 1, False, kind,
        )  # fmt: skip
        self.watches.show(shown, self)
        return self.said


def test_what_all_let_go_on_goes_on_once() -> None:
    spy = Spy()
    for name in ("all", "tree", "p", "other"):
        spy.watch(name, Verdict.CONTINUE)
    assert spy.show() == [Resumed("spy", TOKEN)]
    assert spy.seen == [("all", b"first", True), ("tree", b"first", True), ("p", b"first", True)]


def test_each_sees_it_as_those_before_have_left_it() -> None:
    spy = Spy()
    spy.watch("all", Verdict.CONTINUE, b"second")
    spy.watch("tree", Verdict.CONTINUE)
    assert spy.show() == [Resumed("spy", TOKEN, payload=b"second")]
    assert [payload for _, payload, _ in spy.seen] == [b"first", b"second"]


def test_it_waits_for_all_that_suspend_it() -> None:
    """And a word that is given twice counts once."""
    spy = Spy()
    spy.watch("all", Verdict.SUSPEND)
    spy.watch("tree", Verdict.SUSPEND)
    assert spy.show() == []
    first, second = spy.passing
    first.resume(b"changed"), first.resume()
    assert spy.said == []
    second.resume()
    assert spy.said == [Resumed("spy", TOKEN, payload=b"changed")]
    second.consume()
    assert len(spy.said) == 1


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_one_that_takes_it_out_decides(later: bool) -> None:
    """Those behind it see nothing of it; those that still hold it are not waited for."""
    spy = Spy()
    spy.watch("all", Verdict.SUSPEND)
    spy.watch("tree", Verdict.SUSPEND if later else Verdict.CONSUME)
    spy.watch("p", Verdict.CONTINUE)
    spy.show()
    if later:
        spy.passing[1].consume()
    assert spy.said == [Resumed("spy", TOKEN, is_consumed=True)]
    assert len(spy.seen) == (3 if later else 2)
    spy.passing[0].resume()
    assert len(spy.said) == 1


def test_who_only_watches_has_no_say() -> None:
    spy = Spy()
    spy.watch("all", Verdict.CONSUME, holds=False)
    spy.watch("tree", Verdict.SUSPEND)
    assert spy.show() == []
    assert [waits for _, _, waits in spy.seen] == [False, True]
    spy.passing[1].resume()
    assert spy.said == [Resumed("spy", TOKEN)]


def test_what_waits_for_a_watch_that_has_ended_goes_on() -> None:
    """The node shows it before it hears of the end."""
    spy = Spy()
    spy.watch("all", Verdict.SUSPEND)
    spy.watch("tree", Verdict.CONSUME, holds=False)
    spy.watches.end(None, "")
    assert spy.show() == [Resumed("spy", TOKEN)]


def test_what_does_not_wait_gets_no_word() -> None:
    spy = Spy()
    spy.watch("all", Verdict.CONSUME)
    assert spy.show(NO_MESSAGE) == []
    assert [waits for _, _, waits in spy.seen] == [False]


@pytest.mark.parametrize("fault", [RuntimeError("boom"), None], ids=["raises", "says nothing"])
def test_what_a_watcher_stumbles_over_goes_on(fault: Exception | None) -> None:
    """It would wait until the application ends, and whoever sent it wait with it."""
    spy = Spy()

    def stumbles(passing: Passing) -> Verdict:
        if fault is not None:
            raise fault
        return None  # type: ignore[return-value]

    spy.watches.begin(SnoopWanted("spy", None, "", holds=True), stumbles)
    spy.watch("tree", Verdict.CONTINUE)
    with pytest.raises(
        RuntimeError if fault else TypeError, match="boom" if fault else "return one"
    ):
        spy.show()
    assert spy.said == [Resumed("spy", TOKEN)]


def test_a_verdict_may_be_said_in_its_word() -> None:
    spy = Spy()
    spy.watch("all", "consume")  # type: ignore[arg-type]
    assert spy.show() == [Resumed("spy", TOKEN, is_consumed=True)]


@pytest.mark.parametrize("kind", [None, ReplyKind.NULL])
def test_a_change_that_the_node_would_not_take_leaves_it_waiting(kind: ReplyKind | None) -> None:
    """And it may still go on as it came."""
    spy = Spy()
    spy.watch("all", Verdict.SUSPEND)
    spy.watch("tree", Verdict.CONTINUE)
    spy.show(kind=kind)
    [first, _] = spy.passing
    with pytest.raises(SubjectError, match="one answer can be changed" if kind else "too large"):
        first.resume(TOO_LARGE)
    assert first.waits
    assert spy.said == []
    first.resume()
    assert spy.said == [Resumed("spy", TOKEN)]
