"""What applications exchange: messages, and the replies to them.

Spec: tree_layer 6.4, 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from mesh.client.outbound import check_flags
from mesh.errors import RoleRefusedError
from mesh.model.tree_apps import Answered, AnswerGiven, AppSaid, Delivered, Refused
from mesh.model.tree_frames import Cause, ReplyKind
from mesh.model.trees import Address

ENDED_MS = 720_000
"""A node ends unanswered sends within eleven minutes; no answer gets through after that."""


class Speaker(Protocol):
    """An application that its node listens to.

    Attributes:
        app: Its name.
    """

    app: str

    def check(self, said: AppSaid) -> None:
        """Raise what `say` would raise for it."""

    def say(self, said: AppSaid) -> None:
        """Write a record for the node."""


class Application(Speaker, Protocol):
    """The application that sends and answers."""

    def deadline(self, timeout_s: float) -> int:
        """Return the moment at which a wait of this long ends."""

    def wait_until(self, deadline: int, what: str) -> None:
        """Go on a little, or raise TimeoutError if it is too late."""


@dataclass(frozen=True, slots=True)
class RoleReply:
    """One answer to a send.

    Attributes:
        kind: `data`, `null` (somebody may have got it, and cannot answer), `not_found`, `grant`
            (the role is here now), or `end`: no more replies come.
        payload: Content of data; with `one_response` the first of `items`. Otherwise None.
        is_last: Nothing comes after it.
        items: With `one_response` the answers of all.
        cause: Cause of a null.
    """

    kind: ReplyKind
    payload: bytes | None
    is_last: bool
    items: tuple[bytes, ...] = ()
    cause: Cause | None = None


@dataclass(slots=True)
class Call:
    """A send that waits for its replies; iterate over it to get them, the last one included.

    Attributes:
        name: Its name in records.
        timeout_s: How long iterating waits for the last reply.
        began_ms: When it was sent.
        replies: What has come so far.
        refusal: Why the node did not send it, or None.
    """

    name: str
    timeout_s: float
    began_ms: int
    replies: list[RoleReply] = field(default_factory=list)
    refusal: Refused | None = None
    _roles: Application = field(kw_only=True, repr=False)

    @property
    def is_done(self) -> bool:
        """Whether the last reply is here."""
        return bool(self.replies) and self.replies[-1].is_last

    def __iter__(self) -> Iterator[RoleReply]:
        """Yield each reply as it comes.

        Raises:
            TimeoutError: The last one has not arrived within the timeout.
            RoleRefusedError: The node does not do what was requested.
        """
        deadline = self._roles.deadline(self.timeout_s)
        given = 0
        while True:
            while given < len(self.replies):
                yield self.replies[given]
                given += 1
            if self.is_done:
                return
            if self.refusal is not None:
                raise RoleRefusedError(self.refusal.code, self.refusal.text)
            self._roles.wait_until(deadline, f"{self.name}: no last reply")

    def wait(self) -> list[RoleReply]:
        """Return all replies once the last is here; raises as iterating does."""
        return list(self)


@dataclass(slots=True)
class Calls:
    """Sends that wait for their last replies, the oldest first. Spec: tree_layer 6.4."""

    _open: dict[str, Call] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, call: Call) -> None:
        """Register a send that waits for replies."""
        self._open[call.name] = call

    def reply(self, name: str, reply: RoleReply) -> None:
        """Pass a reply to a send, unless that no longer waits."""
        call = self._open.get(name)
        if call is None:
            return
        call.replies.append(reply)
        if reply.is_last:
            del self._open[name]

    def refuse(self, refused: Refused) -> bool:
        """Report why the node refused something; return whether it was one of these sends."""
        call = self._open.pop(refused.call, None)
        if call is not None:
            call.refusal = refused
        return call is not None

    def end_all(self, cause: Cause | None) -> None:
        """End all waiting sends with a null: the node has forgotten them."""
        for name in list(self._open):
            self._null(name, cause)

    def end_old(self, now_ms: int) -> None:
        """End sends so old that the node will no longer answer them."""
        while self._open:
            name, call = next(iter(self._open.items()))
            if now_ms - call.began_ms < ENDED_MS:
                return
            self._null(name, Cause.SWEPT)

    def _null(self, name: str, cause: Cause | None) -> None:
        self.reply(name, RoleReply(ReplyKind.NULL, None, is_last=True, cause=cause))


@dataclass(frozen=True, slots=True)
class RoleMessage:
    """A message for a role of this application.

    Attributes:
        address: Tree, as its UUID, and role.
        wants_answer: Whether somebody waits; otherwise an answer would be refused.
        is_endpoint: Nobody further on gets it, as far as is known.
        hops: Links that it crossed.
    """

    address: Address
    payload: bytes
    header: bytes
    protocol: str
    wants_answer: bool
    is_endpoint: bool
    hops: int
    _delivered: Delivered = field(repr=False)
    _roles: Application = field(repr=False)

    def answer(self, payload: bytes | None = None, *, is_last: bool = True) -> None:
        """Answer; None is an answer without content. Nothing follows the last answer.

        A sender that requested the role, and gets an answer without a grant, is denied it.
        """
        check_flags(is_last=is_last)
        mid = self._delivered.mid
        self._roles.say(AnswerGiven(self._roles.app, mid, payload, is_last))

    def grant(self, payload: bytes | None = None, *, give_up: bool, role: str = "") -> None:
        """Answer, and give the sender the role.

        Args:
            payload: As in `answer`.
            give_up: Release it here: it moves. Otherwise the sender gets the role too.
            role: Which one, if not that of the message.
        """
        check_flags(give_up=give_up)
        given = AnswerGiven(
            self._roles.app, self._delivered.mid, payload, grants=True, gives_up=give_up,
            granted=role,
        )  # fmt: skip
        self._roles.say(given)


def reply_of(told: Answered) -> RoleReply:
    """Return an answer as applications see it."""
    data = told.items[0] if told.items else None
    payload = data if told.kind is ReplyKind.DATA else None
    return RoleReply(told.kind, payload, told.is_last, told.items, told.cause)


def message_of(told: Delivered, roles: Application) -> RoleMessage:
    """Return what was delivered as applications see it."""
    return RoleMessage(
        told.address,
        told.payload,
        told.header,
        told.protocol,
        told.wants_answer,
        told.is_endpoint,
        told.hops,
        _delivered=told,
        _roles=roles,
    )
