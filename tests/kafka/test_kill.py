"""`kill -9` of workers under load: nothing guaranteed lost, doubled or out of order."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.real import RealBackend
from mesh.lab.steps import Drain, Settle
from mesh.lab.tally import Tally
from mesh.local.fleet import Fleet
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.view.mesh_view import MeshView
from tests.conftest import ClustersOf
from tests.kafka.fleets import EXAMPLES, fleet_for
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

KILLS = 3


class Load:
    """A client that publishes evenly, with keys, until told to stop; all of it acknowledged."""

    def __init__(self, fleet: Fleet, node: str, rate: int) -> None:
        self.published = 0
        self._node, self._rate = node, rate
        self._topic = TopicNames(fleet.topology.prefix).ingress(node, MessageClass.GUARANTEED)
        self._kafka = fleet.kafka(fleet.topology.nodes[node].kafka, "load")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        writer = self._kafka.writer("load")
        while not self._stop.wait(0.02):
            for _ in range(self._rate // 50):
                key = b"k%d" % (self.published % 7)
                headers = [(SUBJECT_HEADER, b"acme/%d" % (self.published % 5))]
                writer.produce(self._topic, b"%d" % self.published, key, headers=headers)
                self.published += 1
        assert writer.flush() == 0
        self._kafka.close()

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.published


def test_killed_workers_lose_and_double_nothing(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """Spec: DESIGN 6, K11, K16, K18."""
    scenario, fleet = fleet_for(EXAMPLES / "node-down.yaml", kafka_clusters(3), tmp_path)
    try:
        backend = RealBackend(fleet)
        tally = Tally(fleet.topology, backend.kafka, backend.now_ms)
        view = MeshView(fleet.topology, backend.kafka, backend.now_ms)
        driver = Driver(fleet.topology, backend, tally, view)
        run_step(driver, 0, scenario.steps[0])
        run_step(driver, 1, Settle(timeout=PATIENCE_S))
        load = Load(fleet, "tk3", 500)
        for kill in range(KILLS):
            node = ["ny1", "tk1", "pa2", "tk3", "pa1"][kill % 5]
            before = tally.endpoints["pa2/s"].count
            wait_until("it goes on", partial(_has_more, tally, before))
            fleet.kill_node(node)
            fleet.start_node(node)
            wait_until(f"{node} serves", fleet.ready_file(node).exists)
        published = load.stop()
        run_step(driver, 2, Drain(timeout=PATIENCE_S))
        tally.refresh()
        endpoint = tally.endpoints["pa2/s"]
        driver.close()
        backend.close()
    finally:
        fleet.stop()
    assert (endpoint.count, endpoint.distinct, endpoint.disordered) == (published, published, 0)
    assert published > 1000


def _has_more(tally: Tally, before: int) -> bool:
    tally.refresh()
    return tally.endpoints["pa2/s"].count > before
