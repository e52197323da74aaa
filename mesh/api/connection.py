"""One connection of a client: what is no HTTP gets a problem document, too. Source: RFC 9457."""

from __future__ import annotations

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mesh.api.problems import problem
from mesh.errors import Problem


class Connection(H11Protocol):
    """What the server does with a connection, but for how it refuses what it cannot read."""

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
