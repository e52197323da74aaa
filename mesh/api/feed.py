"""One feed of changes for all viewers: numbered, kept for a while, written out once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from json import dumps
from secrets import token_hex
from typing import Any

from sse_starlette import ServerSentEvent

PING_S = 15
"""How often a viewer of a mesh at rest is told that the feed lives."""

KEPT_MAX = 600
"""Changes that can be had again after a cut: ten minutes at one a second."""


class Feed:
    """Changes of the mesh, in order. Used by one event loop.

    The name of a run stands in each id: after a restart nobody goes on from a number that now
    means something else.
    """

    def __init__(self) -> None:
        self._run = token_hex(4)
        self._last = 0
        self._kept: deque[tuple[int, str]] = deque(maxlen=KEPT_MAX)
        self._news = asyncio.Event()
        self._is_over = False

    def publish(self, changes: Mapping[str, Any]) -> None:
        """Hand a change to everybody."""
        self._last += 1
        self._kept.append((self._last, dumps(changes, ensure_ascii=False, separators=(",", ":"))))
        self._wake()

    def end(self) -> None:
        """Let every viewer go."""
        self._is_over = True
        self._wake()

    @property
    def here(self) -> Mapping[str, Any]:
        """Where the feed stands: the id of its last change, and how often it says that it lives."""
        return {"id": f"{self._run}-{self._last}", "ping_s": PING_S}

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def follow(self, last_id: str = "") -> AsyncIterator[ServerSentEvent]:
        """Yield where the feed stands, or what was missed, then every change as it comes.

        Args:
            last_id: The id that the viewer saw last; empty for a new one.
        """
        position = self._position(last_id)
        if position is None:
            # A viewer that was away for too long, or comes from another run, reads all again.
            position = self._last  # before it is handed out: changes come while somebody takes it
            yield self._standing("reset" if last_id else "here")
        while not self._is_over:
            news = self._news
            if self._kept and self._kept[0][0] > position + 1:
                # So does one that took nothing for so long, although it never went away.
                position = self._last
                yield self._standing("reset")
                continue  # it may have taken as long to take that
            for number, text in [one for one in self._kept if one[0] > position]:
                yield self._event("change", number, text)
                position = number
            await news.wait()

    def ping(self, idle_s: float) -> ServerSentEvent:
        """Return what says that the feed lives: an event, for browsers hide comments from pages.

        Args:
            idle_s: For how long nobody has looked at the mesh: a feed may outlive that.
        """
        return ServerSentEvent(data=dumps({"idle_s": round(max(0.0, idle_s), 1)}), event="ping")

    def _position(self, last_id: str) -> int | None:
        run, _, number = last_id.partition("-")
        if run != self._run or not number.isdecimal() or not number.isascii():
            return None
        position = int(number)
        oldest = self._kept[0][0] if self._kept else self._last + 1
        return position if oldest - 1 <= position <= self._last else None

    def _standing(self, kind: str) -> ServerSentEvent:
        return self._event(kind, self._last, dumps({"ping_s": PING_S}))

    def _event(self, kind: str, number: int, text: str) -> ServerSentEvent:
        return ServerSentEvent(data=text, event=kind, id=f"{self._run}-{number}")
