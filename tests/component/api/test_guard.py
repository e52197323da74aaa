"""Who may ask, by which name, and what browsers are told."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.types import Message, Receive, Scope, Send

from mesh.api.guard import Access, Guard
from mesh.api.serve import ServeSettings
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import CHAIN
from tests.patience import PATIENCE_S

TOKEN = "a long token"


@pytest.fixture
def guarded(api_of: MakeApi) -> Api:
    """A server that wants a token."""
    return api_of(topology_from_mapping(CHAIN), access=Access(token=TOKEN))


def test_a_strange_name_is_refused(api: Api) -> None:
    """A page from elsewhere whose name leads here reads nothing; probes are exempt."""
    assert "evil.test" in api.refused("/api/v1/nodes", 421, Host="evil.test:80")
    assert api.ask("/api/v1/nodes", Host="LOCALHOST:1").status == 200
    for odd in ("localhost:80@evil.test", "[::1]evil.test", "localhost:x", "", ":80", "[localhost"):
        api.refused("/api/v1/nodes", 421, Host=odd)
    assert api.ask("/api/v1/nodes", Host="[::1]:8080").status == 200
    assert api.ask("/livez", Host="10.1.2.3:8080").status in (200, 503)


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_told_in_the_same_form(api: Api, request_: bytes) -> None:
    """Every error is a problem document, also one that comes before any path is known."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_S) as sent:
        sent.sendall(request_)
        head, _, body = b"".join(iter(partial(sent.recv, 65_536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in head.lower()
    assert json.loads(body)["problems"][0]["code"] == "BAD_REQUEST"


@pytest.mark.parametrize("path", ["/", "/livez", "/static/page.css", "/api/v1/nodes", "/nothing"])
def test_who_asks_for_the_head_gets_that(api: Api, path: str) -> None:
    """Monitors do, and `curl -I`. Source: RFC 9110, 9.1."""
    whole = api.ask(path)
    connection = HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    for _ in range(2):  # the connection goes on: nothing of a body was left in it
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (whole.status, b"")
        assert answer.headers["content-type"] == whole.headers["content-type"]
        assert answer.headers["content-length"] == str(len(whole.body))
    connection.request("HEAD", "/api/v1/events")  # which would not end
    assert connection.getresponse().status == 405
    connection.close()


def test_a_token_is_asked_for(guarded: Api) -> None:
    """As a header; a wrong one, none, and part of one are refused."""
    assert guarded.ask("/api/v1/nodes", Authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.ask("/api/v1/nodes", Authorization=f"bearer  {TOKEN}").status == 200
    for wrong in ("", "Bearer", "Bearer x", f"Bearer {TOKEN[:-1]}", "Basic abc", f"Basic {TOKEN}"):
        answer = guarded.ask("/api/v1/nodes", Authorization=wrong)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.ask("/openapi.json").status == 401
    assert guarded.ask("/livez").status in (200, 503)


def test_a_browser_logs_in_by_a_form(guarded: Api) -> None:
    """Navigation and the feed cannot send a header: a cookie, out of reach of scripts."""
    sent = guarded.ask("/map", Accept="text/html")
    assert (sent.status, sent.headers["location"]) == (303, "/login?to=%2Fmap")
    form = guarded.ask("/login")
    assert form.status == 200
    assert b'type="password"' in form.body
    wrong = guarded.ask("/login", urlencode({"token": "x"}).encode())
    assert wrong.status == 401
    assert "set-cookie" not in wrong.headers
    right = guarded.ask("/login", urlencode({"token": TOKEN}).encode())
    assert right.status == 303
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert TOKEN not in cookie
    assert "secure" not in cookie.lower()
    assert guarded.ask("/api/v1/nodes", Cookie=cookie.partition(";")[0]).status == 200
    assert guarded.ask("/api/v1/nodes", Cookie="mesh_session=x").status == 401


def test_a_login_is_asked_for_and_sent_and_nothing_else(guarded: Api) -> None:
    connection = HTTPConnection("127.0.0.1", guarded.port, timeout=PATIENCE_S)
    for method in ("PUT", "DELETE", "OPTIONS"):
        connection.request(method, "/login")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
        assert answer.headers["content-type"] == "application/problem+json"
        answer.read()
    connection.close()


def test_behind_https_the_login_goes_over_nothing_else(api_of: MakeApi, guarded: Api) -> None:
    """If the operator says so; what a request says of a proxy is not believed."""
    given = urlencode({"token": TOKEN}).encode()
    behind = api_of(topology_from_mapping(CHAIN), access=Access(token=TOKEN, secure_cookie=True))
    assert "; Secure" in behind.ask("/login", given).headers["set-cookie"]
    told = guarded.ask("/login", given, X_Forwarded_Proto="https").headers["set-cookie"]
    assert "; Secure" not in told


def test_a_link_leads_where_it_says_after_the_login(guarded: Api) -> None:
    """State lives in the address: who is sent one sees the same view, once the token is given."""
    sent = guarded.ask("/trace?id=mesh.a.in.g/0/0/7", Accept="text/html")
    login = sent.headers["location"]
    form = guarded.ask(login).body.decode()
    assert f'action="{login}"' in form
    assert guarded.ask("/static/page.css").status == 200
    assert guarded.ask("/static/main.js").status == 401
    right = guarded.ask(login, urlencode({"token": TOKEN}).encode())
    assert right.headers["location"] == "/trace?id=mesh.a.in.g/0/0/7"


@pytest.mark.parametrize(
    "to", ["//evil.example/", "https://evil.example/", "/\\evil.example", "", "/a\r\nX: y", "x"]
)
def test_a_login_leads_to_no_other_server(guarded: Api, to: str) -> None:
    login = f"/login?{urlencode({'to': to})}"
    right = guarded.ask(login, urlencode({"token": TOKEN}).encode())
    assert (right.status, right.headers["location"]) == (303, "/")


def test_a_proxy_may_say_who_asks(api_of: MakeApi) -> None:
    """Only by the header that the operator named."""
    access = Access(user_header="X-Forwarded-User")
    api = api_of(topology_from_mapping(CHAIN), access=access)
    assert api.ask("/api/v1/nodes", X_Forwarded_User="ada").status == 200
    assert api.ask("/api/v1/nodes", X_Forwarded_User=" ").status == 401
    assert api.ask("/api/v1/nodes", X_Remote_User="ada").status == 401
    for accept in ("text/html", "*/*"):
        refusal = api.refused("/api/v1/nodes", 401, Accept=accept)
        assert refusal == "the proxy in front of this server sent no X-Forwarded-User"


def test_beyond_loopback_somebody_must_be_asked_for() -> None:
    """Else the server does not start."""
    for host in ("0.0.0.0", "::", "", "10.0.0.1", "mesh.example"):
        with pytest.raises(ConfigError, match="MESH_TOKEN"):
            ServeSettings(host=host, port=1).access()
        assert ServeSettings(host=host, port=1, token="t").access().token == "t"
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        assert ServeSettings(host=host, port=1).access().token == ""


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"embedders": ["https://portal.example; script-src *"]}, "--embed"),
        ({"embedders": ["portal"]}, "--embed"),
        ({"embedders": ["https://portal.example\r\nX-Evil: 1"]}, "--embed"),
        ({"root_path": "trellis"}, "--root-path"),
        ({"root_path": "/a b"}, "--root-path"),
        ({"root_path": '/"><script>'}, "--root-path"),
        ({"user_header": "X User:"}, "--user-header"),
        ({"allowed_hosts": ["mesh.example:8080"]}, "--allowed-host"),
        ({"allowed_hosts": ["https://mesh.example"]}, "--allowed-host"),
        ({"allowed_hosts": ["ab:1"]}, "--allowed-host"),
        ({"allowed_hosts": [""]}, "--allowed-host"),
        ({"embedders": [""]}, "--embed"),
    ],
)
def test_what_would_stand_in_headers_must_have_their_form(
    given: dict[str, Any], where: str
) -> None:
    """One line that names the option; a policy is not written by whoever names a portal."""
    with pytest.raises(ConfigError) as caught:
        ServeSettings(host="127.0.0.1", port=1, **given).access()
    (problem,) = caught.value.problems
    assert problem.where == where
    assert "\n" not in problem.line()


def test_a_token_that_no_header_can_bring_is_refused_and_not_shown() -> None:
    """Otherwise nobody but browsers could ever log in, and nobody would know why."""
    for token in ("p\u00e4ssword", "two\nlines", "\udcff"):
        with pytest.raises(ConfigError) as caught:
            ServeSettings(host="127.0.0.1", port=1, token=token).access()
        (problem,) = caught.value.problems
        assert problem.where == "MESH_TOKEN"
        assert token not in problem.line()
    assert ServeSettings(host="127.0.0.1", port=1, token="a b+/=~").access().token == "a b+/=~"


def test_what_has_its_form_is_taken() -> None:
    """Origins with ports and wildcards, addresses of both kinds, paths of several parts."""
    access = ServeSettings(
        host="127.0.0.1",
        port=1,
        allowed_hosts=["mesh.example.com", "10.0.0.1", "fd00::1"],
        root_path="/tools/trellis/",
        user_header="X-Forwarded-User",
        embedders=["https://portal.example.com:8443", "https://*.example.com"],
    ).access()
    assert access.root_path == "/tools/trellis"
    assert "fd00::1" in access.hosts
    assert ServeSettings(host="127.0.0.1", port=1, root_path="/").access().root_path == ""


def test_browsers_load_nothing_from_elsewhere(api: Api) -> None:
    """The policy stands on every answer, and no origin is let in by CORS."""
    for path in ("/", "/api/v1/nodes", "/static/nothing.js", "/api/v1/nothing"):
        headers = api.ask(path, Origin="http://evil.test").headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "access-control-allow-origin" not in headers


def test_a_portal_may_show_it_in_a_frame(api_of: MakeApi) -> None:
    """If the operator names it."""
    access = Access(embedders=("https://portal.example",))
    api = api_of(topology_from_mapping(CHAIN), access=access)
    answer = api.ask("/?embed", **navigating("iframe"))
    assert answer.status == 200
    assert "frame-ancestors https://portal.example" in answer.headers["content-security-policy"]
    assert api.ask("/api/v1/events", **navigating("iframe")).status == 403


def test_probes_are_answered_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes would start a page anew because many look at it."""
    monkeypatch.setattr("mesh.api.guard.REQUESTS_MAX", 2)

    async def asked() -> list[int]:
        done, told = asyncio.Event(), list[int]()

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            if scope["path"] == "/feed":
                await done.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard = Guard(app, Access())

        async def ask(path: str) -> None:
            async def receive() -> Message:
                return {"type": "http.request", "body": b""}

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    told.append(message["status"])

            host = [(b"host", b"localhost")]
            scope = {"type": "http", "method": "GET", "path": path, "headers": host}
            await guard(scope, receive, send)

        feeds = [asyncio.create_task(ask("/feed")) for _ in range(2)]
        await asyncio.sleep(0)
        await ask("/api/v1/nodes")
        await ask("/livez")
        done.set()
        await asyncio.gather(*feeds)
        await ask("/api/v1/nodes")
        return told

    assert asyncio.run(asked()) == [503, 200, 200, 200, 200]


def test_a_login_that_never_ends_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no token yet could else take all the requests that are answered at one time."""
    monkeypatch.setattr("mesh.api.guard.LOGIN_WITHIN_S", 0.0)

    async def asked(first: Message) -> int:
        messages, told = [first], list[int]()

        async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
            raise AssertionError("nobody may ask yet")

        async def receive() -> Message:
            if not messages:
                await asyncio.Event().wait()
            return messages.pop()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.append(message["status"])

        scope: Scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b""}
        scope["headers"] = [(b"host", b"localhost")]
        await Guard(app, Access(token=TOKEN))(scope, receive, send)
        return told[0]

    half = {"type": "http.request", "body": b"token=", "more_body": True}
    assert asyncio.run(asked(half)) == 408
    assert asyncio.run(asked({"type": "http.disconnect"})) == 400


BEGINNINGS = {
    "nothing": b"",
    "half a head": b"GET /livez HTTP/1.1\r\nHost: local",
    "a body without end": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
def test_who_asks_nothing_is_let_go(api: Api, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Strangers, too, could else hold all the files open that a server may have."""
    monkeypatch.setattr("mesh.api.connection.HUNG_S", 0.2)
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_S) as client:
        client.sendall(sent)
        for _ in iter(partial(client.recv, 65_536), b""):
            pass


def test_who_takes_nothing_of_an_answer_is_let_go(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would else hold for ever what it does not take."""
    monkeypatch.setattr("mesh.api.connection.HUNG_S", 0.2)
    asked = b"GET /static/page.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_S) as client:
        client.sendall(asked * 2_000)
        assert client.recv(1) == b"H"
        api.lets_all_go()


def test_who_follows_a_mesh_at_rest_is_not_let_go(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes there for long."""
    monkeypatch.setattr("mesh.api.connection.HUNG_S", 0.1)
    monkeypatch.setattr("mesh.api.routes.PING_S", 1)
    asked = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_S) as client:
        client.sendall(asked)
        told = b""
        while b"event: ping" not in told:
            more = client.recv(65_536)
            assert more
            told += more


@pytest.mark.parametrize(
    ("path", "mode", "body"),
    [
        ("/api/v1/nodes", "no-cors", None),
        ("/api/v1/events", "cors", None),
        ("/api/v1/plan", "no-cors", b"x"),
        ("/api/v1/plan", "navigate", b"x"),
    ],
)
def test_pages_of_other_sites_keep_no_server_busy(
    api: Api, path: str, mode: str, body: bytes | None
) -> None:
    """They read no answer, but have the browser of somebody on this machine ask for it."""
    told = api.refused(path, 403, body, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)
    assert "another site" in told


@pytest.mark.parametrize(
    ("path", "shown_in"),
    [("/api/v1/events", "iframe"), ("/api/v1/nodes", "document"), ("/", "frame"), ("/", "embed")],
)
def test_nor_do_frames_and_windows_of_other_sites(api: Api, path: str, shown_in: str) -> None:
    """A feed has no end, however small the frame is; links lead to the page."""
    told = api.refused(path, 403, **navigating(shown_in))
    assert "another site" in told


def navigating(shown_in: str) -> dict[str, str]:
    """What a browser says that goes to an address in the name of a page of another site."""
    fetch = {"Site": "cross-site", "Mode": "navigate", "Dest": shown_in}
    return {f"Sec_Fetch_{name}": value for name, value in fetch.items()}


def test_links_and_the_page_itself_are_answered(api: Api) -> None:
    """A link in a chat, what the page asks for, and programs."""
    assert api.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert api.ask("/", **navigating("document")).status == 200
    for site in ("same-origin", "same-site", "none"):
        answer = api.ask("/api/v1/nodes", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors")
        assert answer.status == 200
