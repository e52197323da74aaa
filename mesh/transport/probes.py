"""A port for probes and figures: one thread that no client can block. Source: RFC 9112.

Each client sends one GET or HEAD, and is disconnected. Clients that are slow to send, or to take
the answer, are dropped. If there are too many, the one that has been connected longest goes first:
a probe sends its request at once.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus

import h11

from mesh.errors import StartError, wrong_input

CLIENT_S = 5.0
"""How long a client may stay connected."""

CLIENTS_MAX = 100
"""Maximum number of clients at one time."""

HEAD_BYTES_MAX = 8_192
"""Maximum size of a client's request."""

PORT_MAX, PORT_DIGITS_MAX = 65_535, 5

PLAIN = "text/plain; charset=utf-8"

Answer = tuple[HTTPStatus, bytes, str]
"""Status, body and content type."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `:PORT` (everywhere) or `[IPV6]:PORT`.

    Raises:
        ConfigError: It has another form.
    """
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX
    if not colon or not is_number or int(port) > PORT_MAX:
        message = "write HOST:PORT, or :PORT for all addresses"
        raise wrong_input(f"--listen {text}", message, code="ADDRESS")
    return host.removeprefix("[").removesuffix("]"), int(port)


def listener_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one.

    Raises:
        StartError: The address is not available.
    """
    try:
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # the latter for names that no DNS can have
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        why = getattr(error, "strerror", None) or error
        text = f"cannot listen on {where}: {why}; name another address"
        raise StartError(text) from error
    return listener


class ProbeServer:
    """Serves answers over HTTP.

    Args:
        answer: Returns the response for a path; called by the server's thread.
    """

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        self._answer = answer
        self._clients: dict[asyncio.StreamWriter, None] = {}
        self._end: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, address: str) -> int:
        """Listen; return the port that was taken, which matters if 0 was requested.

        Raises:
            ConfigError: The address has another form.
            StartError: The address is not available.
        """
        listener = listener_at(*parse_address(address))
        self._end = asyncio.Event()
        port = int(listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._serve, args=(self._loop, self._end, listener), name="port", daemon=True
        )
        self._thread.start()
        return port

    def stop(self) -> None:
        """Stop listening."""
        if self._thread is not None and self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
            self._thread = self._loop = None

    def _serve(
        self, loop: asyncio.AbstractEventLoop, end: asyncio.Event, listener: socket.socket
    ) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until(end, listener))

    async def _until(self, end: asyncio.Event, listener: socket.socket) -> None:
        server = await asyncio.start_server(self._client, sock=listener, limit=HEAD_BYTES_MAX)
        await end.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients[writer] = None
        if len(self._clients) > CLIENTS_MAX:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(CLIENT_S):
                writer.write(await self._response(reader))
                writer.close()
                await writer.wait_closed()
        except (OSError, h11.ProtocolError):
            pass  # a client that disconnects concerns nobody
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    async def _response(self, reader: asyncio.StreamReader) -> bytes:
        """Return the response to a client; empty if it has gone, or its request has no end."""
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            while (asked := http.next_event()) is h11.NEED_DATA:
                http.receive_data(await reader.read(HEAD_BYTES_MAX))
        except h11.RemoteProtocolError as error:
            if error.error_status_hint != HTTPStatus.BAD_REQUEST:
                raise
            return _sent(http, HTTPStatus.BAD_REQUEST, b"this is no HTTP\n", PLAIN)
        if not isinstance(asked, h11.Request):
            return b""
        if asked.method not in (b"GET", b"HEAD"):
            return _sent(http, HTTPStatus.METHOD_NOT_ALLOWED, b"ask by GET\n", PLAIN)
        try:
            answer = self._answer(asked.target.decode())
        except Exception as error:  # noqa: BLE001  # it speaks for somebody who goes on
            text = f"no answer: {type(error).__name__}\n"
            answer = HTTPStatus.INTERNAL_SERVER_ERROR, text.encode(), PLAIN
        return _sent(http, *answer, is_head=asked.method == b"HEAD")


def _sent(
    http: h11.Connection, status: HTTPStatus, body: bytes, kind: str, *, is_head: bool = False
) -> bytes:
    """Return the bytes of the one answer that a connection gives."""
    headers = [
        ("Date", formatdate(usegmt=True)),
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        *([("Allow", "GET, HEAD")] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        ("Connection", "close"),
    ]
    response = h11.Response(status_code=status, headers=headers, reason=status.phrase)
    return (http.send(response) or b"") + (b"" if is_head else body)
