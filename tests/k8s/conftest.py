"""A cluster: the one that MESH_TEST_KUBECONFIG names, else one of our own on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mesh.local.jars import cache_folder
from tests.conftest import Unavailable
from tests.docker_engine import audit_image, docker_engine, kafka_image, node_image
from tests.k8s.cluster import LocalCluster, lacking_here
from tests.k8s.kube import Kube
from tests.k8s.programs import build

__all__ = ["audit_image", "docker_engine", "kafka_image", "node_image"]

NAMESPACE = "mesh-test"
FORMER = "trellis-node:former"
RESTRICTED = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""


@pytest.fixture(scope="session")
def kube(
    request: pytest.FixtureRequest,
    unavailable: Unavailable,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kube]:
    """A namespace that admits restricted pods alone, in a cluster that has our images."""
    given = os.environ.get("MESH_TEST_KUBECONFIG")
    if given:
        yield from _within(_given(given, unavailable))
        return
    reason = lacking_here()
    if reason is not None:
        unavailable("k8s", f"MESH_TEST_KUBECONFIG is not set, and here: {reason}")
    images = [request.getfixturevalue(name) for name in ("node_image", "kafka_image")]
    programs = build(cache_folder(os.environ.get("MESH_CACHE")), print)
    cluster = LocalCluster(programs, tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        for image in images:
            cluster.load(image)
        way = f"--kubeconfig={cluster.kubeconfig}"
        kubectl = cluster.inside([str(programs / "kubernetes"), "kubectl", way])
        helm = cluster.inside([str(programs / "helm"), way])
        kill = cluster.inside(["ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL"])
        cluster.name(images[0], FORMER)
        named, former = _images(*images, policy="Never"), _named(FORMER, "Never")
        yield from _within(Kube(kubectl, helm, NAMESPACE, named, former, cluster.load, kill))
    finally:
        cluster.stop()
        # Gigabytes in tens of thousands of files: Python takes minutes for what this does in seconds.
        subprocess.run(["rm", "-rf", cluster.folder / "containerd"], check=False)


def _given(kubeconfig: str, unavailable: Unavailable) -> Kube:
    """Return a cluster of somebody else, which can get the images that are named."""
    node, kafka, audit = (
        os.environ.get(f"MESH_{image}_IMAGE") for image in ("NODE", "KAFKA", "AUDIT")
    )
    lacking = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
    if lacking or not (node and kafka and audit):
        unavailable(
            "k8s",
            "MESH_TEST_KUBECONFIG wants kubectl and helm on the path, and images that the cluster "
            "can get in MESH_NODE_IMAGE, MESH_KAFKA_IMAGE and MESH_AUDIT_IMAGE",
        )
    way = f"--kubeconfig={Path(kubeconfig).absolute()}"
    images = _images(node, kafka, policy="IfNotPresent")
    former = _named(os.environ.get("MESH_NODE_IMAGE_FORMER", node), "IfNotPresent")
    return Kube(["kubectl", way], ["helm", way], NAMESPACE, images, former)


def _named(image: str, policy: str) -> Mapping[str, str]:
    repository, _, tag = image.rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": policy}


def _images(node: str, kafka: str, *, policy: str) -> Mapping[str, Any]:
    room = {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "768Mi"}}
    brokers = {"enabled": True, "image": _named(kafka, policy), "resources": room}
    return {"image": _named(node, policy), "evaluationKafka": brokers}


def _within(kube: Kube) -> Iterator[Kube]:
    kube.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")  # of a run that was killed
    kube.kubectl("apply", "-f", "-", give=RESTRICTED)
    try:
        yield kube
    finally:
        kube.try_kubectl("delete", "namespace", NAMESPACE, "--wait=false")
