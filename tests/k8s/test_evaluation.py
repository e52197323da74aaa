"""One values file gives a running mesh whose messages are certified, word for word as the page says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.k8s.kube import CHART, Kube, is_ready, until

# Of a test alone: the first set-up builds images and Kubernetes, which takes what it takes.
pytestmark = [pytest.mark.k8s, pytest.mark.docker, pytest.mark.timeout(600, func_only=True)]

RELEASE = "mesh"
PODS = 8  # brokers and workers of three nodes, the auditor and the page
TOKEN = "only-for-this-test"
ASK = f"""
import json, sys, urllib.error, urllib.request
url = "http://{RELEASE}-trellis-mesh-dashboard/api/v1/mesh"
shown = {{"Authorization": "Bearer " + sys.argv[1]}} if sys.argv[1:] else {{}}
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, headers=shown), timeout=20)
    print(json.dumps([answer.status, json.load(answer)]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, json.load(error)]))
"""
ROOM = {"requests": {"cpu": "60m", "memory": "96Mi"}}


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges a later file into an earlier one."""
    merged = dict(below)
    for name, value in above.items():
        was = merged.get(name)
        if isinstance(was, Mapping) and isinstance(value, Mapping):
            merged[name] = over(was, value)
        else:
            merged[name] = value
    return merged


def asked(kube: Kube, pod: str, *token: str) -> list[Any]:
    """Return status and answer of the page's API, asked by its Service's name from another pod."""
    command = ("exec", pod, "-c", "worker", "--", "python", "-c", ASK, *token)
    return list(json.loads(kube.kubectl(*command)))


def serving(kube: Kube) -> bool | None:
    """Return whether all pods are there and ready that stay: those of jobs come and go."""
    pods = kube.objects("pods", instance=RELEASE)
    stay = [one for one in pods if one["metadata"]["ownerReferences"][0]["kind"] != "Job"]
    return (len(stay) == PODS and all(map(is_ready, stay))) or None


def test_five_commands_lead_to_a_certified_message(kube: Kube, audit_image: str) -> None:
    """Three Kafka clusters, three nodes, the auditor and the page, in a namespace of restricted pods."""
    kube.load(audit_image)
    repository, _, tag = audit_image.rpartition(":")
    policy = kube.images["image"]["pullPolicy"]
    audit = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": policy},
        "resources": {"requests": {"cpu": "400m", "memory": "1Gi"}},
    }
    given = YAML(typ="safe").load((CHART / "evaluation.yaml").read_text(encoding="utf-8"))
    page = {"enabled": True, "existingSecret": "page", "resources": ROOM}
    values = over(over(given, kube.images), {"audit": audit, "dashboard": page, "resources": ROOM})
    kube.kubectl("create", "secret", "generic", "page", f"--from-literal=token={TOKEN}")
    kube.helm("install", RELEASE, values)
    try:
        until("brokers, workers, auditor and page are ready", lambda: serving(kube), 300)
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
        assert asked(kube, first)[0] == 401
        status, told = asked(kube, first, TOKEN)
        assert status == 200, told
        assert told["mesh"] == "worldwide", told
    finally:
        kube.uninstall(RELEASE)
        kube.try_kubectl("delete", "secret", "page")
        until("its pods are gone", lambda: not kube.objects("pods", instance=RELEASE) or None, 120)
