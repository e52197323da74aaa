"""Applications that watch what passes their node: who is shown what, and the single verdict.

The node shows an application each message and reply once, however many of its watches match, and
waits for one verdict. Here all those watches see it, in the order in which they began: each sees
the payload as the previous ones have left it. It continues once all that hold it have said so,
and not at all if one takes it out. Spec: tree_layer 6.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from mesh.client.role_messages import Speaker
from mesh.errors import SubjectError
from mesh.model.tree_apps import Resumed, Snooped, SnoopWanted
from mesh.model.trees import TreeId


class Verdict(StrEnum):
    """What becomes of a message or reply that an application watches. Spec: tree_layer 6.8."""

    CONTINUE = "continue"
    SUSPEND = "suspend"
    CONSUME = "consume"


@dataclass(slots=True)
class _Word:
    """The verdict that a node waits for, from all watches that hold what passes.

    Attributes:
        owed: How many watches have yet to release it.
        payload: Another payload, if one was given.
        is_consumed: Whether one has taken it out.
    """

    shown: Snooped
    speaker: Speaker
    owed: int
    payload: bytes | None = None
    is_consumed: bool = False

    def go_on(self, payload: bytes | None = None) -> None:
        """Take the verdict of one watch; the last one goes to the node."""
        if payload is not None:
            self._check(payload)
        left = self.payload if payload is None else payload
        if self.owed <= 1 and not self.is_consumed:
            self.speaker.say(Resumed(self.speaker.app, self.shown.token, payload=left))
        self.owed, self.payload = self.owed - 1, left

    def _check(self, payload: bytes) -> None:
        """Refuse what the node would not take: the message would wait on unnoticed."""
        if self.shown.kind is not None and len(self.shown.items) != 1:
            raise SubjectError("only a message or a reply of one answer can be changed")
        self.speaker.check(Resumed(self.speaker.app, self.shown.token, payload=payload))

    def consume(self) -> None:
        """Take it out, whatever the other watches say."""
        if not self.is_consumed:
            self.is_consumed = True
            self.speaker.say(Resumed(self.speaker.app, self.shown.token, is_consumed=True))


@dataclass(slots=True)
class Passing:
    """A message or a reply that passes the node of an application, as one of its watches sees it.

    Attributes:
        shown: All that is known of it; `kind` is None for a message.
        waits: It continues only when this watch says so.
    """

    shown: Snooped
    waits: bool
    _word: _Word = field(repr=False)

    @property
    def payload(self) -> bytes:
        """The message, or the reply; for a collecting reply its first item.

        It is as earlier watches have left it.
        """
        if self._word.payload is not None:
            return self._word.payload
        return self.shown.items[0] if self.shown.items else b""

    def resume(self, payload: bytes | None = None) -> None:
        """Let it continue, with another payload if one is given.

        Raises:
            SubjectError: It cannot be changed, or is too large; it waits as before.
            TypeError: It is text, not bytes; it waits as before.
        """
        if self.waits:
            self._word.go_on(payload)
            self.waits = False

    def consume(self) -> None:
        """Take it out: a sender that waits for a last reply gets an end instead."""
        if self.waits:
            self.waits = False
            self._word.consume()


Watcher = Callable[[Passing], Verdict]
"""Looks at what passes and decides what becomes of it; `SUSPEND` postpones the decision.

If it raises anything, or returns something that is not a verdict, the message continues.
"""

_Key = tuple[TreeId | None, str]


@dataclass(slots=True)
class Watches:
    """The watches of one application."""

    _begun: dict[_Key, tuple[SnoopWanted, Watcher]] = field(default_factory=dict)

    def begin(self, wanted: SnoopWanted, watcher: Watcher) -> None:
        """Add a watch, or replace it."""
        self._begun[wanted.tree, wanted.protocol] = (wanted, watcher)

    def end(self, tree: TreeId | None, protocol: str) -> None:
        """End a watch."""
        self._begun.pop((tree, protocol), None)

    def wanted(self) -> Iterator[SnoopWanted]:
        """Yield what the node should show."""
        for wanted, _ in self._begun.values():
            yield wanted

    def show(self, shown: Snooped, speaker: Speaker) -> None:
        """Call all matching watches, and give the node their verdict.

        A watcher's exception is raised again once all have been called: nobody waits for it.

        Args:
            shown: A message that passes the node; it waits there if a watch holds messages.
            speaker: Writes the verdict to the node.

        Raises:
            Exception: The first that a watcher has raised.
        """
        asked = [
            (wanted, watcher)
            for (tree, protocol), (wanted, watcher) in self._begun.items()
            if tree in (None, shown.address.tree) and protocol in ("", shown.protocol)
        ]
        holding = sum(wanted.holds for wanted, _ in asked)
        word = _Word(shown, speaker, holding)
        faults: list[Exception] = []
        for wanted, watcher in asked:
            passing = Passing(shown, bool(shown.token) and wanted.holds, word)
            try:
                verdict = _verdict(watcher(passing))
            except Exception as error:  # noqa: BLE001 - raised below
                faults.append(error)
                verdict = Verdict.CONTINUE
            if verdict is Verdict.CONTINUE:
                passing.resume()
            elif verdict is Verdict.CONSUME:
                passing.consume()
            if word.is_consumed:
                break  # there is nothing more to see
        if shown.token and not holding:
            word.go_on()  # the watch for which it waits has ended meanwhile
        if faults:
            raise faults[0]


def _verdict(said: Verdict) -> Verdict:
    try:
        return Verdict(said)
    except ValueError as error:
        text = f"a watcher returned {said!r}; return one of {', '.join(Verdict)}"
        raise TypeError(text) from error
