"""The sessions of a node: those that are open, and those that ended just now.

Who else must find them, by role or by application, finds them without looking at all.
Spec: tree_layer 6.6 (H9).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.trees import Address, MessageId
from mesh.trees.records import Session

SESSION_BYTES = 1_500
"""What an open session takes beside what it carries."""


@dataclass(slots=True)
class Sessions:
    """Sessions that are kept, in the order in which they came.

    Attributes:
        open: Those that wait for somebody.
        closed: Those that have ended, and may begin again.
        by_address: Role -> open ones for it.
        concern: Application -> open ones that it began or was given.
        calls: What applications here wait for.
        begun: How many messages came here, or began here.
        bytes_kept: What the open ones come to.
    """

    open: dict[MessageId, Session] = field(default_factory=dict)
    closed: dict[MessageId, Session] = field(default_factory=dict)
    by_address: dict[Address, dict[MessageId, Session]] = field(default_factory=dict)
    concern: dict[str, dict[MessageId, Session]] = field(default_factory=dict)
    calls: dict[tuple[str, str], None] = field(default_factory=dict)
    begun: int = 0
    bytes_kept: int = 0

    def known(self, mid: MessageId) -> Session | None:
        """Return the session of a message, open or closed."""
        return self.open.get(mid) or self.closed.get(mid)

    def call(self, session: Session) -> None:
        """Note that an application here waits for what a session brings."""
        self.calls[session.app, session.call] = None

    def end_call(self, session: Session) -> None:
        """Note that it waits no more."""
        self.calls.pop((session.app, session.call), None)

    def enter(self, session: Session) -> None:
        """Take a session among the open ones."""
        if not session.number:
            self.begun += 1
            session.number = self.begun
        self.open[session.mid] = session
        session.bytes_kept = SESSION_BYTES + len(session.payload) + len(session.header)
        self.bytes_kept += session.bytes_kept
        self.by_address.setdefault(session.address, {})[session.mid] = session
        if session.came_by is None:
            self.concerns(session, session.app)

    def concerns(self, session: Session, app: str) -> None:
        """Note that an open session must end, or go on, when an application lives no more."""
        self.concern.setdefault(app, {})[session.mid] = session

    def keep_more(self, session: Session, size: int) -> None:
        """Count what an open session keeps beside what it began with."""
        session.bytes_kept += size
        self.bytes_kept += size

    def leave(self, session: Session) -> bool:
        """Take a session out of the open ones, for it has ended; return whether it was there."""
        session.is_closed = True
        if self.open.pop(session.mid, None) is None:
            return False
        self.bytes_kept -= session.bytes_kept
        of_role = self.by_address[session.address]
        del of_role[session.mid]
        if not of_role:
            del self.by_address[session.address]
        for app in {session.app: None, **dict.fromkeys(session.offered.values())}:
            of_app = self.concern.get(app, {})
            if of_app.pop(session.mid, None) is not None and not of_app:
                del self.concern[app]
        return True

    def keep_closed(self, session: Session, now_ms: int) -> None:
        """Keep a session that has ended, for it may begin again."""
        session.closed_ms = now_ms
        self.closed[session.mid] = session

    def forget(self, session: Session) -> None:
        """Keep a session no longer that has ended."""
        del self.closed[session.mid]

    def reopen(self, session: Session) -> None:
        """Take a session among the open ones again."""
        del self.closed[session.mid]
        session.is_closed = False
        self.enter(session)
