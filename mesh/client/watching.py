"""Applications that watch what passes their node: who is shown what, and the one word on it.

The node shows an application each message and reply once, however many of its watches it falls
under, and waits for one word. Here all those watches see it, in the order in which they began:
each sees the payload as those before have left it. It goes on once all that hold it have said so,
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
    """The word that a node waits for, from all watches that hold what passes.

    Attributes:
        owed: How many have yet to let it go on.
        payload: Another payload, if one was given.
        is_consumed: One has had it taken out.
    """

    shown: Snooped
    speaker: Speaker
    owed: int
    payload: bytes | None = None
    is_consumed: bool = False

    def go_on(self, payload: bytes | None = None) -> None:
        """Take the word of one watch; the last one goes to the node."""
        if payload is not None:
            self._check(payload)
        left = self.payload if payload is None else payload
        if self.owed <= 1 and not self.is_consumed:
            self.speaker.say(Resumed(self.speaker.app, self.shown.token, payload=left))
        self.owed, self.payload = self.owed - 1, left

    def _check(self, payload: bytes) -> None:
        """Refuse what the node would not take: the message would wait on, and nobody would know."""
        if self.shown.kind is not None and len(self.shown.items) != 1:
            raise SubjectError("only a message or a reply of one answer can be changed")
        self.speaker.check(Resumed(self.speaker.app, self.shown.token, payload=payload))

    def consume(self) -> None:
        """Take it out, whatever the others say."""
        if not self.is_consumed:
            self.is_consumed = True
            self.speaker.say(Resumed(self.speaker.app, self.shown.token, is_consumed=True))


@dataclass(slots=True)
class Passing:
    """A message or a reply that passes the node of an application, as one of its watches sees it.

    Attributes:
        shown: All that is known of it; `kind` is None for a message.
        waits: It goes on only when this watch says so.
    """

    shown: Snooped
    waits: bool
    _word: _Word = field(repr=False)

    @property
    def payload(self) -> bytes:
        """The message, or the reply; of a reply that collects the first item.

        As watches that were asked before have left it.
        """
        if self._word.payload is not None:
            return self._word.payload
        return self.shown.items[0] if self.shown.items else b""

    def resume(self, payload: bytes | None = None) -> None:
        """Let it go on, with another payload if one is given.

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
"""Looks at what passes and says what becomes of it; `SUSPEND` leaves that to a later moment.

What passes goes on, for its part, if it raises anything, or says nothing that is a verdict.
"""

_Key = tuple[TreeId | None, str]


@dataclass(slots=True)
class Watches:
    """The watches of one application."""

    _begun: dict[_Key, tuple[SnoopWanted, Watcher]] = field(default_factory=dict)

    def begin(self, wanted: SnoopWanted, watcher: Watcher) -> None:
        """Add a watch, or put another in its place."""
        self._begun[wanted.tree, wanted.protocol] = (wanted, watcher)

    def end(self, tree: TreeId | None, protocol: str) -> None:
        """Stop asking a watch."""
        self._begun.pop((tree, protocol), None)

    def wanted(self) -> Iterator[SnoopWanted]:
        """Yield what the node is to show."""
        for wanted, _ in self._begun.values():
            yield wanted

    def show(self, shown: Snooped, speaker: Speaker) -> None:
        """Ask all watches that something falls under, and give the node their word.

        What a watcher raises is raised again once all have been asked: nobody waits for it.
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
