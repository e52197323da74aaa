"""The API over a simulated mesh: a real server on loopback; the test lets the mesh live."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mesh.api.app import application
from mesh.api.connection import Connection
from mesh.api.feed import Feed
from mesh.api.guard import Access
from mesh.api.live import Live
from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.operate.watch import Watch
from mesh.trees.settings import Settings
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Api:
    """A mesh, a server that shows it, and a client."""

    mesh: Mesh
    access: Access
    live: Live = field(init=False)
    feed: Feed = field(init=False)
    url: str = field(init=False)
    port: int = field(init=False)
    _server: uvicorn.Server = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.feed = Feed()
        mesh = self.mesh
        watch = Watch(
            mesh.topology,
            lambda _topology, names: {name: mesh.world.kafka[name] for name in names},
            mesh.now_ms,
            mesh.now_ms,
        )
        self.live = Live(watch, self._publish, lambda: mesh.now_ms() / 1000, mesh.pause)
        self.serve()

    def serve(self, *, port: int = 0, begun: bool = True) -> None:
        """Start the server.

        Args:
            port: Where; 0 is a free one.
            begun: Otherwise it answers that it still reads the mesh, until it looks at it.
        """
        self.feed = Feed()
        if not begun:
            self.live.begun.clear()
        app = _Counted(application(self.live, self.feed, self.access, has_page=True), self)
        config = uvicorn.Config(
            app,
            http=Connection,
            port=port,
            log_config=None,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        loop_is_set = threading.Event()

        def run() -> None:
            with asyncio.Runner() as runner:  # it ends what the server leaves running, too
                self._loop = runner.get_loop()
                loop_is_set.set()
                runner.run(self._server.serve())

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        loop_is_set.wait(PATIENCE_S)
        deadline = threading.Event()
        while not self._server.started:
            deadline.wait(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Stop the server; nothing listens any more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.feed.end)
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)

    _loop: asyncio.AbstractEventLoop = field(init=False)
    turn: threading.Lock = field(default_factory=threading.Lock)
    feeds: int = 0
    refused_feeds: int = 0
    is_mute: bool = False

    def _publish(self, changes: Mapping[str, Any]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.feed.publish, changes)

    def lives(self, seconds: int) -> None:
        """Let the mesh live, and look at it every second."""
        for _ in range(seconds):
            with self.turn:
                self.mesh.pause(1)
                self.live.look()

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=body, headers=named)
        opener = urllib.request.build_opener(_NoRedirects())
        try:
            with opener.open(request, timeout=PATIENCE_S) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def get(self, path: str) -> Any:
        answer = self.ask(f"/api/v1/{path}")
        assert answer.status == 200, answer.body
        return answer.data

    def refused(self, path: str, status: int, body: bytes | None = None, **headers: str) -> str:
        """Return the one line of a problem document."""
        answer = self.ask(path, body, **headers)
        assert answer.status == status, answer.body
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.data["status"] == status
        assert "Traceback" not in answer.data["detail"]
        return str(answer.data["detail"])

    def lets_all_go(self, within_s: float = PATIENCE_S) -> None:
        """Wait until no client is connected any more."""
        ends_s, tick = time.monotonic() + within_s, threading.Event()
        while self._server.server_state.connections:
            assert time.monotonic() < ends_s, "a client is still connected"
            tick.wait(0.01)

    def close(self) -> None:
        self.stop()
        self.live.watch.close()
        self.mesh.close()


class _Counted:
    """Answers while the simulated mesh stands still, and counts who follows the feed."""

    def __init__(self, app: ASGIApp, api: Api) -> None:
        self._app, self._api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_feed = scope["type"] == "http" and scope["path"].endswith("/events")
        if is_feed and scope["method"] == "GET":
            self._api.feeds += 1
            self._api.refused_feeds += not self._api.live.is_begun
            try:
                await self._app(scope, receive, self._unless_mute(send))
            finally:
                self._api.feeds -= 1
            return
        await asyncio.to_thread(self._api.turn.acquire)
        try:
            await self._app(scope, receive, send)
        finally:
            self._api.turn.release()

    def _unless_mute(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if not self._api.is_mute:
                await send(message)

        return sent


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


MakeApi = Callable[..., Api]


@pytest.fixture
def api_of() -> Iterator[MakeApi]:
    """`api_of(topology)`: a server that shows a mesh of that topology."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    made: list[Api] = []

    def make(
        topology: Topology,
        *,
        access: Access | None = None,
        begun: bool = True,
        runs: bool = True,
        trees: Settings | None = None,
    ) -> Api:
        api = Api(Mesh(topology, runs=runs, trees=trees), access or Access())
        made.append(api)
        if begun:
            api.live.look()
        return api

    yield make
    for api in made:
        api.close()


@pytest.fixture
def api(api_of: MakeApi) -> Api:
    """The chain a-b-c."""
    return api_of(topology_from_mapping(CHAIN))
