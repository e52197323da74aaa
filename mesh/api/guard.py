"""Who may ask, under which name, and what browsers may do with the answers.

On loopback nobody logs in. Elsewhere a token is asked for, or the header of a proxy that the
operator names. The `Host` of a request is checked, or a page from elsewhere could have its own name
lead to this address (DNS rebinding) and read everything. What a browser asks for in the name of a
page of another site (`Sec-Fetch-Site`) is refused, links to the page apart.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from ipaddress import ip_address
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mesh.api.problems import problem
from mesh.errors import Problem

PROBES = ("/livez", "/readyz", "/startupz")
LOGIN = "/login"
FEED = "/events"
"""The one answer that has no end."""

STYLE = "/static/page.css"
COOKIE = "mesh_session"
BODY_BYTES_MAX = 1_100_000
"""A topology file may have a mebibyte."""

REQUESTS_MAX = 500
"""Requests, feeds among them, that are answered at one time."""

DROPPED_BYTES_MAX, DROPPED_WITHIN_S = 16 << 20, 2.0
"""How much of a larger body is read, and for how many seconds, before it is refused."""

LOGIN_BYTES_MAX, LOGIN_WITHIN_S = 10_000, 10.0
"""A token is shorter, and comes at once: one that has none yet must not hold others up."""

API = "/api/v1/"
OWN = (API, "/static/")
"""Where most of our paths begin."""

DOCUMENT, FRAMES = "document", ("iframe", "frame")
"""What a browser shows an answer in: a window or tab of its own, or a part of another page."""

HOST_HEADER = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::[0-9]*)?", re.IGNORECASE)

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask.

    Attributes:
        hosts: Names by which clients may call this server.
        token: What clients show; empty if nobody needs one.
        user_header: Header by which a proxy in front says who asks; empty without one.
        embedders: Origins whose pages may show ours in a frame.
        root_path: Where a proxy serves this, as in `/trellis`; empty at its root.
        secure_cookie: Whether browsers send the login over HTTPS alone. Said, not guessed: what a
            request tells of a proxy in front anybody could write.
    """

    hosts: Sequence[str] = LOOPBACK
    token: str = ""
    user_header: str = ""
    embedders: Sequence[str] = ()
    root_path: str = ""
    secure_cookie: bool = False

    @property
    def session(self) -> str:
        """What the cookie of somebody who showed the token holds; it does not give it away."""
        return hmac.new(self.token.encode(), b"mesh session", sha256).hexdigest()

    @property
    def policy(self) -> str:
        """The content security policy of the page."""
        frames = " ".join(self.embedders) or "'none'"
        return (
            "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; "
            f"frame-ancestors {frames}"
        )


async def _drop(receive: Receive) -> None:
    """Take in some of a body that nobody reads: who still sends then sees no answer."""
    left = DROPPED_BYTES_MAX
    with suppress(TimeoutError):
        async with asyncio.timeout(DROPPED_WITHIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets those through who may ask, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._running = 0
        self._hosts = {host.lower(): None for host in access.hosts}
        below = f"{access.root_path}/"
        # A path that is the beginning of one of ours is always taken off by who is in front.
        self._below = "" if any(one.startswith(below) for one in OWN) else below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        scope = self._at_root(scope)
        if scope["method"] == "HEAD" and not scope["path"].endswith(FEED):
            scope = {**scope, "method": "GET"}  # the server itself sends no more than the head

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._set_headers(MutableHeaders(scope=message))
            await send(message)

        self._running += 1
        try:
            answer = await self._refusal(scope, receive)
            await (answer or self._app)(scope, receive, guarded)
        finally:
            self._running -= 1

    def _at_root(self, scope: Scope) -> Scope:
        """Take off the path that this is served below, where nobody in front has done it."""
        path, below = scope["path"], self._below
        if not below or not f"{path}/".startswith(below):
            return scope
        return {**scope, "path": f"/{path[len(below) :]}"}

    def _set_headers(self, headers: MutableHeaders) -> None:
        headers["Content-Security-Policy"] = self._access.policy
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "no-referrer"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        path, headers = scope["path"], Headers(scope=scope)
        if path in PROBES:
            return None  # however many others ask
        if self._running > REQUESTS_MAX:
            return problem(503, f"{REQUESTS_MAX} requests and feeds are open; ask again later")
        host = _host_of(headers.get("host", ""))
        if host not in self._hosts:
            text = f"this server does not answer under the name {host[:80]!r}; see --allowed-host"
            return problem(421, text, [Problem(code="HOST", message=text)])
        if self._is_for_another_site(scope, headers):
            text = "what a page of another site asks for is not answered; open the page itself"
            return problem(403, text, [Problem(code="CROSS_SITE", message=text)])
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > BODY_BYTES_MAX:
            await _drop(receive)
            text = f"the body has {length[:20]} bytes, and at most {BODY_BYTES_MAX} are read"
            return problem(413, text, [Problem(code="TOO_LARGE", message=text)])
        if not self._access.token and not self._access.user_header:
            return None
        request = Request(scope, receive)
        if path == LOGIN and self._access.token:
            return await self._login(request)
        if path == STYLE and request.method == "GET":
            return None  # the form looks like the page; it tells nothing of a mesh
        if self._may_ask(request):
            return None
        if not self._access.token:
            text = f"the proxy in front of this server sent no {self._access.user_header}"
            return problem(401, text, [Problem(code="USER_HEADER", message=text)])
        if request.method == "GET" and "text/html" in headers.get("accept", ""):
            query = f"?{request.url.query}" if request.url.query else ""
            asked = "" if path == "/" else "?" + urlencode({"to": f"{path}{query}"})
            return RedirectResponse(f"{self._access.root_path}{LOGIN}{asked}", status_code=303)
        text = "give the token: Authorization: Bearer TOKEN"
        answer = problem(401, text, [Problem(code="TOKEN", message=text)])
        answer.headers["WWW-Authenticate"] = 'Bearer realm="mesh"'
        return answer

    def _is_for_another_site(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a browser asks in the name of a page elsewhere, other than by a link.

        That page could read no answer, but have one browser after another keep this server busy,
        by hidden frames as well. Links lead to the page, and a portal may frame that.
        Source: Fetch Metadata Request Headers, W3C.
        """
        if headers.get("sec-fetch-site") != "cross-site":
            return False
        shown_in = headers.get("sec-fetch-dest", DOCUMENT)
        is_shown = shown_in == DOCUMENT or (shown_in in FRAMES and bool(self._access.embedders))
        is_link = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        return not (is_link and is_shown) or scope["path"].startswith(API)

    def _may_ask(self, request: Request) -> bool:
        access = self._access
        if access.user_header and request.headers.get(access.user_header, "").strip():
            return True
        if not access.token:
            return False
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        shown = shown.strip() if scheme.lower() == "bearer" else ""
        cookie = request.cookies.get(COOKIE, "")
        return _is_same(shown, access.token) or _is_same(cookie, access.session)

    async def _login(self, request: Request) -> Response:
        to = _local(request.query_params.get("to", "/"))
        if request.method == "GET":
            return self._form("", to)
        if request.method != "POST":
            refused = problem(405, f"{request.method[:20]} is not what this path answers")
            refused.headers["Allow"] = "GET, POST"
            return refused
        body = b""
        try:
            async with asyncio.timeout(LOGIN_WITHIN_S):
                async for part in request.stream():
                    body += part
                    if len(body) > LOGIN_BYTES_MAX:
                        return problem(413, "a token is shorter")
        except TimeoutError:
            return problem(408, f"no token came within {LOGIN_WITHIN_S:g} s")
        except ClientDisconnect:
            return problem(400, "there is nobody to answer")
        shown = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if not _is_same(shown, self._access.token):
            return self._form("That is not the token.", to, status=401)
        answer = RedirectResponse(f"{self._access.root_path}{to}", status_code=303)
        answer.set_cookie(
            COOKIE,
            self._access.session,
            httponly=True,
            samesite="lax",  # nothing can be changed here, and links from chats lead here
            secure=self._access.secure_cookie,
            path=self._access.root_path or "/",
        )
        return answer

    def _form(self, fault: str, to: str, *, status: int = 200) -> HTMLResponse:
        root = escape(self._access.root_path)
        action = escape(f"{self._access.root_path}{LOGIN}?{urlencode({'to': to})}")
        told = f'<p role="alert">{escape(fault)}</p>' if fault else ""
        return HTMLResponse(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in</title>'
            '<meta name="viewport" content="width=device-width">'
            f'<link rel="stylesheet" href="{root}/static/page.css"></head>'
            f'<body class="login"><main><h1>Trellis</h1>{told}'
            f'<form method="post" action="{action}"><label for="token">Token</label>'
            '<input id="token" name="token" type="password" autocomplete="current-password" '
            'required autofocus><button type="submit">Log in</button></form></main></body></html>',
            status_code=status,
        )


def _local(to: str) -> str:
    """Return where to go on after a login: a path of this server, and of no other."""
    is_local = to.startswith("/") and not to.startswith("//")
    return to if is_local and to.isprintable() and "\\" not in to else "/"


def _host_of(header: str) -> str:
    """Return the name of a `Host` header without its port; empty if it has another form."""
    found = HOST_HEADER.fullmatch(header)
    return found[1].strip("[]").lower() if found else ""


def _is_same(one: str, other: str) -> bool:
    return bool(other) and hmac.compare_digest(one.encode(), other.encode())
