"""Values of releases, and what is looked for in their manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer.main

from mesh.cli.main import app
from tests.helm.conftest import Manifest

LONG = "n" * 63 + "-"


SPEC: Mapping[str, Mapping[str, Any]] = {
    "kafka": {
        "tokyo": {"bootstrap.servers": "tokyo.example:9092"},
        "newyork": {"bootstrap.servers": "newyork.example:9092", "linger.ms": "5"},
    },
    "nodes": {"tk1": {"kafka": "tokyo"}, "NY1": {"kafka": "newyork"}, LONG: {"kafka": "tokyo"}},
    "zones": {"WO": {"kind": "multi-hop", "links": [["tk1", "NY1"], ["NY1", LONG]]}},
}


BASE: Mapping[str, Any] = {"topology": {"name": "worldwide", "spec": SPEC}}


EVERYTHING: Mapping[str, Any] = {
    **BASE,
    "nodes": {"tk1": {"workers": 2, "resources": {"limits": {"memory": "1Gi"}}}, "NY1": None},
    "workers": 3,
    "bootstrap": {"tokyo": "kafka.tokyo.svc:9092"},
    "credentials": {"tokyo": {"existingSecret": "tokyo-user"}},
    "image": {"repository": "registry.example/mesh", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}], "kafkaPorts": [9092, 9093]},
    "grafana": {"enabled": True},
    "extraInitContainers": [
        {
            "name": "before",
            "image": "before:1",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "resources": {"limits": {"memory": "32Mi"}},
        }
    ],
    "serviceAccount": {"create": True, "name": "mesh", "annotations": {"a": "b"}},
    "labels": {"team": "events"},
    "annotations": {"note": "yes"},
    "podLabels": {"tier": "bus"},
    "podAnnotations": {"scrape": "no"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "bus", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "extraEnv": [{"name": "A", "value": "1"}],
    "extraEnvFrom": [{"secretRef": {"name": "env"}}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "extraContainers": [
        {
            "name": "beside",
            "image": "beside:1",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "32Mi"}},
        }
    ],
    "extraObjects": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "{{ .Release.Name }}-extra"},
            "data": {"x": "y"},
        }
    ],
    "audit": {
        "enabled": True,
        "checkpoint": {"storageClass": "fast"},
        "extraArgs": ["--trigger", "2"],
    },
    "dashboard": {
        "enabled": True,
        "existingSecret": "page",
        "userHeader": "X-Forwarded-User",
        "rootPath": "/trellis",
        "allowedHosts": ["mesh.internal"],
        "embed": ["https://portal.example.com"],
        "service": {"type": "NodePort", "port": 8081, "annotations": {"a": "b"}},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "hosts": ["mesh.example.com"],
            "tls": [{"hosts": ["mesh.example.com"], "secretName": "tls"}],
            "annotations": {"a": "b"},
        },
    },
    "traces": {"enabled": True, "endpoint": "http://collector.observe:4318"},
    "test": {"waitSeconds": 5, "extraArgs": ["--category", "kafka"]},
}


ROUTED: Mapping[str, Any] = {
    **BASE,
    "dashboard": {
        "enabled": True,
        "existingSecret": "page",
        "rootPath": "/trellis",
        "httpRoute": {
            "enabled": True,
            "parentRefs": [{"name": "gateway"}],
            "hostnames": ["mesh.example.com"],
        },
    },
}


MATRIX: Mapping[str, Mapping[str, Any]] = {
    "base": BASE,
    "everything": EVERYTHING,
    "audit on a claim": {
        **BASE,
        "audit": {"enabled": True, "checkpoint": {"existingClaim": "mine"}},
    },
    "page": {**BASE, "dashboard": {"enabled": True, "userHeader": "X-User"}},
    "own config map": {
        "topology": {"existingConfigMap": "mine"},
        "nodes": {"tk1": None},
    },
    "evaluation": {
        **BASE,
        "evaluationKafka": {"enabled": True},
        "topology": {**BASE["topology"], "apply": {"enabled": True}},
    },
    "another site": {"topology": {**BASE["topology"], "compare": {"enabled": True}}},
    "bare": {
        **BASE,
        "serviceAccount": {"create": False},
        "startupProbe": {"enabled": False},
        "readinessProbe": {"enabled": False},
        "topologySpread": {"enabled": False},
        "test": {"enabled": False},
        "workers": 0,
    },
}


def of_kind(manifests: Sequence[Manifest], *kinds: str) -> dict[str, Manifest]:
    return {m["metadata"]["name"]: m for m in manifests if m["kind"] in kinds}


def pods(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    for manifest in of_kind(manifests, "StatefulSet", "Deployment", "Job").values():
        yield manifest["spec"]["template"]


def worker(manifests: Sequence[Manifest], name: str = "rel-trellis-mesh-tk1") -> Manifest:
    container: Manifest = of_kind(manifests, "StatefulSet")[name]["spec"]["template"]["spec"][
        "containers"
    ][0]
    return container


def parsed_by(command: Sequence[str], arguments: Sequence[str]) -> Mapping[str, Any]:
    """Let the real command line take apart what the chart passes."""
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    parameters: Mapping[str, Any] = found.make_context(command[-1], list(arguments)).params
    return parameters


def worker_pods(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    return {
        name: one["spec"]["template"] for name, one in of_kind(manifests, "StatefulSet").items()
    }
