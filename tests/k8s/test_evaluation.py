"""One values file gives a running mesh whose messages are certified, word for word as the page says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.k8s.kube import CHART, Kube, is_ready, until

pytestmark = [pytest.mark.k8s, pytest.mark.docker, pytest.mark.timeout(900)]

RELEASE = "mesh"
ROOM = {"requests": {"cpu": "60m", "memory": "96Mi"}}


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges a later file into an earlier one."""
    merged = dict(below)
    for name, value in above.items():
        was = merged.get(name)
        is_both = isinstance(was, Mapping) and isinstance(value, Mapping)
        merged[name] = over(was, value) if is_both else value
    return merged


def test_five_commands_lead_to_a_certified_message(kube: Kube, audit_image: str) -> None:
    """Three Kafka clusters, three nodes and the auditor, in a namespace of restricted pods."""
    kube.load(audit_image)
    repository, _, tag = audit_image.rpartition(":")
    policy = kube.images["image"]["pullPolicy"]
    audit = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": policy},
        "resources": {"requests": {"cpu": "400m", "memory": "1Gi"}},
    }
    given = YAML(typ="safe").load((CHART / "evaluation.yaml").read_text(encoding="utf-8"))
    values = over(over(given, kube.images), {"audit": audit, "resources": ROOM})
    kube.helm("install", RELEASE, values)
    try:
        kube.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=300s")
        first, last = (f"{RELEASE}-trellis-mesh-{node}-0" for node in ("tk1", "pa1"))
        kube.mesh(last, "subscribe", "acme/>", "-n", "pa1", "-e", "orders")
        kube.mesh(first, "publish", "acme/hello", "world", "-n", "tk1")

        def certified() -> Mapping[str, Any] | None:
            done = kube.try_kubectl("exec", first, "--", "mesh", "audit", "report", "-o", "json")
            report = json.loads(done.stdout) if done.stdout else {}
            counts = report.get("counts", {})
            return report if counts.get("delivered") == counts.get("equal") == 1 else None

        report = until("the message is certified", certified, 120)
        assert report["ok"], report
        [auditor] = kube.objects("pods", component="audit")
        assert is_ready(auditor)
        assert auditor["status"]["containerStatuses"][0]["restartCount"] == 0
    finally:
        kube.helm("uninstall", RELEASE, None, "--wait")
        until("its pods are gone", lambda: not kube.objects("pods", instance=RELEASE) or None)
