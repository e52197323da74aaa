"""Two releases in one namespace are one mesh, and a node of it goes for good."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.k8s.kube import Kube, until
from tests.k8s.test_release import QUICK, ages, all_ready, patience_s

# Of a test alone: the first set-up builds images and Kubernetes, which takes what it takes.
pytestmark = [pytest.mark.k8s, pytest.mark.docker, pytest.mark.timeout(600, func_only=True)]

KAFKA = ("tokyo", "newyork")
LINKED = [["tk1", "ny1"], ["ny1", "ny2"]]
ALONE = LINKED[:1]
EAST, WEST = ("tk1", "ny2"), ("ny1",)


def pod(release: str, node: str) -> str:
    return f"{release}-trellis-mesh-{node}-0"


def topology(links: list[list[str]], nodes: tuple[str, ...], **how: Any) -> Mapping[str, Any]:
    at = {"tk1": "tokyo", "ny1": "newyork", "ny2": "newyork"}
    spec = {
        "kafka": {name: {} for name in KAFKA},
        "nodes": {node: {"kafka": at[node]} for node in nodes},
        "zones": {"WORLD": {"kind": "multi-hop", "links": links}},
    }
    return {"name": "worldwide", "spec": spec, **how}


def east(
    links: list[list[str]] = LINKED,
    nodes: tuple[str, ...] = ("tk1", "ny1", "ny2"),
    wait_s: int = 60,
) -> Mapping[str, Any]:
    """Return the values of the site that has the brokers and puts topologies in force."""
    how = {"apply": {"enabled": True, "waitSeconds": wait_s}}
    served = {node: None for node in EAST if node in nodes}
    return {"topology": topology(links, nodes, **how), "nodes": served, **QUICK}


def west(**more: Any) -> Mapping[str, Any]:
    """Return the values of the other site, which finds the brokers by their names."""
    return {
        "topology": topology(LINKED, ("tk1", "ny1", "ny2"), compare={"enabled": True}),
        "nodes": dict.fromkeys(WEST),
        **QUICK,
        "evaluationKafka": {"enabled": False},
        "bootstrap": {one: f"east-trellis-mesh-kafka-{one}:9092" for one in KAFKA},
        **more,
    }


@pytest.fixture(scope="module")
def sites(kube: Kube) -> Iterator[Kube]:
    """Both releases, installed at the same time."""
    with ThreadPoolExecutor() as pool:
        east_site = pool.submit(kube.helm, "install", "east", east())
        kube.helm("install", "west", west())
        east_site.result()
    yield kube
    for release in ("west", "east"):
        kube.uninstall(release)
    kube.drop_jobs()
    until("nothing is left", lambda: not kube.objects("pods") or None, patience_s(60))


def test_two_releases_in_one_namespace_are_one_mesh(sites: Kube) -> None:
    """A message crosses from the nodes of one to those of the other, and none is upgraded alone."""
    all_ready(sites, 3)
    assert "Succeeded" in sites.helm("test", "west")
    sites.mesh(pod("west", "ny1"), "subscribe", "acme/>", "-n", "ny1", "-e", "orders")
    sites.mesh(pod("east", "tk1"), "publish", "acme/hello", "world", "-n", "tk1")
    got = ("subscribe", "acme/>", "-n", "ny1", "-e", "orders", "--from-beginning", "--count", "1")
    assert "world" in sites.mesh(pod("west", "ny1"), *got)
    before = ages(sites.workers())
    sites.helm("upgrade", "west", west(podLabels={"round": "two"}))
    after = ages(all_ready(sites, 3))
    assert {name for name in before if before[name] != after[name]} == {pod("west", "ny1")}


def test_a_node_does_not_go_with_its_links(sites: Kube) -> None:
    """Its last messages would be left behind: the upgrade fails and says what to do first."""
    done = sites.try_helm("upgrade", "east", east(ALONE, ("tk1", "ny1"), 5))
    assert done.returncode == 1
    assert "post-upgrade" in done.stderr
    said = sites.said_by("apply", instance="east")
    assert "node ny2 leaves and sends no heartbeats" in said, said
    assert "take its links away first" in said, said
    sites.helm("rollback", "east", None, "1")
    all_ready(sites, 3)


def test_a_node_goes_once_its_links_have_gone(sites: Kube) -> None:
    """Two upgrades; the second finds its workload gone, which matters to nobody any more."""
    sites.helm("upgrade", "east", east(ALONE))
    sites.helm("upgrade", "east", east(ALONE, ("tk1", "ny1")))
    all_ready(sites, 2)
    told = json.loads(sites.mesh(pod("west", "ny1"), "status", "-o", "json"))
    assert sorted(one["node"] for one in told["nodes"]) == ["ny1", "tk1"]


def test_who_has_another_topology_than_is_in_force_is_told(sites: Kube) -> None:
    """The other site still has the node that has gone: its upgrade fails, with what differs."""
    late = west(topology={**west()["topology"], "compare": {"enabled": True, "waitSeconds": 5}})
    done = sites.try_helm("upgrade", "west", late)
    assert done.returncode == 1
    assert "post-upgrade" in done.stderr
    assert "ny2" in sites.said_by("compare", instance="west")
