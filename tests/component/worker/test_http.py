"""The worker's port: probes that tell the truth, and figures of real workers in memory."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mesh.errors import ConfigError, StartError
from mesh.transport import probes
from mesh.transport.probes import CLIENTS_MAX, parse_address
from mesh.worker.http.server import DEAF_S, LIVE_S, Port
from mesh.worker.worker import Worker
from tests.component.worker.conftest import SmallMesh, subject

CERTIFICATE = Path(__file__).with_name("certificate.crt")


class Now:
    s = 100.0

    def __call__(self) -> float:
        return self.s


def worker_of(mesh: SmallMesh, node: str) -> Worker:
    return mesh.world.workers[node]


def port_of(mesh: SmallMesh, node: str) -> Port:
    port = Port(node)
    port.see(worker_of(mesh, node))
    return port


def samples(port: Port) -> dict[tuple[str, ...], float]:
    """Return every sample by name and label values in the order of the labels, without the node."""
    status, body, _ = port.answer("/metrics")
    assert status is HTTPStatus.OK
    return {
        (one.name, *(v for k, v in one.labels.items() if k != "node")): one.value
        for family in text_string_to_metric_families(body.decode())
        for one in family.samples
    }


def test_a_loop_that_stands_still_is_dead_and_not_ready(mesh: SmallMesh) -> None:
    """A process that hangs is started again; Kafka is not asked. Spec: DESIGN 4.2."""
    now = Now()
    port = Port("a", now)
    assert port.answer("/startupz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    port.see(worker_of(mesh, "a"))
    for path in ("/livez", "/startupz", "/readyz?verbose"):
        assert port.answer(path)[0] is HTTPStatus.OK
    now.s += LIVE_S - 0.1
    assert port.answer("/livez")[0] is HTTPStatus.OK
    now.s += 0.2
    assert LIVE_S < 30
    for path in ("/livez", "/startupz", "/readyz"):
        assert port.answer(path)[0] is HTTPStatus.SERVICE_UNAVAILABLE
    port.see(worker_of(mesh, "a"))
    assert port.answer("/livez")[0] is HTTPStatus.OK


def test_a_loop_that_waits_for_brokers_lives_and_nobody_else_speaks_for_it(
    mesh: SmallMesh,
) -> None:
    """A transaction of its own may take as long as a flush and an abort, each within a deadline."""
    now = Now()
    port = Port("a", now)
    port.see(worker_of(mesh, "a"))
    for _ in range(3):
        now.s += LIVE_S - 1
        assert port.answer("/livez")[0] is HTTPStatus.OK
        port.waited()
    now.s += LIVE_S - 1
    lane = threading.Thread(target=port.waited)  # commits of lanes are waited for elsewhere
    lane.start()
    lane.join()
    now.s += 2
    assert port.answer("/livez")[0] is HTTPStatus.SERVICE_UNAVAILABLE


def test_a_process_without_kafka_lives_and_is_not_ready(mesh: SmallMesh) -> None:
    """A glitch of the network must not have pods killed."""
    now = Now()
    port = Port("a", now)
    port.see(worker_of(mesh, "a"))
    for _ in range(20):
        now.s += 10
        port.forget()
        assert port.answer("/livez")[0] is HTTPStatus.OK
    assert port.answer("/readyz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    assert port.answer("/startupz")[0] is HTTPStatus.OK


def test_who_stands_by_without_kafka_is_not_ready(mesh: SmallMesh) -> None:
    """It could take over from nobody."""
    mesh.world.start("a", 1)
    mesh.run()
    now = Now()
    ports = {name: Port("a", now) for name in ("a", "a#1")}

    def ready(name: str) -> HTTPStatus:
        now.s += 2
        ports[name].see(worker_of(mesh, name))
        return ports[name].answer("/readyz")[0]

    assert [ready(name) for name in ports] == [HTTPStatus.OK] * 2
    mesh.kafka.available = False
    assert ready("a#1") is HTTPStatus.OK  # it may be slow
    now.s += DEAF_S
    assert ready("a#1") is HTTPStatus.SERVICE_UNAVAILABLE
    mesh.kafka.available = True
    mesh.run(1_000)
    assert ready("a#1") is HTTPStatus.OK


def test_figures_are_what_was_committed(mesh: SmallMesh) -> None:
    """Messages cross a-b and b-c, and what nobody wants stays where it is."""
    mesh.subscribe("c", "s", "acme/>")
    for number in range(7):
        mesh.publish(b"%d" % number, [subject("acme/eu")])
    mesh.run()
    found = samples(port_of(mesh, "a"))
    assert found["mesh_forwarded_messages_total", "guaranteed", "a-b"] == 7
    assert found["mesh_link_up", "a-b", "Z"] == 1
    assert found["mesh_link_state", "a-b", "up"] == 1
    assert found["mesh_link_state", "a-b", "down"] == 0
    assert found["mesh_node_ready",] == 1
    assert found["mesh_lanes_owned",] == found["mesh_lanes_assigned",] == 1
    assert found["mesh_commits_total",] > 0
    assert found["mesh_interest_filters", "a-b"] >= 1
    assert found["mesh_link_lag_records", "ingress"] == 0
    middle = samples(port_of(mesh, "b"))
    assert middle["mesh_forwarded_messages_total", "guaranteed", "b-c"] == 7
    assert middle["mesh_not_forwarded_total", "guaranteed", "a-b", "arrival_link"] == 7
    assert samples(port_of(mesh, "c"))["mesh_delivered_messages_total", "guaranteed"] == 7


def test_no_label_grows_with_use(mesh: SmallMesh) -> None:
    """Subjects and endpoints come by the thousand."""
    before = len(samples(port_of(mesh, "a")))
    for number in range(50):
        mesh.subscribe("a", f"e{number}", f"acme/{number}")
        mesh.publish(b"", [subject(f"acme/{number}")])
    mesh.run()
    assert len(samples(port_of(mesh, "a"))) <= before + 6
    assert "acme" not in port_of(mesh, "a").answer("/metrics")[1].decode()


@pytest.fixture
def served(mesh: SmallMesh) -> Iterator[str]:
    port = port_of(mesh, "a")
    number = port.start("127.0.0.1:0")
    yield f"http://127.0.0.1:{number}"
    port.stop()


def at(served: str) -> tuple[str, int]:
    host, _, number = served.removeprefix("http://").partition(":")
    return host, int(number)


def test_it_answers_over_http_whatever_other_clients_do(served: str) -> None:
    """More than may stay say nothing: no probe waits for them, and none of them gets a thread."""
    threads = threading.active_count()
    with ExitStack() as silent:
        for _ in range(CLIENTS_MAX + 20):
            client = silent.enter_context(socket.create_connection(at(served)))
            client.sendall(b"GET /livez")
        with urllib.request.urlopen(f"{served}/livez", timeout=4) as answer:
            assert answer.read().startswith(b"ok: the loop went round")
        with urllib.request.urlopen(f"{served}/metrics", timeout=4) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert threading.active_count() == threads
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{served}/etc/passwd", timeout=4)
    assert caught.value.code == HTTPStatus.NOT_FOUND


def test_a_client_that_asks_letter_by_letter_is_let_go(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of what it asks has to come in time, not each part of it."""
    monkeypatch.setattr(probes, "CLIENT_S", 0.2)
    end_s = time.monotonic() + 10
    with socket.create_connection(at(served), timeout=0.05) as slow, suppress(ConnectionError):
        while time.monotonic() < end_s:
            slow.sendall(b"x")
            with suppress(TimeoutError):
                if slow.recv(1) == b"":
                    break
        else:
            pytest.fail("it is still there")


@pytest.mark.parametrize(
    ("asked", "status", "has_body"),
    [
        (b"HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n", b"200 OK", False),
        (b"POST /livez HTTP/1.1\r\nHost: a\r\n\r\n", b"405 Method Not Allowed", True),
        (b"\x16\x03\x01 \xff\r\n\r\n", b"400 Bad Request", True),
        (b"GET /" + b"x" * 100_000, b"", False),
    ],
)
def test_whatever_is_asked_is_answered_or_let_go(
    served: str, asked: bytes, status: bytes, has_body: bool
) -> None:
    with socket.create_connection(at(served), timeout=4) as client:
        got = b""
        with suppress(ConnectionError):  # of who is let go before all was read
            client.sendall(asked)
            while part := client.recv(4_096):
                got += part
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.partition(b"\r\n")[0].removeprefix(b"HTTP/1.1 ") == status
    assert bool(body) == has_body


def test_a_port_in_use_is_one_line(served: str) -> None:
    with pytest.raises(StartError, match=r"cannot listen on 127\.0\.0\.1:.* in use; name another"):
        Port("b").start(served.removeprefix("http://"))
    with pytest.raises(StartError, match=r"cannot listen on nowhere\.invalid:1"):
        Port("b").start("nowhere.invalid:1")
    with pytest.raises(StartError, match=r"cannot listen on a\.\.b:1"):
        Port("b").start("a..b:1")


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8080", ("", 8080)), ("h:1", ("h", 1)), ("[::1]:8080", ("::1", 8080)), ("h:0", ("h", 0))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "8080", "h:", "h:x", "h:70000", "h:-1", "h:٣", "h:" + "9" * 5_000]
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        parse_address(text)


def test_figures_can_be_written_as_json(mesh: SmallMesh) -> None:
    """Nothing of the worker itself hangs on them: other threads read them."""
    figures = port_of(mesh, "b").figures
    assert figures is not None
    assert json.dumps(figures.behind)
    before = dict(figures.accounts.forwarded)
    mesh.publish(b"x", [subject("acme/eu")])
    mesh.run()
    assert figures.accounts.forwarded == before


def test_certificates_are_told_by_their_end_and_followed_when_they_are_replaced(
    tmp_path: Path,
) -> None:
    """The first to end counts; what is no certificate, or not there, is no figure."""
    port, file = Port("a"), tmp_path / "user.crt"
    name = ("mesh_tls_certificate_end_seconds", "k")
    port.certificates = {"k": [tmp_path / "gone", file], "other": [tmp_path / "password"]}
    (tmp_path / "password").write_text("secret")
    assert name not in samples(port)
    file.write_text(CERTIFICATE.read_text(encoding="utf-8"))
    assert samples(port)[name] > 4e9
    assert ("mesh_tls_certificate_end_seconds", "other") not in samples(port)
