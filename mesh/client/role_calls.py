"""Sends of an application that wait for replies: each ends with one that is the last. Spec: 6.4."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.client.role_messages import Call, RoleReply
from mesh.model.tree_apps import Refused
from mesh.model.tree_frames import Cause, ReplyKind

ENDED_MS = 720_000
"""A node ends within eleven minutes what nobody answers; what it has not told by then is lost."""


@dataclass(slots=True)
class Calls:
    """Those that wait, the oldest first."""

    _open: dict[str, Call] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, call: Call) -> None:
        """Have a send wait for replies."""
        self._open[call.name] = call

    def reply(self, name: str, reply: RoleReply) -> None:
        """Give a send a reply; one that waits no more gets none."""
        call = self._open.get(name)
        if call is None:
            return
        call.replies.append(reply)
        if reply.is_last:
            del self._open[name]

    def refuse(self, refused: Refused) -> bool:
        """Say why the node did not send something; return whether it was one of these."""
        call = self._open.pop(refused.call, None)
        if call is not None:
            call.refusal = refused
        return call is not None

    def end_all(self, cause: Cause | None) -> None:
        """End what waits with a null: the node does not know any more who asked."""
        for name in list(self._open):
            self._null(name, cause)

    def end_old(self, now_ms: int) -> None:
        """End what was sent so long ago that the node has nothing to say of it any more."""
        while self._open:
            name, call = next(iter(self._open.items()))
            if now_ms - call.began_ms < ENDED_MS:
                return
            self._null(name, Cause.SWEPT)

    def _null(self, name: str, cause: Cause | None) -> None:
        self.reply(name, RoleReply(ReplyKind.NULL, None, is_last=True, cause=cause))
