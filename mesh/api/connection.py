"""One connection of a client: who hangs is let go, and what is no HTTP gets a problem document.

Source: RFC 9457.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from mesh.api.problems import problem
from mesh.errors import Problem

HUNG_S = 30.0
"""Who asks nothing, or takes nothing of an answer, for so long is let go: each holds a file open,
and a server has so many."""


class Connection(H11Protocol):
    """What the server does with a connection, but for clients that hang or speak no HTTP."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a client, and look now and then whether it hangs."""
        super().connection_made(transport)
        self._look(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Look no more."""
        self._looking.cancel()
        super().connection_lost(error)

    def _look(self, before: tuple[RequestResponseCycle | None, int] | None) -> None:
        untaken = self.transport.get_write_buffer_size()
        is_to_ask = self.cycle is None or self.cycle.response_complete
        if (is_to_ask or untaken) and before == (self.cycle, untaken):
            self.transport.abort()
            return
        self._looking = self.loop.call_later(HUNG_S, self._look, (self.cycle, untaken))

    def send_400_response(self, msg: str) -> None:
        """Refuse, unless an answer is on its way already, and let the client go."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = " ".join(msg.split()).rstrip(".")
            answer = problem(400, text, [Problem(code="BAD_REQUEST", message=text)])
            headers = [*answer.raw_headers, (b"connection", b"close")]
            start = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for part in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()
