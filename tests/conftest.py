"""What every tier of tests shares: real Kafka clusters, and skips that cannot hide."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from mesh.errors import StartError
from mesh.local.brokers import KafkaClusters, start_brokers
from mesh.local.jars import KafkaSoftware
from mesh.local.software import prepare_kafka, with_spark_classes
from tests.parts import durations
from tests.said import Said, listening
from tests.scheduling import FromBothEnds, make_way, place, tell

# Simulations make and drop objects by the million: a collection every 700 takes an eighth of their time.
gc.set_threshold(100_000, 50, 50)

# No JVM of a test lives long enough to win back what the second compiler takes.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

os.environ.update(with_spark_classes())

# A shell has what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that has to wait for its turn on a busy machine is no failure.
settings.register_profile("suite", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)  # `make check`
settings.load_profile("suite")


@pytest.fixture
def said() -> Iterator[Said]:
    """Begin to listen; named before other fixtures it hears what happens in those as well."""
    with listening() as heard:
        yield heard


Unavailable = Callable[[str, str], NoReturn]
ClustersOf = Callable[[int], Sequence[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know what only some runs ask for."""
    parser.addoption(
        "--all-examples",
        action="store_true",
        help="run every example scenario on real Kafka, not only a chosen few (20 minutes)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell each process of several what it is to be."""
    tell(node)


def pytest_configure(config: pytest.Config) -> None:
    """Have the process that computes leave the cores to those that wait for brokers."""
    make_way(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what waits longest, and last what computes longest."""
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Take over where files stay whole."""
    return FromBothEnds(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print where the time went, when a whole run ends."""
    stats = terminalreporter.stats.values()
    told = durations(one for some in stats for one in some if isinstance(one, pytest.TestReport))
    if len(told) > 1:
        terminalreporter.section("seconds by part")
        for line in told:
            terminalreporter.line(line)


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Fail whoever leaves a handler of its own: processes that later tests fork would have it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    after = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before, "a test has left handlers of signals behind"


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Take back how a test has logs written: a command run in this process sets that up for good.

    Whoever listens later would hear nothing below the level that the command chose.
    """
    was_configured, before = structlog.is_configured(), structlog.get_config()
    of_kafka = logging.getLogger("mesh.kafka")
    level = of_kafka.level
    yield
    if was_configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()
    of_kafka.setLevel(level)


@pytest.fixture(scope="session")
def unavailable() -> Unavailable:
    """Skip aloud because something is missing, or fail when MESH_REQUIRE names it."""
    required = os.environ.get("MESH_REQUIRE", "").replace(" ", "").split(",")

    def give_up(what: str, reason: str) -> NoReturn:
        if what in required:
            pytest.fail(f"MESH_REQUIRE names {what}: {reason}", pytrace=False)
        pytest.skip(reason)

    return give_up


@pytest.fixture(scope="session")
def kafka_software(unavailable: Unavailable) -> KafkaSoftware:
    """Java and Kafka's jars, fetched on first use. Only a missing Java is a reason to skip."""
    try:
        return prepare_kafka(progress=print)
    except StartError as error:
        if "Java" not in str(error):
            raise
        unavailable("java", str(error))


@pytest.fixture(scope="session")
def kafka_clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClustersOf]:
    """`kafka_clusters(n)`: bootstrap addresses of n Kafka clusters, shared by the whole session.

    MESH_TEST_BOOTSTRAP (``a:1;b:2;c:3``) names given ones; else embedded ones are started when
    first asked for. Topics get a unique prefix per test: nobody cleans up.
    """
    given = [one for one in os.environ.get("MESH_TEST_BOOTSTRAP", "").split(";") if one]
    directory = tmp_path_factory.mktemp("kafka")
    running: list[KafkaClusters] = []

    def addresses(count: int) -> Sequence[str]:
        if given:
            assert len(given) >= count, f"MESH_TEST_BOOTSTRAP names {len(given)}, not {count}"
            return given[:count]
        here = sum(map(len, running))
        if here < count:
            software: KafkaSoftware = request.getfixturevalue("kafka_software")
            names = [f"k{index}" for index in range(here + 1, count + 1)]
            running.append(start_brokers(names, directory, software=software, progress=print))
        found = [kafka.bootstrap_servers for some in running for kafka in some.values()]
        return found[:count]

    try:
        yield addresses
    finally:
        for some in running:
            some.stop()
        _drop_data(directory)


def _drop_data(directory: Path) -> None:
    """Keep the logs for whoever looks into a failure, not the data."""
    for data in directory.glob("*/broker-*/data"):
        shutil.rmtree(data, ignore_errors=True)
