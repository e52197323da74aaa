"""What a command asks of brokers, counted: no clock, and no machine, changes that."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mesh.cli.problems import EXIT_NOT_WELL
from mesh.lab.world import World
from mesh.operate.audit.latest import POSITION
from mesh.operate.audit.trail import REPORTED
from mesh.transport.port import TopicSpec
from tests.component.cli.conftest import Chain, Run
from tests.component.in_memory_mesh import Mesh
from tests.patience import PATIENCE_S

ASKED = ("stable_ends", "ends", "starts", "describe", "settings", "consumed")

MOST = {
    "status": Counter(reader=2, stable_ends=2, describe=1),
    "links": Counter(reader=1, stable_ends=2),
    "interest": Counter(reader=1, stable_ends=1),
    "explain x/1 --from a": Counter(reader=1, stable_ends=1),
    "route a c": Counter(reader=1, stable_ends=1),
    "queue list": Counter(reader=1, stable_ends=1),
    "endpoint list": Counter(reader=1, stable_ends=1),
    "audit report": Counter(reader=1, stable_ends=2, describe=1),
    "doctor": Counter(reader=5, stable_ends=9, starts=3, ends=1, describe=2, settings=1),
}
"""Command line -> what it may ask of each Kafka cluster, on a mesh without messages.

`status` reads what the auditor says besides, where it writes.
"""


def tell_audit(mesh: Mesh) -> None:
    """Have the auditor's topics hold something each."""
    kafka = mesh.world.kafka[mesh.topology.audit_kafka]
    kafka.admin().create([TopicSpec(name=f"mesh.audit.{one}", partitions=1) for one in REPORTED])
    writer = kafka.writer("auditor")
    for table in REPORTED:
        writer.produce(f"mesh.audit.{table}", b'{"kind": "split"}', POSITION, 0)
    assert writer.flush() == 0


@pytest.mark.parametrize("line", MOST)
def test_a_command_asks_no_more_than_it_must(
    line: str, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one of these is a wait for a broker, on each Kafka cluster, whatever its distance."""
    mesh, file = chain
    tell_audit(mesh)
    mesh.pause(3.0)
    asked: dict[str, Counter[str]] = {name: Counter() for name in mesh.topology.kafka}
    working: list[bool] = []
    advance = World.advance

    def lives(world: World) -> None:
        working.append(True)
        advance(world)
        working.pop()

    monkeypatch.setattr(World, "advance", lives)
    for name, kafka in mesh.world.kafka.items():
        for owner, calls in ((kafka, ("reader",)), (kafka.admin(), ASKED)):
            for call in calls:
                monkeypatch.setattr(owner, call, counted(owner, call, asked[name], working))
    assert run(*line.split(), "-f", file).code in (0, EXIT_NOT_WELL)
    over = {name: one - MOST[line] for name, one in asked.items() if one - MOST[line]}
    assert over == {}, asked


def counted(
    owner: object, call: str, counter: Counter[str], working: Sequence[bool]
) -> Callable[..., object]:
    """Count what the command asks; workers ask the same brokers while it waits."""
    real = getattr(owner, call)

    def wrapper(*given: object, **options: object) -> object:
        if not working:
            counter[call] += 1
        return real(*given, **options)

    return wrapper


@pytest.mark.parametrize("line", ["status", "links", "explain x/1 --from a"])
def test_heartbeats_come_while_brokers_answer(
    line: str, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for one has asked all that he asks: nothing is asked after that wait."""
    mesh, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "--queue", "-f", file)
    mesh.pause(3.0)
    asked: Counter[str] = Counter()
    before = [True]
    pause = mesh.pause

    def waits(seconds: float) -> None:
        before[:] = [True]  # the mesh lives
        pause(seconds)
        before.clear()

    monkeypatch.setattr("mesh.transport.clock.pause", waits)
    for kafka in mesh.world.kafka.values():
        for owner, calls in ((kafka, ("reader",)), (kafka.admin(), ASKED)):
            for call in calls:
                monkeypatch.setattr(owner, call, counted(owner, call, asked, before))
    assert run(*line.split(), "-f", file).code == 0
    assert not before  # it has waited
    assert not asked


@pytest.mark.parametrize(
    "line", ["status", "links", "interest", "explain x/1 --from a", "queue list"]
)
def test_a_kafka_cluster_that_does_not_answer_is_asked_once(
    line: str, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question costs as long as a command waits for brokers; the rest is shown."""
    mesh, file = chain
    run("subscribe", "acme/>", "-n", "c", "-e", "e", "--queue", "-f", file)
    mesh.pause(3.0)
    kafka = mesh.world.kafka["right"]
    kafka.available = False
    asked: Counter[str] = Counter()
    working: list[bool] = []
    advance = World.advance

    def lives(world: World) -> None:
        working.append(True)
        advance(world)
        working.pop()

    monkeypatch.setattr(World, "advance", lives)
    for owner, calls in ((kafka, ("reader",)), (kafka.admin(), ASKED)):
        for call in calls:
            monkeypatch.setattr(owner, call, counted(owner, call, asked, working))
    ended = run(*line.split(), "-f", file)
    assert "right" in ended.err
    assert ended.out
    assert asked.total() == 1, asked


@pytest.mark.parametrize(
    "line",
    [
        "link pause a b",
        "link disable a b",
        "node resume a",
        "subject pause x/> -n a",
        "subject list",
    ],
)
def test_who_asks_no_node_waits_for_none(line: str, run: Run, chain: Chain) -> None:
    """A node that is down, which is when they are used, cost each of them five seconds."""
    mesh, file = chain
    mesh.pause(3.0)
    mesh.world.kill("c")
    before_ms = mesh.now_ms()
    assert run(*line.split(), "-f", file).code == 0
    assert mesh.now_ms() - before_ms < 1_000


MODULES_MAX = {
    "status": 93,
    "links": 95,
    "interest": 86,
    "explain x/1 --from a": 127,
    "route a b": 123,
    "queue list": 102,
    "endpoint list": 93,
    "audit report": 92,
}
"""Command line -> modules of the mesh that it imports at most, folders not counted: they are most of
its CPU time."""
FOREIGN_TO_ALL = ("mesh.worker.", "mesh.lab.", "mesh.local.", "mesh.trees.", "mesh.client.")
"""What none of these needs: workers, scenarios, brokers, roles, and what applications import."""


@pytest.mark.parametrize("line", MODULES_MAX)
def test_a_command_imports_no_more_than_it_must(line: str, tmp_path: Path) -> None:
    """Counted in a process of its own, on a Kafka cluster that is not there."""
    file = tmp_path / "mesh.yaml"
    kafka = "k: {bootstrap.servers: '127.0.0.1:1'}"
    file.write_text(
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: m}\n"
        f"spec:\n  kafka: {{{kafka}}}\n  nodes: {{a: {{}}, b: {{}}}}\n"
        "  zones: {Z: {kind: one-hop, nodes: [a, b]}}\n"
    )
    program = (
        "import sys\nfrom mesh.cli import session\nfrom mesh.cli.main import main\n"
        "session.LOOK_WITHIN_S = 0.2\n"
        f"try:\n    main({[*line.split(), '-f', str(file)]})\nexcept SystemExit:\n    pass\n"
        "loaded = [name for name, one in sys.modules.items() if not hasattr(one, '__path__')]\n"
        "print(*[name for name in loaded if name.startswith('mesh.')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "mesh.transport.kafka.reader" in loaded  # it came as far as asking
    assert not [one for one in loaded if one.startswith(FOREIGN_TO_ALL)]
    assert len(loaded) <= MODULES_MAX[line], sorted(loaded)
