"""`mesh.testing` in memory: what users' unit tests stand on."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from mesh.client import (
    ClosedError,
    Deliveries,
    LaggardsError,
    MeshClient,
    MeshError,
    Published,
)
from mesh.config.topology_file import load_topology
from mesh.config.topology_writer import write_topology
from mesh.errors import ConfigError, StartError
from mesh.lab.world import World
from mesh.model.topology import with_addresses
from mesh.testing.containers import MeshContainers
from mesh.testing.embedded import EmbeddedMesh
from mesh.testing.memory import InMemoryMesh
from mesh.testing.under_test import NotDeliveredError
from tests.patience import PATIENCE_S

EXAMPLE = Path(__file__).parents[3] / "examples" / "python"
PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def told_by_pytest(root: Path) -> str:
    """Return what pytest says below a folder, as a user starts it: outside of the checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    run = subprocess.run(
        [*command, "--rootdir", str(root), str(root)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def test_the_example_application_and_its_tests_work(tmp_path: Path) -> None:
    """With nothing but what is installed."""
    for file in EXAMPLE.glob("*.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    told = told_by_pytest(tmp_path)
    assert "4 passed" in told, told


def test_the_example_works_further_down_in_the_words_of_the_page(tmp_path: Path) -> None:
    """There pytest refuses plugins that a conftest.py names."""
    [line] = re.findall(r"`(from mesh\.testing\.fixtures import .*?)`", PAGE.read_text("utf-8"))
    folder = tmp_path / "shop" / "orders"
    folder.mkdir(parents=True)
    for file in EXAMPLE.glob("*.*"):
        text = file.read_text(encoding="utf-8")
        uppermost = 'pytest_plugins = ["mesh.testing.fixtures"]'
        (folder / file.name).write_text(text.replace(uppermost, line), encoding="utf-8")
    told = told_by_pytest(tmp_path)
    assert "4 passed" in told, told


def test_what_does_not_come_is_told_with_what_did() -> None:
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        mesh.publish("tk1", "acme/one", b"1")
        with pytest.raises(NotDeliveredError, match=r"1 of 2 messages came to pa1/e .*acme/one"):
            mesh.wait_delivered("pa1", "e", 2, timeout_s=3)


def test_an_endpoint_that_nobody_subscribes_is_told() -> None:
    """A slip of the pen would else look like a mesh that loses messages."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "orders", "acme/>")
        with pytest.raises(NotDeliveredError, match=r"nobody subscribes it; did you mean orders\?"):
            mesh.wait_delivered("pa1", "order", 1, timeout_s=1)
        mesh.subscribe("pa1", "orders", "other/>")  # one endpoint still, whatever it asks for
        with pytest.raises(NotDeliveredError, match=r"nobody subscribes it; known here: orders$"):
            mesh.wait_delivered("pa1", "bills", 1, timeout_s=1)


def test_a_mesh_that_does_not_run_says_so() -> None:
    """Whoever forgets the `with` is told of it, and not of topics; one object runs once."""
    mesh = InMemoryMesh(EXAMPLE / "mesh.yaml")
    uses = (
        lambda: mesh.publish("tk1", "acme/a", b"1"),
        lambda: mesh.subscribe("tk1", "e", "acme/>"),
        lambda: mesh.kill("tk1"),
        lambda: mesh.cut("tk1", "ny1"),
        lambda: mesh.restart("tk1"),
        mesh.heal,
        lambda: mesh.pass_time(1),
        lambda: mesh.get_bootstrap_server("tokyo"),
    )
    for use in uses:
        with pytest.raises(StartError, match="not started: use it in a `with`"):
            use()
    with mesh:
        with pytest.raises(StartError, match="was started before; make another one"):
            mesh.start()
        with pytest.raises(ConfigError, match="is in memory and has no address"):
            mesh.get_bootstrap_server("tokyo")
        with pytest.raises(ConfigError, match="no Kafka cluster is called 'tokio'; did you mean t"):
            mesh.get_bootstrap_server("tokio")
    for use in (*uses, mesh.start):
        with pytest.raises(StartError, match="make another one"):
            use()


def test_wrong_names_and_illegal_topologies_are_refused() -> None:
    links = {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["a", "c"]]}
    spec = {"kafka": {"k": {}}, "nodes": {n: {"kafka": "k"} for n in "abc"}, "zones": {"Z": links}}
    with pytest.raises(ConfigError, match="TWO_WALKS"):
        InMemoryMesh(spec)
    with InMemoryMesh(
        {**spec, "zones": {"Z": {**links, "links": [["a", "b"], ["b", "c"]]}}}
    ) as mesh:
        with pytest.raises(ConfigError, match="no node is called 'd'; known here: a, b, c"):
            mesh.client("d")
        with pytest.raises(ConfigError, match="a and c are no neighbours"):
            mesh.cut("a", "c")
        # A slip of the pen in these would make a test that proves nothing.
        for wrong in (mesh.kill, mesh.restart, partial(mesh.cut, "a"), lambda n: mesh.cut(n, "a")):
            with pytest.raises(ConfigError, match="no node is called 'd'; known here: a, b, c"):
                wrong("d")
        with pytest.raises(ConfigError, match="a was not killed"):
            mesh.restart("a")
        mesh.kill("a")
        mesh.kill("a")
        mesh.restart("a")


@pytest.mark.parametrize("given", [None, 5, b"mesh.yaml"])
def test_what_is_no_topology_is_told(given: object) -> None:
    """A fixture that forgets its `return` gives None."""
    with pytest.raises(TypeError, match="a topology is a Topology, the path of its file or a map"):
        InMemoryMesh(given)  # type: ignore[arg-type]


def test_a_whole_file_as_a_mapping_is_told() -> None:
    """`yaml.safe_load` of a topology file: each of its keys would be one that is not known."""
    with pytest.raises(ConfigError, match=r"give its path, or what stands under spec \[WHOLE_FILE"):
        InMemoryMesh({"apiVersion": "mesh/v1", "kind": "Mesh", "spec": {}})


def test_a_topology_that_was_only_read_must_be_legal_too() -> None:
    """A mesh that gives messages twice would prove nothing of an application."""
    illegal = EXAMPLE.parent / "topologies" / "illegal" / "fig36-short-cut.yaml"
    for form in (InMemoryMesh, EmbeddedMesh):
        with pytest.raises(ConfigError, match="TWO_WALKS"):
            form(load_topology(illegal))


def test_who_is_not_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is collected and not run makes its mesh all the same."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    EmbeddedMesh(EXAMPLE / "mesh.yaml").stop()
    MeshContainers(EXAMPLE / "mesh.yaml").stop()
    assert [*tmp_path.iterdir()] == []


def test_whoever_interrupts_the_end_of_an_embedded_mesh_leaves_no_folder(tmp_path: Path) -> None:
    """It has the data of brokers: impatient people would fill their disk."""

    class Fleet:
        def stop(self) -> None:
            raise KeyboardInterrupt

    mesh = EmbeddedMesh(EXAMPLE / "mesh.yaml")
    mesh._folder, mesh._fleet = tmp_path / "mesh", Fleet()  # type: ignore[assignment]
    mesh._folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        mesh.stop()
    assert [*tmp_path.iterdir()] == []


def test_a_docker_engine_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere")
    mesh = MeshContainers(EXAMPLE / "mesh.yaml")
    with pytest.raises(StartError, match=r"^no Docker engine answers: .*DOCKER_HOST.*is$"), mesh:
        pass
    with pytest.raises(StartError, match="is not started"):
        _ = mesh.network
    assert [*tmp_path.iterdir()] == []


def test_a_kafka_cluster_that_no_host_can_be_called_is_refused() -> None:
    """Its nodes would look for it in vain, for as long as they may take."""
    name = "k" * 64
    topology = {"kafka": {name: {}}, "nodes": {"n": {"kafka": name}}}
    with pytest.raises(ConfigError, match=rf"^spec.kafka.{name}: .* 63 characters or fewer"):
        MeshContainers(topology)


@pytest.mark.parametrize("image", ["kafka", "node", "mesh"])
def test_no_image_is_begun_where_no_engine_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    """Not after minutes of fetching, and not with a base image on the way."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere")
    command = [sys.executable, "-m", "mesh.testing", "build", image]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: no Docker engine answers: ")
    assert "DOCKER_HOST" in line


def test_who_lacks_the_extra_is_told_what_to_install() -> None:
    """Python's own words would name a package that nobody asked for."""
    program = "import sys; sys.modules['docker'] = None; import mesh.testing.containers"
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install 'FOLDER[testing]'" in told.stderr.splitlines()[-1]


def test_nodes_print_nothing_into_what_a_test_looks_at(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What they log is where pytest shows logs; who has set structlog up gets it there."""
    structlog.reset_defaults()
    try:
        with caplog.at_level("INFO"), InMemoryMesh(EXAMPLE / "mesh.yaml"):
            assert capsys.readouterr() == ("", "")
            assert "event='node.ready'" in caplog.text
        structlog.reset_defaults()
        structlog.configure(processors=[structlog.processors.JSONRenderer()])
        with InMemoryMesh(EXAMPLE / "mesh.yaml"):
            assert '"event": "node.ready"' in capsys.readouterr().out
    finally:
        structlog.reset_defaults()


def test_roles_are_served_as_in_production() -> None:
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        desk, asking = (
            mesh.client(node).roles(app) for node, app in (("pa1", "desk"), ("tk1", "asking"))
        )
        with desk, asking:
            desk.add("desk-7", "pricing")
            mesh.pass_time(1.0)
            call = asking.send("desk-7", "pricing", b"how much?")
            [message] = next(taken for _ in range(100) if desk.step() and (taken := desk.taken()))
            message.answer(b"42")
            assert [one.payload for one in call.wait() if one.payload] == [b"42"]


def test_however_often_a_test_publishes_it_is_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """On real Kafka each has threads and connections of its own."""
    opened: list[str] = []
    real = InMemoryMesh._open

    def counted(mesh: InMemoryMesh, node: str) -> MeshClient:
        opened.append(node)
        return real(mesh, node)

    monkeypatch.setattr(InMemoryMesh, "_open", counted)
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        for number in range(20):
            mesh.publish("tk1", "acme/one", b"%d" % number)
        mesh.wait_delivered("pa1", "e", 20)
        mesh.wait_delivered("pa1", "e", 0)
    assert sorted(opened) == ["pa1", "tk1"]


def test_a_unit_test_loads_neither_docker_nor_java_nor_spark() -> None:
    """Each form is imported by itself."""
    program = "import mesh.testing.memory, sys; print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(told.stdout.split())
    assert not loaded & {"testcontainers", "docker", "pyspark", "mesh.local.jars", "pytest"}


def test_all_that_is_there_comes_however_few_are_waited_for() -> None:
    """Else `[order] = wait_delivered(..., 1)` would not see that it came twice."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        mesh.publish("tk1", "acme/one", *[b""] * 2_500)
        assert len(mesh.wait_delivered("pa1", "e", 2_500)) == 2_500
        assert len(mesh.wait_delivered("pa1", "e", 1)) == 2_500


def test_whoever_expects_nothing_is_told_what_came() -> None:
    """`assert mesh.wait_delivered(..., 0) == []` would prove nothing otherwise."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        assert mesh.wait_delivered("pa1", "e", 0, timeout_s=3) == []
        mesh.publish("tk1", "acme/one", b"1")
        mesh.wait_delivered("pa1", "e", 1, timeout_s=10)
        assert [one.payload for one in mesh.wait_delivered("pa1", "e", 0, timeout_s=3)] == [b"1"]


def test_a_test_has_nothing_to_do_with_the_kafka_that_its_file_names(tmp_path: Path) -> None:
    """Embedded nodes would join the consumer groups of the real ones."""
    text = (EXAMPLE / "mesh.yaml").read_text()
    topology = load_topology(EXAMPLE / "mesh.yaml")
    real = with_addresses(topology, dict.fromkeys(topology.kafka, "kafka.example.com:9092"))
    file = tmp_path / "mesh.yaml"
    write_topology(real, file)
    assert "kafka.example.com" in file.read_text() != text
    for one in EmbeddedMesh(file).topology.kafka.values():
        assert one.options == {}


def test_leases_are_renewed_as_in_production() -> None:
    """Until the client is closed; then they run out."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        client, other = mesh.client("pa1"), mesh.client("pa1")
        client.wait(client.subscribe("orders", "acme/>", lease_s=3))
        mesh.pass_time(20)
        assert list(other.subscribed()) == [("orders", "acme/>")]
        client.close()
        mesh.pass_time(20)
        assert other.subscribed() == {}


def test_threads_that_wait_at_once_let_nodes_take_one_turn_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service in a thread of its own, beside the test: each has a client."""
    advance, inside = World.advance, threading.Lock()
    overlaps: list[str] = []

    def watched(world: World) -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(threading.current_thread().name)
            return
        try:
            time.sleep(0.0002)  # others have their chance
            advance(world)
        finally:
            inside.release()

    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "orders", "acme/>")
        readers = [mesh.client("pa1").deliveries("orders") for _ in range(3)]
        found: list[bytes | None] = []

        def work(reader: Deliveries) -> None:
            found.extend(one.payload for one in reader.read(60.0))

        monkeypatch.setattr(World, "advance", watched)
        threads = [threading.Thread(target=work, args=(one,)) for one in readers]
        for thread in threads:
            thread.start()
        mesh.publish("tk1", "acme/one", b"42")
        mesh.pass_time(1.0)
        for thread in threads:
            thread.join(PATIENCE_S)
    assert not overlaps
    assert found == [b"42"] * 3


def test_threads_may_wait_at_once_with_a_client_each() -> None:
    """Whoever lets time pass renews the leases of all, also of a client that is in use."""
    told: list[MeshError] = []

    def work(client: MeshClient) -> None:
        try:
            client.wait(10**9, timeout_s=5.0)
        except MeshError as error:
            told.append(error)

    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        threads = [threading.Thread(target=work, args=(mesh.client("pa1"),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert [type(error) for error in told] == [LaggardsError] * 3


def test_a_client_may_renew_its_leases_in_a_thread_of_its_own() -> None:
    """Whoever lets time pass renews them too, and waits for that thread, which waits for a turn."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        client = mesh.client("tk1")
        client.subscribe("e", "acme/>", lease_s=30)
        records = client._subscriptions._renewed
        look, renew = records.look, client.renew_leases
        has_begun, is_met, is_over = threading.Event(), threading.Event(), threading.Event()

        def slow() -> int | None:
            has_begun.set()
            assert is_met.wait(20.0)
            return look()

        def meets() -> None:
            is_met.set()
            renew()

        records.look = slow  # type: ignore[method-assign]
        mesh._world.clock.ms += 20_000
        renewing = threading.Thread(target=renew, daemon=True)
        renewing.start()
        assert has_begun.wait(20.0)
        client.renew_leases = meets  # type: ignore[method-assign]

        def passing() -> None:
            mesh.pass_time(0.01)
            is_over.set()

        threading.Thread(target=passing, daemon=True).start()
        assert is_over.wait(20.0)


def test_threads_with_a_client_each_write_one_log() -> None:
    """No offset is taken twice, and each message is delivered once, while nodes live."""
    told: list[Published] = []
    switched_s = sys.getswitchinterval()

    def work(client: MeshClient) -> None:
        told.extend(client.publish("acme/x", b"x", key=b"k") for _ in range(300))
        client.flush()

    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.subscribe("pa1", "e", "acme/>")
        threads = [threading.Thread(target=work, args=(mesh.client("tk1"),)) for _ in range(6)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                mesh.pass_time(0.01)
        finally:
            sys.setswitchinterval(switched_s)
        assert len({one.id for one in told}) == 1_800
        came = mesh.wait_delivered("pa1", "e", 1_800)
        assert {one.identity for one in came} == {one.identity for one in told}
        assert len(came) == 1_800


def test_a_broker_and_a_node_of_one_name_have_each_their_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mesh.testing.containers._tail", str)
    mesh = MeshContainers({"kafka": {"k": {}}, "nodes": {"k": {"kafka": "k"}}})
    mesh.kafka["k"], mesh.nodes["k"] = "of the broker", "of the node"  # type: ignore[assignment]
    assert mesh.logs() == {"kafka k": "of the broker", "k": "of the node"}


def test_a_client_that_cannot_be_closed_keeps_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Brokers, processes and containers would stay, and the other clients open."""
    mesh = InMemoryMesh(EXAMPLE / "mesh.yaml").start()
    clients = [mesh.client("pa1") for _ in range(3)]

    def cannot() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(clients[1], "close", cannot)
    with pytest.raises(KeyboardInterrupt):
        mesh.stop()
    assert not mesh._world.workers
    for client in (clients[0], clients[2]):
        with pytest.raises(ClosedError):
            client.flush()


def test_a_node_that_could_not_be_healed_is_healed_by_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that did not follow in time would stay cut off, whatever a test did about it."""

    def late(node: str, neighbours: object) -> None:
        raise StartError(f"node {node} was not told")

    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        mesh.cut("tk1", "ny1")
        with monkeypatch.context() as while_late:
            while_late.setattr(mesh, "_cut", late)
            with pytest.raises(StartError, match="node tk1 was not told"):
                mesh.heal()
        mesh.heal()
        mesh.subscribe("ny1", "e", "acme/>")
        mesh.publish("tk1", "acme/one", b"1")
        assert len(mesh.wait_delivered("ny1", "e", 1)) == 1


def test_nodes_that_do_not_serve_in_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the other forms say it; Python's own TimeoutError is caught by nobody who catches ours."""
    monkeypatch.setattr("mesh.testing.memory.READY_MS", 0)
    with pytest.raises(StartError, match=r"^tk1, ny1, pa1: not ready within 0 s; what nodes log"):
        InMemoryMesh(EXAMPLE / "mesh.yaml").start()


@pytest.mark.parametrize(
    ("seconds", "fault"),
    [("5", TypeError), (None, TypeError), (float("nan"), ValueError), (-1, ValueError)],
)
def test_time_that_is_no_number_does_not_pass(seconds: Any, fault: type[Exception]) -> None:
    """Text was repeated a thousand times, and the mesh lived until that many seconds had passed."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh, pytest.raises(fault, match="seconds"):
        mesh.pass_time(seconds)


@pytest.mark.parametrize(("count", "timeout_s"), [("1", 1.0), (None, 1.0), (1, "1"), (1, None)])
def test_a_wait_for_what_is_no_number_is_told_in_words(count: Any, timeout_s: Any) -> None:
    with pytest.raises(TypeError, match="must be a number of"):
        InMemoryMesh(EXAMPLE / "mesh.yaml").wait_delivered("tk1", "e", count, timeout_s=timeout_s)


@pytest.mark.parametrize("name", [None, 5, ["tk1"]])
def test_a_name_that_is_no_text_is_told_in_words(name: Any) -> None:
    mesh = InMemoryMesh(EXAMPLE / "mesh.yaml")
    for use in (mesh.client, mesh.kill, mesh.restart, lambda one: mesh.cut("tk1", one)):
        with pytest.raises(TypeError, match="node must be text, not "):
            use(name)
    with pytest.raises(TypeError, match="kafka must be text, not "):
        mesh.get_bootstrap_server(name)


NAN, ENDLESS = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("count", "timeout_s", "said"),
    [
        (-1, 1, "cannot wait 1 s for -1 messages"),
        (NAN, 1, "for nan messages"),
        (1, -1, "wait -1 s for 1 m"),
        (1, NAN, "wait nan s"),
        (1, ENDLESS, "wait inf s"),
    ],
)
def test_a_wait_that_would_prove_nothing_or_never_end_is_refused(
    count: Any, timeout_s: float, said: str
) -> None:
    """With fewer than no messages, or nan, every mesh was content; without end a test hung."""
    mesh = InMemoryMesh(EXAMPLE / "mesh.yaml")
    with pytest.raises(ValueError, match=said):
        mesh.wait_delivered("tk1", "e", count, timeout_s=timeout_s)


def test_to_publish_nothing_is_a_slip_of_the_pen() -> None:
    """A payload that was left out: what was waited for then came not, and nobody knew why."""
    with (
        InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh,
        pytest.raises(ValueError, match=r"^nothing to publish on acme/a; an empty payload is b''$"),
    ):
        mesh.publish("tk1", "acme/a")


def test_a_fork_that_leaves_the_block_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own process still uses the nodes, and brokers or containers of other forms."""
    with InMemoryMesh(EXAMPLE / "mesh.yaml") as mesh:
        with monkeypatch.context() as forked:
            forked.setattr("os.getpid", lambda: -1)
            mesh.stop()
        mesh.subscribe("pa1", "e", "acme/>")
        mesh.publish("tk1", "acme/one", b"1")
        assert len(mesh.wait_delivered("pa1", "e", 1)) == 1
