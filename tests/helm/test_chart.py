"""The chart renders valid, restricted manifests that start our programs, and refuses typos."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import typer.main
from kubernetes_validate.utils import all_versions  # type: ignore[import-untyped]
from ruamel.yaml import YAML

from mesh.api.guard import PROBES
from mesh.api.serve import ServeSettings
from mesh.cli.main import app
from mesh.cli.node import level_of
from mesh.cli.plan import EXIT_CHANGES
from mesh.cli.problems import EXIT_NOT_WELL, EXIT_WRONG_INPUT
from mesh.config.context import current_context
from mesh.config.legal import load_legal_topology
from mesh.transport.probes import parse_address
from mesh.worker.http.server import Port
from streaming.config import arguments
from streaming.job.port import Port as AuditPort
from tests.helm.conftest import CHART, Manifest, Render, manifests_of

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
COPIES = [
    ("files/alerts.yaml", "infra/prometheus/alerts.yaml"),
    *(
        (f"files/dashboards/{path.name}", f"infra/grafana/{path.name}")
        for path in sorted((CHART.parents[1] / "infra" / "grafana").glob("*.json"))
    ),
]
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


@pytest.fixture(params=MATRIX, scope="module")
def values(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Each set of values of the matrix."""
    return MATRIX[request.param]


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


def test_lint_finds_nothing(values: Mapping[str, Any]) -> None:
    """Strict lint has neither errors nor warnings."""
    report = helm_python.lint(str(CHART), dict(values), strict=True)
    assert report["errors"] == []
    assert [found for found in report["messages"] if found["severity"] > 1] == []


@pytest.mark.parametrize("version", [all_versions()[0], all_versions()[-1]])
def test_manifests_are_valid(render: Render, values: Mapping[str, Any], version: str) -> None:
    """The oldest and the newest Kubernetes whose schemas we carry accept every manifest."""
    manifests = render(values)
    assert manifests
    for manifest in manifests:
        kubernetes_validate.validate(dict(manifest), version, strict=True)


def test_pods_are_restricted(render: Render, values: Mapping[str, Any]) -> None:
    """Every pod keeps the restricted profile and asks for resources; one alone has a token."""
    for pod in pods(render(values)):
        spec = pod["spec"]
        is_rollout = pod["metadata"]["labels"]["app.kubernetes.io/component"] == "rollout"
        assert spec["automountServiceAccountToken"] is is_rollout
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith((":", ":latest"))


def test_every_mount_has_its_volume(render: Render, values: Mapping[str, Any]) -> None:
    """Names of volumes and mounts agree, and volume names are unique."""
    for pod in pods(render(values)):
        spec = pod["spec"]
        names = [volume["name"] for volume in spec["volumes"]]
        assert len(set(names)) == len(names)
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            assert mounted <= set(names)


def test_selectors_choose_only_their_own_pods(render: Render) -> None:
    """No two workloads select the same pod, and each budget selects one workload."""
    manifests = render(EVERYTHING)
    workloads = of_kind(manifests, "StatefulSet", "Deployment")
    budgets = of_kind(manifests, "PodDisruptionBudget")
    assert len(budgets) == 2
    for selecting in [*workloads.values(), *budgets.values()]:
        wanted = selecting["spec"]["selector"]["matchLabels"].items()
        chosen = [
            name
            for name, workload in workloads.items()
            if wanted <= workload["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert chosen == [selecting["metadata"]["name"]]


def test_every_node_gets_its_workers(render: Render) -> None:
    """Without `nodes` the release serves every node of the topology, with names that fit."""
    found = of_kind(render(BASE), "StatefulSet")
    assert len(found) == 3
    for name, workload in found.items():
        assert len(name) <= 52
        assert name == name.lower()
        assert name[-1] != "-"
        assert workload["spec"]["replicas"] == 1
        assert workload["spec"]["podManagementPolicy"] == "Parallel"
        assert "volumeClaimTemplates" not in workload["spec"]
    served = {
        workload["spec"]["template"]["spec"]["containers"][0]["command"][3]
        for workload in found.values()
    }
    assert served == {"tk1", "NY1", LONG}


def test_nodes_choose_what_a_site_serves(render: Render) -> None:
    """Named nodes only, each with its own number of workers and resources."""
    manifests = render(EVERYTHING)
    found = of_kind(manifests, "StatefulSet")
    assert {name: m["spec"]["replicas"] for name, m in found.items()} == {
        "rel-trellis-mesh-tk1": 2,
        "rel-trellis-mesh-ny1": 3,
    }
    assert worker(manifests)["resources"] == {"limits": {"memory": "1Gi"}}
    assert worker(manifests, "rel-trellis-mesh-ny1")["resources"]["requests"]["cpu"] == "250m"


def test_zero_workers_stay_zero(render: Render) -> None:
    """A node can be scaled away: 0 is not taken for `not set`."""
    found = of_kind(render({**BASE, "nodes": {"tk1": {"workers": 0}}}), "StatefulSet")
    assert found["rel-trellis-mesh-tk1"]["spec"]["replicas"] == 0


def test_topology_is_read_by_the_worker(render: Render, tmp_path: Path) -> None:
    """The ConfigMap is the topology file as the worker reads it."""
    config = of_kind(render(BASE), "ConfigMap")["rel-trellis-mesh-topology"]
    file = tmp_path / "mesh.yaml"
    file.write_text(config["data"]["mesh.yaml"], encoding="utf-8")
    topology = load_legal_topology(file)
    assert topology.name == "worldwide"
    assert sorted(topology.nodes) == sorted(SPEC["nodes"])


def test_new_topology_restarts_the_pods(render: Render) -> None:
    """The checksum changes with the topology and with nothing else."""

    def checksums(values: Mapping[str, Any]) -> set[str]:
        return {
            pod["metadata"]["annotations"]["checksum/topology"]
            for pod in pods(render(values))
            if "annotations" in pod["metadata"]
        }

    changed = {"topology": {"name": "other", "spec": SPEC}}
    applied = {"apply": {"enabled": True}}
    fewer = {**SPEC, "zones": {}}
    rack = {
        **SPEC,
        "kafka": {**SPEC["kafka"], "tokyo": {**SPEC["kafka"]["tokyo"], "client.rack": "r"}},
    }
    followed, links, kafka = (
        checksums({"topology": {"name": "worldwide", "spec": spec, **applied}})
        for spec in (SPEC, fewer, rack)
    )
    # A running node follows other links, and reads at its start how it reaches Kafka.
    assert followed == links != kafka
    assert len(checksums(BASE)) == 1
    assert checksums(BASE) == checksums({**BASE, "workers": 5})
    assert checksums(BASE) != checksums(changed)


def parsed_by(command: Sequence[str], arguments: Sequence[str]) -> Mapping[str, Any]:
    """Let the real command line take apart what the chart passes."""
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    parameters: Mapping[str, Any] = found.make_context(command[-1], list(arguments)).params
    return parameters


def test_workers_get_a_command_line_that_exists(render: Render) -> None:
    """`mesh node run` takes every argument that the chart gives it; the probe looks at its file."""
    container = worker(render(EVERYTHING))
    program, *rest = container["command"]
    assert (program, rest[:2]) == ("mesh", ["node", "run"])
    parsed = parsed_by(["node", "run"], rest[2:])
    assert parsed["node"] == "tk1"
    assert str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    assert list(parsed["bootstrap"]) == ["tokyo=kafka.tokyo.svc:9092"]
    assert parse_address(str(parsed["listen"])) == ("", 8080)
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert {level_of(str(parsed["log_level"]))} == {logging.INFO}


def test_workers_send_spans_where_they_are_told(render: Render) -> None:
    """And a policy lets them; without it they neither make nor send any."""
    manifests = render(EVERYTHING)
    container = worker(manifests)
    assert parsed_by(["node", "run"], container["command"][3:])["traces"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.observe:4318"
    egress = of_kind(manifests, "NetworkPolicy")["rel-trellis-mesh"]["spec"]["egress"]
    assert {"protocol": "TCP", "port": 4318} in [port for one in egress for port in one["ports"]]
    assert "--traces" not in worker(render(BASE))["command"]


def test_probes_ask_what_the_port_answers(render: Render) -> None:
    """A path that the port does not know would never be well."""
    container = worker(render(EVERYTHING))
    port = Port("tk1")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == container["ports"][0]["name"]
        assert port.answer(asked["path"])[0] is not HTTPStatus.NOT_FOUND
    live = container["livenessProbe"]
    # A loop that hangs is found by the port itself; the pod is not killed for one slow answer.
    assert live["failureThreshold"] * live["periodSeconds"] <= 30
    assert not {"startupProbe", "readinessProbe"} & worker(render(MATRIX["bare"])).keys()


def test_each_node_has_its_own_secrets_environment_and_place(render: Render) -> None:
    """Least privilege: no worker mounts what another one needs."""
    values = {
        **EVERYTHING,
        "traces": {"enabled": False},
        "credentials": {"tokyo": {"existingSecret": "all"}},
        "nodes": {
            "tk1": {
                "credentials": {
                    "tokyo": {"existingSecret": "own"},
                    "newyork": {"existingSecret": "far"},
                },
                "extraEnv": [{"name": "B", "value": "2"}],
                "nodeSelector": {"disk": "fast"},
                "tolerations": [],
            },
            "NY1": None,
        },
    }
    found = of_kind(render(values), "StatefulSet")
    own, other = (
        found[f"rel-trellis-mesh-{name}"]["spec"]["template"]["spec"] for name in ("tk1", "ny1")
    )

    def secrets(spec: Manifest) -> dict[str, str]:
        return {v["name"]: v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}

    assert secrets(own) == {"kafka-tokyo": "own", "kafka-newyork": "far"}
    assert secrets(other) == {"kafka-tokyo": "all"}
    assert [one["name"] for one in own["containers"][0]["env"]][1:] == ["A", "B"]
    assert [one["name"] for one in other["containers"][0]["env"]][1:] == ["A"]
    assert own["nodeSelector"] == {"disk": "fast"}
    assert "tolerations" not in own
    assert other["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert other["tolerations"]
    assert own["serviceAccountName"] == other["serviceAccountName"] == "mesh"
    assert own["imagePullSecrets"] == other["imagePullSecrets"] == [{"name": "pull"}]


def test_an_evaluation_needs_no_kafka(render: Render) -> None:
    """A broker per Kafka cluster, whose address every command of the release is given."""
    manifests = render(MATRIX["evaluation"])
    brokers = {
        m["metadata"]["labels"]["mesh/kafka"]: m
        for m in of_kind(manifests, "StatefulSet").values()
        if "mesh/kafka" in m["metadata"]["labels"]
    }
    assert set(brokers) == set(SPEC["kafka"])
    services = of_kind(manifests, "Service")
    addresses = set()
    for name, broker in brokers.items():
        container = broker["spec"]["template"]["spec"]["containers"][0]
        address = {one["name"]: one["value"] for one in container["env"]}["ADVERTISED"]
        host, _, port = address.partition(":")
        service = services[host]["spec"]
        wanted = service["selector"].items()
        assert wanted <= broker["spec"]["template"]["metadata"]["labels"].items()
        assert str(service["ports"][0]["port"]) == port
        assert "volumeClaimTemplates" not in broker["spec"]
        addresses.add(f"{name}={address}")
    commands = [worker(manifests)["command"]]
    jobs = of_kind(manifests, "Job")
    commands += [
        jobs[f"rel-trellis-mesh-{name}"]["spec"]["template"]["spec"]["containers"][0]["command"]
        for name in ("apply", "doctor")
    ]
    for command in commands:
        assert addresses == {command[i + 1] for i, w in enumerate(command) if w == "--bootstrap"}
    with pytest.raises(helm_python.HelmRenderError, match="the brokers are named by"):
        render({**MATRIX["own config map"], "evaluationKafka": {"enabled": True}})


def test_a_changed_topology_is_applied_by_a_job_that_can_fail_the_upgrade(render: Render) -> None:
    """It runs after the workloads, carries the new topology, and takes its arguments."""
    job = of_kind(render(MATRIX["evaluation"]), "Job")["rel-trellis-mesh-apply"]
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    assert hooks == ["post-install", "post-upgrade", "post-rollback"]
    given = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert given[:2] == ["mesh", "apply"]
    parsed = parsed_by(["apply"], given[2:])
    assert parsed["yes"]
    assert parsed["unattended"]
    assert parsed["wait"] == 120
    assert str(parsed["proposed"]) == str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    assert job["spec"]["activeDeadlineSeconds"] > parsed["wait"]
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [EXIT_WRONG_INPUT, EXIT_NOT_WELL],
    }
    assert "rel-trellis-mesh-apply" not in of_kind(render(BASE), "Job")


def test_the_other_sites_compare_and_fail(render: Render) -> None:
    """They ask until what is in force is theirs, or time is up; what no mesh can follow ends it."""
    manifests = render(MATRIX["another site"])
    job = of_kind(manifests, "Job")["rel-trellis-mesh-compare"]
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    assert hooks == ["post-install", "post-upgrade", "post-rollback"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][:2] == ["mesh", "plan"]
    parsed = parsed_by(["plan"], container["command"][2:])
    assert str(parsed["proposed"]) == str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    assert parsed["allow_delete"]
    assert parsed["within"] == 120
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    ends = [EXIT_WRONG_INPUT, EXIT_CHANGES]  # it has waited itself
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", ends)
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert job["spec"]["activeDeadlineSeconds"] > 120
    # Nodes that run follow what is applied elsewhere: no pod of theirs starts again for it.
    fewer = {"topology": {**MATRIX["another site"]["topology"], "spec": {**SPEC, "zones": {}}}}
    assert worker_pods(manifests) == worker_pods(render(fewer))


def worker_pods(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    return {
        name: one["spec"]["template"] for name, one in of_kind(manifests, "StatefulSet").items()
    }


def test_jobs_that_helm_forgets_go_by_themselves(render: Render) -> None:
    """Helm keeps the job of a hook that failed, for its log, and no uninstall removes it."""
    jobs = of_kind(render(MATRIX["evaluation"]), "Job")
    assert len(jobs) == 4
    assert {one["spec"]["ttlSecondsAfterFinished"] for one in jobs.values()} == {86_400}


def test_an_illegal_topology_is_found_before_anything_changes(render: Render) -> None:
    """A job that runs first brings the file that it judges, and nothing of the release."""
    manifests = render(BASE)
    job = of_kind(manifests, "Job")["rel-trellis-mesh-validate"]
    brought = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-validate"]
    weights = []
    for one in (brought, job):
        notes = one["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade,pre-rollback"
        weights.append(int(notes["helm.sh/hook-weight"]))
    assert weights == sorted(set(weights))
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "default"
    assert [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v] == [
        brought["metadata"]["name"]
    ]
    kept = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-topology"]
    assert brought["data"] == kept["data"]
    parsed = parsed_by(["validate"], spec["containers"][0]["command"][2:])
    assert str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    for values in (MATRIX["own config map"], {"topology": {**BASE["topology"], "validate": False}}):
        assert "rel-trellis-mesh-validate" not in of_kind(render(values), "Job")


def test_pods_are_restarted_by_a_job_that_may_do_nothing_else(render: Render) -> None:
    """Its role names each pod of the workers and no other; its arguments each workload."""
    manifests = render(EVERYTHING)
    workloads = of_kind(manifests, "StatefulSet")
    assert {one["spec"]["updateStrategy"]["type"] for one in workloads.values()} == {"OnDelete"}
    role = of_kind(manifests, "Role")["rel-trellis-mesh-rollout"]
    named = {rule["resources"][0]: rule for rule in role["rules"]}
    assert set(named) == {"statefulsets", "pods"}
    assert set(named["statefulsets"]["resourceNames"]) == set(workloads)
    assert named["statefulsets"]["verbs"] == ["get"]
    assert set(named["pods"]["resourceNames"]) == {
        f"{name}-{number}"
        for name, one in workloads.items()
        for number in range(one["spec"]["replicas"])
    }
    assert named["pods"]["verbs"] == ["get", "delete"]
    spec = of_kind(manifests, "Job")["rel-trellis-mesh-rollout"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == role["metadata"]["name"]
    assert spec["containers"][0]["args"] == [
        f"{name}={one['spec']['replicas']}" for name, one in sorted(workloads.items())
    ]
    without = render({**EVERYTHING, "rollout": {"enabled": False}})
    assert not of_kind(without, "Role", "RoleBinding")
    workload = of_kind(without, "StatefulSet")["rel-trellis-mesh-tk1"]
    assert workload["spec"]["updateStrategy"]["type"] == "RollingUpdate"


def test_an_image_has_a_registry_and_a_tag_or_a_digest(render: Render) -> None:
    """What a mirror of a registry needs; a digest wins over a tag."""

    def image(**settings: str) -> str:
        return str(worker(render({**BASE, "image": {"repository": "mesh", **settings}}))["image"])

    digest = f"sha256:{'0a' * 32}"
    assert image(tag="2") == "mesh:2"
    assert image(registry="registry.example/", tag="2") == "registry.example/mesh:2"
    assert image(tag="2", digest=digest) == f"mesh@{digest}"
    assert image() == "mesh:0.1.0"


def test_commands_in_a_pod_know_their_mesh(
    render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kubectl exec POD -- mesh status` needs neither a file nor addresses."""
    manifests = render(EVERYTHING)
    container = worker(manifests)
    brought = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-context"]["data"]
    where = {one["name"]: one.get("value") for one in container["env"]}["XDG_CONFIG_HOME"]
    mounted = next(one for one in container["volumeMounts"] if one["name"] == "context")
    assert mounted["mountPath"] == f"{where}/trellis-mesh"
    for name, text in brought.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = current_context(folder=tmp_path, environment={})
    assert found is not None
    assert str(found.file) == "/etc/mesh/mesh.yaml"
    assert found.addresses == {"tokyo": "kafka.tokyo.svc:9092"}


@pytest.mark.parametrize(("copy", "kept"), COPIES, ids=str)
def test_the_chart_carries_what_infra_has(copy: str, kept: str) -> None:
    """Helm packs nothing from outside of the chart's folder."""
    assert (CHART / copy).read_text() == (CHART.parents[1] / kept).read_text(), (
        f"cp {kept} helm/trellis-mesh/{copy}"
    )


def test_alerts_and_dashboards_are_what_prometheus_and_grafana_read(render: Render) -> None:
    """Placeholders of alerts are Prometheus' own: Helm leaves them alone."""
    on = {"enabled": True, "labels": {"a": "b"}}
    manifests = render({**BASE, "prometheusRule": on, "grafana": on})
    rule = of_kind(manifests, "PrometheusRule")["rel-trellis-mesh"]
    assert rule["spec"] == YAML(typ="safe").load((CHART / "files/alerts.yaml").read_text())
    boards = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-dashboards"]
    assert {json.loads(text)["title"] for text in boards["data"].values()}
    assert rule["metadata"]["labels"]["a"] == boards["metadata"]["labels"]["a"] == "b"


def test_a_network_policy_covers_workers_and_leaves_out_who_asks_others(render: Render) -> None:
    """Brokers are asked by clients, and the rollout asks the API server: both stay open."""
    values = {
        **EVERYTHING,
        "evaluationKafka": {"enabled": True},
        "networkPolicy": {"enabled": True},
    }
    manifests = render(values)
    policy = of_kind(manifests, "NetworkPolicy")["rel-trellis-mesh"]["spec"]
    [left_out] = policy["podSelector"]["matchExpressions"]
    wanted = policy["podSelector"]["matchLabels"].items()
    components = {
        labels["app.kubernetes.io/component"]
        for pod in pods(manifests)
        if wanted <= (labels := pod["metadata"]["labels"]).items()
    }
    closed = components - {*left_out["values"]}
    assert closed == {"worker", "audit", "dashboard", "doctor", "validate"}
    assert {*left_out["values"]} <= components
    [ingress] = policy["ingress"]
    assert [one["port"] for one in ingress["ports"]] == [8080]
    assert "from" not in ingress


def test_budgets_are_for_nodes_that_can_spare_a_worker(render: Render) -> None:
    """A budget of one worker would either forbid every drain or say nothing."""
    found = render({**BASE, "nodes": {"tk1": {"workers": 2}, "NY1": None}})
    assert set(of_kind(found, "PodDisruptionBudget")) == {"rel-trellis-mesh-tk1"}


def test_prometheus_finds_the_workers(render: Render) -> None:
    """The monitor selects the pods of workers by the name of their port."""
    manifests = render({**BASE, "podMonitor": {"enabled": True, "labels": {"release": "p"}}})
    monitor = of_kind(manifests, "PodMonitor")["rel-trellis-mesh"]
    [among] = monitor["spec"]["selector"]["matchExpressions"]
    assert among["values"] == ["worker", "audit"]
    assert monitor["metadata"]["labels"]["release"] == "p"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "http"
    for workload in of_kind(manifests, "StatefulSet").values():
        assert wanted <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_test_job_runs_the_doctor(render: Render) -> None:
    """`helm test` is a job, gone when it succeeded, with arguments that `mesh doctor` takes."""
    job = of_kind(render(EVERYTHING), "Job")["rel-trellis-mesh-doctor"]
    assert job["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    given = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert given[:2] == ["mesh", "doctor"]
    parsed = parsed_by(["doctor"], given[2:])
    assert parsed["wait"] == 5
    assert list(parsed["category"]) == ["kafka"]


def test_audit_is_one_pod_with_a_checkpoint_and_arguments_it_takes(render: Render) -> None:
    """Two auditors on one checkpoint would damage it; the arguments are those of the auditor."""
    manifests = render(EVERYTHING)
    audit = of_kind(manifests, "Deployment")["rel-trellis-mesh-audit"]
    assert audit["spec"]["replicas"] == 1
    assert audit["spec"]["strategy"] == {"type": "Recreate"}
    claim = of_kind(manifests, "PersistentVolumeClaim")["rel-trellis-mesh-audit"]
    assert claim["spec"]["storageClassName"] == "fast"
    spec = audit["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert container["command"][:3] == ["python", "-m", "streaming"]
    parsed = arguments().parse_args(container["command"][3:])
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts[str(parsed.checkpoint)] == "checkpoint"
    assert mounts[str(parsed.file)] == "topology"
    assert parsed.trigger == 2.0
    assert parse_address(parsed.listen) == ("", container["ports"][0]["containerPort"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert (
            AuditPort().answer(container[probe]["httpGet"]["path"])[0] is not HTTPStatus.NOT_FOUND
        )
    assert of_kind(render(BASE), "Deployment") == {}


def test_the_page_is_behind_a_token_and_answers_to_the_names_by_which_it_is_called(
    render: Render,
) -> None:
    """`mesh dashboard` takes what the chart gives it, and would start with that."""
    manifests = render(EVERYTHING)
    deployed = of_kind(manifests, "Deployment")["rel-trellis-mesh-dashboard"]
    labels = deployed["spec"]["template"]["metadata"]["labels"].items()
    [container] = deployed["spec"]["template"]["spec"]["containers"]
    assert container["command"][:2] == ["mesh", "dashboard"]
    parsed = parsed_by(["dashboard"], container["command"][2:])
    name = "rel-trellis-mesh-dashboard"
    assert list(parsed["allowed_host"]) == [
        *(name, f"{name}.mesh", f"{name}.mesh.svc", "mesh.internal", "mesh.example.com")
    ]
    assert list(parsed["bootstrap"]) == ["tokyo=kafka.tokyo.svc:9092"]
    host, port = parse_address(str(parsed["listen"]))
    assert port == container["ports"][0]["containerPort"]
    settings = ServeSettings(
        host=host,
        port=port,
        token="t",
        allowed_hosts=parsed["allowed_host"],
        user_header=parsed["user_header"],
        embedders=parsed["embed"],
        root_path=parsed["root_path"],
    )
    assert settings.access().root_path == "/trellis"
    assert parsed["secure_cookie"]
    [token] = [one for one in container["env"] if one["name"] == "MESH_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "page", "key": "token"}}
    assert {container[f"{one}Probe"]["httpGet"]["path"] for one in ("startup", "liveness")} <= {
        *PROBES
    }
    service = of_kind(manifests, "Service")[name]["spec"]
    assert service["selector"].items() <= labels
    [ingress] = of_kind(manifests, "Ingress").values()
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("mesh.example.com", "/trellis")
    assert path["backend"]["service"] == {
        "name": name,
        "port": {"name": service["ports"][0]["name"]},
    }


def test_a_route_of_the_gateway_leads_to_the_page(render: Render) -> None:
    """It takes the path off below which the page is served: the page does not know it."""
    manifests = render(ROUTED)
    [route] = of_kind(manifests, "HTTPRoute").values()
    [rule] = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/trellis"}}]
    [rewrite] = rule["filters"]
    assert rewrite["urlRewrite"]["path"]["replacePrefixMatch"] == "/"
    [to] = rule["backendRefs"]
    [service] = [
        one
        for one in of_kind(manifests, "Service").values()
        if one["metadata"]["name"] == to["name"]
    ]
    assert to["port"] == service["spec"]["ports"][0]["port"]
    [deployed] = of_kind(manifests, "Deployment").values()
    command = deployed["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "mesh.example.com" in command
    assert "--secure-cookie" not in command  # nobody has said that the gateway speaks HTTPS
    page = {**ROUTED["dashboard"], "secureCookie": True}
    [deployed] = of_kind(render({**ROUTED, "dashboard": page}), "Deployment").values()
    command = deployed["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "--secure-cookie" in command


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "dashboard: everybody who reaches it could read all"),
        ({"userHeader": "U", "ingress": {"enabled": True}}, "dashboard.ingress: name its hosts"),
        ({"userHeader": "U", "httpRoute": {"enabled": True}}, "dashboard.httpRoute: name its"),
    ],
)
def test_a_page_that_nobody_guards_or_finds_is_refused(
    render: Render, settings: Mapping[str, Any], said: str
) -> None:
    """In a line that says what to set."""
    with pytest.raises(helm_python.HelmRenderError, match=said):
        render({**BASE, "dashboard": {"enabled": True, **settings}})


def test_who_may_open_the_page_need_not_be_who_may_scrape(render: Render) -> None:
    """A policy of its own, beside that of all pods."""
    of_whom = {"namespaceSelector": {"matchLabels": {"name": "ingress"}}}
    policy = {"enabled": True, "from": [{"podSelector": {}}], "dashboardFrom": [of_whom]}
    found = of_kind(render({**EVERYTHING, "networkPolicy": policy}), "NetworkPolicy")
    page = found["rel-trellis-mesh-dashboard"]["spec"]
    assert page["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "dashboard"
    assert [one["from"] for one in page["ingress"]] == [[of_whom]]
    assert "rel-trellis-mesh-dashboard" not in of_kind(
        render({**BASE, "networkPolicy": policy}), "NetworkPolicy"
    )


def test_credentials_are_files_that_only_the_worker_reads(render: Render) -> None:
    """The secret of a Kafka cluster is mounted where the topology's options point."""
    spec = of_kind(render(EVERYTHING), "StatefulSet")["rel-trellis-mesh-tk1"]["spec"]["template"][
        "spec"
    ]
    assert {"name": "kafka-tokyo", "mountPath": "/etc/mesh/kafka/tokyo", "readOnly": True} in spec[
        "containers"
    ][0]["volumeMounts"]
    volume = next(one for one in spec["volumes"] if one["name"] == "kafka-tokyo")
    assert volume["secret"] == {"secretName": "tokyo-user", "defaultMode": 0o440}


def test_extra_objects_are_templates(render: Render) -> None:
    """They are passed through `tpl`."""
    assert "blue-extra" in of_kind(render(EVERYTHING, name="blue"), "ConfigMap")


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 2},
        {"image": {"repository": "x", "version": "1"}},
        {"audit": {"enable": True}},
        {"dashboard": {"ingress": {"host": "mesh.example.com"}}},
        {"dashboard": {"rootPath": "trellis/"}},
        {"nodes": {"tk1": {"replicas": 2}}},
        {"credentials": {"tokyo": {"secret": "s"}}},
        {"bootstrap": {"tokyo": "no-port"}},
        {"workers": "two"},
    ],
    ids=str,
)
def test_unknown_and_wrong_keys_are_refused(render: Render, wrong: Mapping[str, Any]) -> None:
    """A typo is an error at install time, not a setting without effect."""
    with pytest.raises(helm_python.HelmError, match=r"schema|additional|Additional|got"):
        render({**BASE, **wrong})


def test_node_that_the_topology_lacks_is_refused(render: Render) -> None:
    """The message names the node and those that exist."""
    with pytest.raises(
        helm_python.HelmRenderError, match=r"nodes\.pa1: .*no such node; it has: NY1"
    ):
        render({**BASE, "nodes": {"pa1": None}})


def test_release_without_nodes_is_refused(render: Render) -> None:
    """The message says what to set."""
    with pytest.raises(helm_python.HelmRenderError, match=r"no nodes to serve: set topology\.spec"):
        render({})


def test_chart_works_below_another(tmp_path: Path) -> None:
    """As a sub-chart it accepts `global` and `enabled`, which Helm puts among its values."""
    (tmp_path / "Chart.yaml").write_text(
        "apiVersion: v2\nname: parent\nversion: 0.1.0\n"
        "dependencies: [{name: trellis-mesh, version: 0.1.0, condition: trellis-mesh.enabled}]\n",
        encoding="utf-8",
    )
    shutil.copytree(CHART, tmp_path / "charts" / "trellis-mesh")
    parent = helm_python.Chart.load(str(tmp_path))
    values = {"global": {"region": "asia"}, "trellis-mesh": {**BASE, "enabled": True}}
    found = manifests_of(parent.render(values, name="rel", namespace="mesh"))
    assert len(of_kind(found, "StatefulSet")) == 3
