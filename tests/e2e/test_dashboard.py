"""The page of a mesh that really runs, audited by Spark: a newcomer with a keyboard finds faults."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from mesh.client import connect
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.auditor import spawn_auditor
from mesh.local.fleet import Fleet
from mesh.local.processes import Process
from mesh.model.topics import TopicNames
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range
from tests.chromium import chromium
from tests.conftest import ClustersOf
from tests.patience import PATIENCE_S

__all__ = ["chromium"]  # the fixture

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FOUND_MS = 1_000 * PATIENCE_S


@dataclass(frozen=True, slots=True)
class Shown:
    """A mesh of three nodes that runs, its auditor, and its page."""

    fleet: Fleet
    url: str
    dashboard: subprocess.Popen[str]
    prefix: str

    def deliveries(self, endpoint: str) -> tuple[KafkaCluster, Sequence[Record]]:
        """Return the records of an endpoint of c, and clients of its Kafka cluster."""
        kafka = self.fleet.kafka("right")
        topic = TopicNames(self.prefix).endpoint("c", endpoint)
        partitions = range(self.fleet.topology.nodes["c"].partitions)
        places = [TopicPartition(topic, number) for number in partitions]
        ends = kafka.admin().stable_ends(places)
        return kafka, list(read_range(kafka, dict.fromkeys(ends, 0), ends))


@pytest.fixture(scope="module")
def shown(kafka_clusters: ClustersOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    left, right = kafka_clusters(2)
    prefix = f"t{uuid.uuid4().hex[:8]}."
    topology = topology_from_mapping(
        {
            "prefix": prefix,
            "kafka": {"left": {"bootstrap.servers": left}, "right": {"bootstrap.servers": right}},
            "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "left"}, "c": {"kafka": "right"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
        },
        name="audited",
    )
    folder = tmp_path_factory.mktemp("dashboard")
    write_topology(topology, folder / "mesh.yaml")
    fleet = Fleet.start(topology, folder / "mesh.yaml", folder)
    auditor: list[Process] = []
    page: subprocess.Popen[str] | None = None
    try:
        auditor.append(spawn_auditor(fleet))
        for node in topology.nodes:
            fleet.start_node(node)
        with connect(fleet.topology, "c") as client:
            for endpoint in ("twice", "swapped"):
                client.wait(client.subscribe(endpoint, f"acme/{endpoint}/>"), PATIENCE_S)
        page = subprocess.Popen(
            [
                *(sys.executable, "-m", "mesh", "dashboard", "--listen", "127.0.0.1:0"),
                *("-f", str(folder / "mesh.yaml")),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert page.stdout is not None
        address = page.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        yield Shown(fleet, address.rstrip("/"), page, prefix)
    finally:
        if page is not None:
            page.terminate()
            assert page.wait(PATIENCE_S) == 0
        for process in auditor:
            process.kill()
        fleet.stop()


@pytest.fixture
def page(chromium: Browser, shown: Shown) -> Iterator[Page]:
    """The page at its first view."""
    context = chromium.new_context()
    opened = context.new_page()
    opened.set_default_timeout(FOUND_MS)
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(shown.url)
    opened.get_by_label("node c", exact=True).wait_for()
    yield opened
    context.close()
    assert faults == []


def _tab_to(page: Page, text: str) -> None:
    """Press Tab until what has this text is in focus, as somebody without a mouse does."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith(text):
            return
    raise AssertionError(f"{text} is not reached by keyboard")


def test_the_page_is_there_with_its_address_and_reads_only(shown: Shown, page: Page) -> None:
    """One line on stdout once it can be asked; no consumer group is left in Kafka."""
    with urllib.request.urlopen(f"{shown.url}/readyz", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"{shown.url}/api/v1/mesh", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["mesh"] == "audited"
    expect(page.get_by_label("link a to b", exact=True)).to_have_attribute("aria-description", "up")


def test_rates_are_on_the_map_while_messages_flow(shown: Shown, page: Page) -> None:
    """The width of a link follows its rate."""
    line = page.get_by_label("link b to c", exact=True).locator("line.line")
    before = line.get_attribute("stroke-width")
    with connect(shown.fleet.topology, "a") as client:
        for number in range(2_000):
            client.publish("acme/twice/x", b"%d" % number)
        client.flush()
    expect(line).not_to_have_attribute("stroke-width", str(before))


def test_a_planted_duplicate_is_found_by_keyboard_alone(shown: Shown, page: Page) -> None:
    """From the map to the finding, from its evidence to the trace that shows both deliveries."""
    with connect(shown.fleet.topology, "a") as client:
        client.publish("acme/twice/y", b"once")
        client.flush()
    page.goto(f"{shown.url}/interest?subject=acme/twice/y&from=a")
    expect(page.locator("main")).to_contain_text("1 endpoint on 1 node")
    kafka, record = _delivered(shown, "twice", b"once")
    _write_again(kafka, record, record.value())
    expect(page.get_by_role("status")).to_contain_text("finding", timeout=FOUND_MS)
    page.goto(shown.url)
    page.get_by_label("node c", exact=True).wait_for()
    _tab_to(page, "Findings")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("duplicate")
    expect(page.locator("main")).to_contain_text("c/twice")
    page.get_by_text(f"{shown.prefix}a.in.g/").first.wait_for()  # its evidence is asked for
    _tab_to(page, f"{shown.prefix}a.in.g/")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("delivered more than once to c/twice")


def test_a_swapped_payload_is_found(shown: Shown, page: Page) -> None:
    """The right message with another content: `corrupt`, with what to do."""
    with connect(shown.fleet.topology, "a") as client:
        client.publish("acme/swapped/x", b"true")
        client.flush()
    kafka, record = _delivered(shown, "swapped", b"true")
    _write_again(kafka, record, b"false")
    page.goto(f"{shown.url}/findings")
    expect(page.locator("main")).to_contain_text("c/swapped", timeout=FOUND_MS)
    expect(page.locator("main")).to_contain_text("mesh trace")


def test_why_an_endpoint_does_not_get_a_subject_is_found_by_keyboard(
    shown: Shown, page: Page
) -> None:
    """The subject into Find, the node into From node: the link where it ends, and why."""
    page.keyboard.press("/")
    page.keyboard.type("acme/thrice/x")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Nobody wants anything like that")
    page.get_by_label("Subject", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Nobody gets it")
    expect(page.locator("main")).to_contain_text("nobody behind this link wants it")


def test_a_plan_that_is_illegal_is_refused_with_both_walks(shown: Shown, page: Page) -> None:
    """A third link closes the chain to a ring: two ways to the same node."""
    file = (shown.fleet.directory / "mesh.yaml").read_text()
    ring = json.dumps(
        {
            "apiVersion": "mesh/v1",
            "kind": "Mesh",
            "metadata": {"name": "audited"},
            "spec": {
                "prefix": shown.prefix,
                "kafka": {"left": {}, "right": {}},
                "nodes": {"a": {"kafka": "left"}, "b": {"kafka": "left"}, "c": {"kafka": "right"}},
                "zones": {
                    "Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["a", "c"]]}
                },
            },
        }
    )
    page.goto(f"{shown.url}/plan")
    page.get_by_label("Topology", exact=True).fill(ring)
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator("main")).to_contain_text("Refused")
    assert page.locator(".walk").count() >= 2
    expect(page.locator("main")).to_contain_text("remove link")
    assert (shown.fleet.directory / "mesh.yaml").read_text() == file


def test_a_split_is_on_the_map_until_it_heals(shown: Shown, page: Page) -> None:
    """Neither end reads the other: two parts, in words and colours, told by the auditor."""
    for node, neighbour in (("b", "c"), ("c", "b")):
        shown.fleet.cut(node, [neighbour])
    expect(page.get_by_role("status")).to_contain_text("the mesh is split", timeout=FOUND_MS)
    expect(page.locator("main")).to_contain_text("part 1: a, b | part 2: c", timeout=FOUND_MS)
    for node in ("b", "c"):
        shown.fleet.cut(node, [])
    expect(page.get_by_role("status")).not_to_contain_text("split", timeout=FOUND_MS)
    expect(page.locator("main")).not_to_contain_text("part 2")


def _delivered(shown: Shown, endpoint: str, payload: bytes) -> tuple[KafkaCluster, Record]:
    """Wait for a message at an endpoint of c; return its record."""
    tick = threading.Event()
    for _ in range(600):
        kafka, records = shown.deliveries(endpoint)
        for record in records:
            if record.value() == payload:
                return kafka, record
        kafka.close()
        tick.wait(0.1)
    raise AssertionError(f"{payload!r} did not come to c/{endpoint}")


def _write_again(kafka: KafkaCluster, record: Record, value: bytes | None) -> None:
    writer = kafka.writer("planted")
    writer.produce(
        record.topic(),
        value,
        record.key(),
        record.partition(),
        timestamp=record.timestamp()[1],
        headers=headers_of(record),
    )
    writer.flush()
    writer.close()
    kafka.close()
