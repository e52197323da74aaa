"""The chart renders valid, restricted manifests that start our programs, and refuses typos."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from kubernetes_validate.utils import all_versions  # type: ignore[import-untyped]
from ruamel.yaml import YAML

from mesh.cli.node import level_of
from mesh.config.context import current_context
from mesh.config.legal import load_legal_topology
from mesh.transport.probes import parse_address
from mesh.worker.http.server import Port
from streaming.config import arguments
from streaming.job.port import AuditPort
from tests.helm.conftest import CHART, Manifest, Render, manifests_of
from tests.helm.releases import (
    BASE,
    EVERYTHING,
    LONG,
    MATRIX,
    SPEC,
    of_kind,
    parsed_by,
    pods,
    worker,
)

COPIES = [
    ("files/alerts.yaml", "infra/prometheus/alerts.yaml"),
    *(
        (f"files/dashboards/{path.name}", f"infra/grafana/{path.name}")
        for path in sorted((CHART.parents[1] / "infra" / "grafana").glob("*.json"))
    ),
]


@pytest.fixture(params=MATRIX, scope="module")
def values(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Each set of values of the matrix."""
    return MATRIX[request.param]


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
    six = {"enabled": True, "endpoint": "http://[fd00::1]:4319/v1"}
    egress = of_kind(render({**EVERYTHING, "traces": six}), "NetworkPolicy")["rel-trellis-mesh"]
    assert {"protocol": "TCP", "port": 4319} in egress["spec"]["egress"][-1]["ports"]


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


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_a_probe_may_have_the_times_of_kubernetes(render: Render, probe: str) -> None:
    """All of ours are left out, and what it asks is there."""
    times = dict.fromkeys(("periodSeconds", "timeoutSeconds", "failureThreshold"))
    assert set(worker(render({**BASE, probe: times}))[probe]) == {"httpGet"}


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
        # What it keeps ends with its pod: nobody waits until it has closed that with care.
        assert broker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] <= 5
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


def test_an_evaluation_makes_no_broker_for_a_kafka_cluster_that_is_there(render: Render) -> None:
    """One that `bootstrap` names would have half a gigabyte of a broker that nobody asks."""
    own = {"tokyo": "kafka.tokyo.svc:9092"}
    manifests = render({**MATRIX["evaluation"], "bootstrap": own})
    labels = [one["metadata"]["labels"] for one in of_kind(manifests, "StatefulSet").values()]
    assert {one["mesh/kafka"] for one in labels if "mesh/kafka" in one} == {"newyork"}
    assert "tokyo=kafka.tokyo.svc:9092" in worker(manifests)["command"]


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
    folder = tmp_path / "trellis-mesh"
    folder.mkdir()
    for name, text in brought.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MESH_CONTEXT", raising=False)
    found = current_context()
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
    assert closed == {"worker", "audit", "doctor", "validate"}  # the page's is in test_page.py
    assert {*left_out["values"]} <= components
    [ingress] = policy["ingress"]
    assert [one["port"] for one in ingress["ports"]] == [8080]
    assert "from" not in ingress


def test_a_network_policy_lets_dns_through_where_it_listens(render: Render) -> None:
    """Policies see the port of the pods behind a Service, which is not 53 everywhere."""

    def dns(**more: object) -> set[tuple[str, int]]:
        values = {**BASE, "networkPolicy": {"enabled": True, **more}}
        policy = of_kind(render(values), "NetworkPolicy")["rel-trellis-mesh"]["spec"]
        return {(one["protocol"], one["port"]) for one in policy["egress"][0]["ports"]}

    assert dns() == {("UDP", 53), ("TCP", 53)}
    assert dns(dnsPorts=[53, 5353]) == {*dns(), ("UDP", 5353), ("TCP", 5353)}


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
