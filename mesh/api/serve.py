"""A server in a process of its own: one event loop, one thread that looks at the mesh."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn

from mesh.api.app import application
from mesh.api.connection import Connection
from mesh.api.feed import Feed
from mesh.api.guard import LOOPBACK, Access, is_loopback
from mesh.api.live import Live
from mesh.errors import ConfigError, Problem, wrong_input
from mesh.model.topology import Topology
from mesh.operate.watch import Watch
from mesh.transport import clock
from mesh.transport.port import KafkaCluster
from mesh.transport.probes import listener_at
from mesh.view.connection import open_kafka

M_ARENA_MAX, ARENAS = -8, 2
"""Of glibc's `mallopt`: from how many pools all threads take memory."""

COLLECTED = (50_000, 20, 20)
"""How many objects more than there were make Python look for cycles, and how often further."""

THREADS_MAX = 16
GRACE_S = 3
WAIT_S = 0.5


ROOT_PATH = re.compile(r"/|(/[\w.~-]+)+/?", re.ASCII)
HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
HOST = re.compile(r"[\w.-]+|(?:[0-9a-fA-F]*:){2,}[0-9a-fA-F:.]*", re.ASCII)
TOKEN = re.compile(r"[\x21-\x7e]+( +[\x21-\x7e]+)*")
ORIGIN = re.compile(r"https?://[\w.*-]+(:\d{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings of a server.

    Attributes:
        host, port: Where it listens; port 0 takes a free one.
        allowed_hosts: Further names by which clients call it.
        token, user_header, embedders, root_path, secure_cookie: See `mesh.api.guard.Access`.
        has_page: Whether the page is served beside the API.
    """

    host: str
    port: int
    allowed_hosts: Sequence[str] = ()
    token: str = ""
    user_header: str = ""
    embedders: Sequence[str] = ()
    root_path: str = ""
    secure_cookie: bool = False
    has_page: bool = True

    def access(self) -> Access:
        """Return who may ask.

        Raises:
            ConfigError: Anybody on the network could, without showing anything; or something has
                not the form that it must have, and would stand in headers and addresses.
        """
        if problems := list(self._misformed()):
            raise ConfigError(problems)
        if not is_loopback(self.host) and not (self.token or self.user_header):
            message = (
                "is not a loopback address, so everybody who reaches it could read all: set "
                "MESH_TOKEN, or name the header of a proxy that logs people in by --user-header"
            )
            raise wrong_input("--listen", message, code="NO_TOKEN")
        own = [self.host] if self.host not in ("", "0.0.0.0", "::") else []  # noqa: S104 - compared
        return Access(
            hosts=tuple(dict.fromkeys((*LOOPBACK, *own, *self.allowed_hosts))),
            token=self.token,
            user_header=self.user_header,
            embedders=self.embedders,
            root_path=self.root_path.rstrip("/"),
            secure_cookie=self.secure_cookie,
        )

    def _misformed(self) -> Iterator[Problem]:
        forms = (
            ("--root-path", filter(None, [self.root_path]), ROOT_PATH, "a path, as in /trellis"),
            ("--user-header", filter(None, [self.user_header]), HEADER, "the name of a header"),
            ("--allowed-host", self.allowed_hosts, HOST, "a name without a port"),
            ("--embed", self.embedders, ORIGIN, "an origin, as in https://portal.example.com"),
        )
        for where, given, form, wanted in forms:
            for text in given:
                if form.fullmatch(text) is None:
                    message = f"{text[:80]!r} is not {wanted}"
                    yield Problem(code="BAD_VALUE", message=message, where=where)
        if self.token and TOKEN.fullmatch(self.token) is None:  # which is not shown
            message = "has other letters than printable ASCII, which a header cannot bring"
            yield Problem(code="BAD_VALUE", message=message, where="MESH_TOKEN")


def serve(topology: Topology, settings: ServeSettings, announce: Callable[[str], None]) -> None:
    """Serve until told to stop by SIGINT or SIGTERM.

    Args:
        topology: The mesh, with the addresses of its Kafka clusters.
        settings: Where and to whom.
        announce: Told the address once it can be asked. What it raises ends the server: nobody
            would know where it is.

    Raises:
        ConfigError: The settings let everybody in, or no address of a Kafka cluster is known.
        StartError: The address cannot be listened on.
    """
    access = settings.access()
    listener = listener_at(settings.host, settings.port)
    share_memory()
    port = listener.getsockname()[1]
    shown = settings.host if settings.host not in ("", "0.0.0.0", "::") else "localhost"  # noqa: S104
    host = f"[{shown}]" if ":" in shown else shown
    with ThreadPoolExecutor(max_workers=THREADS_MAX) as pool:
        watch = Watch(topology, _open, clock.now_ms, clock.wall_ms, pool, gathers=True)
        asyncio.run(
            _run(
                watch,
                access,
                listener,
                has_page=settings.has_page,
                announce=lambda: announce(f"http://{host}:{port}{access.root_path}/"),
            )
        )


def share_memory() -> None:
    """Have all threads take memory from few pools: each of glibc's keeps what it was once given.

    There are threads enough here, of clients of Kafka above all, and none of them is in a hurry.
    """
    with suppress(OSError, AttributeError):  # another C library keeps memory in its own way
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def collect_seldom() -> None:
    """Have Python look for cycles seldom, and not among all that the start has made.

    What a look reads and what an answer is made of has none: it goes when nobody needs it.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTED)


async def _run(
    watch: Watch,
    access: Access,
    listener: socket.socket,
    *,
    has_page: bool,
    announce: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    feed = Feed()

    def publish(changes: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(feed.publish, changes)

    live = Live(watch, publish)
    config = uvicorn.Config(
        application(live, feed, access, has_page=has_page),
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, feed)
    live.start()
    announcing = asyncio.create_task(_announce_when(server, live, announce))
    announcing.add_done_callback(server.end_if_failed)
    try:
        await server.serve(sockets=[listener])
    finally:
        announcing.cancel()
        await asyncio.to_thread(live.stop)
    with suppress(asyncio.CancelledError):  # it was told to end before there was an address to tell
        await announcing


class _Server(uvicorn.Server):
    """Says when it listens, and lets those go who follow the feed before it waits for anybody."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()
        self._feed = feed

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End well at SIGINT and SIGTERM: the library's own way ends by the signal once more."""
        loop = asyncio.get_running_loop()
        wanted = (signal.SIGINT, signal.SIGTERM)
        for one in wanted:
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in wanted:
                loop.remove_signal_handler(one)

    def end_if_failed(self, task: asyncio.Task[None]) -> None:
        """End where a task has raised."""
        self.should_exit |= not task.cancelled() and task.exception() is not None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was asked, and stop listening."""
        self._feed.end()
        await super().shutdown(sockets)


async def _announce_when(server: _Server, live: Live, announce: Callable[[], None]) -> None:
    await server.listens.wait()
    while not await asyncio.to_thread(live.begun.wait, WAIT_S):
        pass  # in slices, for nothing ends a thread that waits
    collect_seldom()
    announce()


def _open(topology: Topology, names: Sequence[str]) -> Mapping[str, KafkaCluster]:
    return open_kafka(topology, names, client_prefix="mesh-api")
