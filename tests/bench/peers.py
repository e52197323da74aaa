"""What others made for the same work, started beside us; one that cannot be had is named.

MirrorMaker 2 comes from Apache's jars; nats-server and the relay on franz-go are built by Go, from
the module in the folder `peers`, whose sums pin every version.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mesh.errors import MeshError, StartError
from mesh.local.jars import Progress, cache_folder
from mesh.local.ports import free_port
from mesh.local.processes import Process, spawn
from tests.bench import mirror
from tests.bench.contenders import START_S, TRIED, Contender, Copier, wait_until
from tests.bench.counting import Numbers
from tests.bench.load import WHOLE, Load
from tests.bench.stage import Stage

MODULE = Path(__file__).with_name("peers")
BUILD_S = 900.0
SERVER = "github.com/nats-io/nats-server/v2"
SERVERS = {
    "hub": """\
listen: "127.0.0.1:{port}"
leafnodes {{ listen: "127.0.0.1:{link}" }}
jetstream {{ domain: hub, store_dir: "{store}" }}
""",
    "leaf": """\
listen: "127.0.0.1:{port}"
leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{link}" }} ] }}
jetstream {{ domain: leaf, store_dir: "{store}" }}
""",
}
"""Two servers with a storage each, linked as sites are."""


def built(progress: Progress) -> Path:
    """Return the folder with the programs that Go builds, building them on first use.

    Raises:
        StartError: There is no Go, or it cannot build them.
    """
    sums = b"".join(file.read_bytes() for file in sorted(MODULE.rglob("*")) if file.is_file())
    folder = cache_folder() / f"peers-{hashlib.sha256(sums).hexdigest()[:10]}"
    if folder.is_dir():
        return folder
    if (go := shutil.which("go")) is None:
        raise StartError("Go is not installed")
    progress("building nats-server and the relay on franz-go (once, some minutes)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as work:
        made = Path(work) / "programs"
        made.mkdir()
        command = [go, "build", "-o", f"{made}/", "./...", SERVER]
        try:
            done = subprocess.run(
                command, cwd=MODULE, capture_output=True, text=True, check=False, timeout=BUILD_S
            )
        except subprocess.TimeoutExpired as error:
            raise StartError(f"go build took more than {BUILD_S:.0f} s") from error
        if done.returncode:
            raise StartError(f"go build failed: {done.stderr.strip().splitlines()[-1]}")
        with suppress(OSError):  # another benchmark was faster
            made.rename(folder)
    return folder


def mirror_maker(variant: str, stage: Stage, load: Load, progress: Progress) -> Contender:
    """Start a MirrorMaker 2 and wait until it copies."""
    software = mirror.find(progress)
    source, target = mirror.topics(variant)
    for topic in (source, target):
        stage.create(topic)
    process = mirror.start(variant, software, stage.bootstrap, stage.directory / "mirror")
    return Copier(variant, stage, load, source, target, process, WHOLE).try_out()


def relay(stage: Stage, load: Load, progress: Progress) -> Contender:
    """Start the relay on franz-go and wait until it copies."""
    program = built(progress) / "relay"
    source, target = "bench.relay.in", "bench.relay.out"
    for topic in (source, target):
        stage.create(topic)
    process = spawn(
        [str(program), stage.bootstrap, source, target],
        name="franz-go",
        log=stage.directory / "log" / "franz-go.log",
    )
    return Copier("franz-go", stage, load, source, target, process, WHOLE).try_out()


class Driver:
    """The client of both nats-servers, a program in Go that takes orders.

    Args:
        program: Its file.
    """

    def __init__(self, program: Path) -> None:
        self._popen = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._popen.pid

    def ask(self, what: str, **order: object) -> Mapping[str, Any]:
        """Give an order and return its answer.

        Raises:
            StartError: It could not be carried out.
        """
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        try:
            self._popen.stdin.write(json.dumps({"do": what, **order}) + "\n")
            self._popen.stdin.flush()
        except BrokenPipeError as error:
            raise StartError(f"nats: {what}: the driver is gone") from error
        line = self._popen.stdout.readline()
        answer: Mapping[str, Any] = json.loads(line) if line else {"error": "the driver is gone"}
        if "error" in answer:
            raise StartError(f"nats: {what}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End it."""
        self._popen.kill()
        self._popen.wait()


@dataclass(slots=True)
class Sourced:
    """A JetStream that sources a filtered one of another server; both servers are measured."""

    load: Load
    payload: int
    servers: Sequence[Process]
    driver: Driver
    name: str = "nats"
    uses_kafka: bool = False
    _subjects: Sequence[str] = field(default_factory=list)

    def processes(self) -> Sequence[Process]:
        """Return both servers: they are brokers and relay in one."""
        return self.servers

    def prepare(self, count: int) -> None:
        """Publish the messages to the first server."""
        subjects = [one.replace("/", ".") for one in self.load.subjects(WHOLE)]
        self.driver.ask("load", count=count, payload=self.payload, subjects=subjects)

    def release(self) -> None:
        """Have the second one source them."""
        self.driver.ask("source")

    def wait(self, count: int) -> float:
        """Wait until it has them all."""
        self.driver.ask("wait", count=count)
        return time.monotonic()

    def delays_ms(self, rate: int, length_s: float, *, warm_s: float) -> Sequence[float]:
        """Return the delays of an open loop, without those of a warm-up before it."""
        found = self.driver.ask(
            "latency",
            count=int(rate * (length_s + warm_s)),
            rate=rate,
            skip=int(rate * warm_s),
            payload=self.payload,
            subjects=["g.x.y"],
        )
        return found["delays_ms"]

    def finish(self, count: int) -> Sequence[Numbers]:
        """Count what arrived, and empty both streams."""
        found = self.driver.ask("check", count=count)
        self.driver.ask("reset")
        return [
            Numbers(
                topic="COPY",
                expected=count,
                missing=count - found["distinct"],
                surplus=found["count"] - found["distinct"],
            )
        ]


def nats(stage: Stage, load: Load, payload: int, progress: Progress, stack: ExitStack) -> Sourced:
    """Start two nats-servers and wait until the one sources a stream of the other."""
    programs = built(progress)
    first, second, link = free_port(), free_port(), free_port()
    servers = []
    for (name, text), port in zip(SERVERS.items(), (first, second), strict=True):
        folder = stage.directory / "nats" / name
        folder.mkdir(parents=True)
        file = folder / "server.conf"
        file.write_text(text.format(port=port, link=link, store=folder / "store"), "utf-8")
        log = stage.directory / "log" / f"nats-{name}.log"
        command = [str(programs / "nats-server"), "-c", str(file)]
        server = spawn(command, name=f"nats-server {name}", log=log)
        stack.callback(server.kill)
        servers.append(server)
        wait_until(partial(_serves, log), [server], START_S)
    driver = Driver(programs / "nats")
    stack.callback(driver.close)
    driver.ask("connect", hub=f"nats://127.0.0.1:{first}", leaf=f"nats://127.0.0.1:{second}")
    found = Sourced(load, payload, servers, driver)
    found.prepare(TRIED)
    found.release()
    found.wait(TRIED)
    found.finish(TRIED)
    return found


def _serves(log: Path) -> bool:
    return "Server is ready" in log.read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Peers:
    """Who takes part, their helpers, and who could not be had with the reason."""

    contenders: Sequence[Contender]
    absent: Mapping[str, str]

    @property
    def helpers(self) -> Sequence[int]:
        """Return processes of ours that do no work of a contender's."""
        return [one.driver.pid for one in self.contenders if isinstance(one, Sourced)]


def start(
    names: Sequence[str],
    stage: Stage,
    load: Load,
    payload: int,
    progress: Progress,
    stack: ExitStack,
) -> Peers:
    """Start peers; one that does not start is named and left out.

    Args:
        names: Which.
        stage: The broker.
        load: Feeds them.
        payload: Bytes of a message, for those that are not fed by `load`.
        progress: Told what is going on.
        stack: Stops them.
    """
    found: list[Contender] = []
    absent: dict[str, str] = {}
    for name in names:
        progress(f"starting {name}")
        with ExitStack() as own:
            try:
                one = _start(name, stage, load, payload, progress, own)
            except MeshError as error:
                absent[name] = str(error).splitlines()[0]
                progress(f"{name} takes no part: {absent[name]}")
                continue
            for process in one.processes():
                own.callback(process.stop, 5.0)
            stack.enter_context(own.pop_all())
        found.append(one)
    return Peers(found, absent)


def _start(
    name: str, stage: Stage, load: Load, payload: int, progress: Progress, own: ExitStack
) -> Contender:
    starters: Mapping[str, Callable[[], Contender]] = {
        "franz-go": lambda: relay(stage, load, progress),
        "nats": lambda: nats(stage, load, payload, progress, own),
    }
    if name in starters:
        return starters[name]()
    return mirror_maker(name, stage, load, progress)
