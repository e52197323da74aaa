"""Odd values give manifests that an API server takes, or are refused in a line that names them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import helm_python
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from kubernetes_validate.utils import all_versions  # type: ignore[import-untyped]
from ruamel.yaml import YAML

from mesh.config.kafka_options import bootstrap_fault
from mesh.transport.kafka.settings import is_secret
from tests.helm.conftest import CHART, Manifest, Render, manifests_of
from tests.helm.values_table import defaults, leaves

NEWEST = all_versions()[-1]
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
NAME_MAX = {"StatefulSet": 52}
OF_OPERATORS = ("PodMonitor", "PrometheusRule", "HTTPRoute")
"""Kinds of which nobody has a schema here."""

SPEC: Mapping[str, Any] = {
    "kafka": {name: {"bootstrap.servers": f"{name}:9092"} for name in ("tokyo", "newyork")},
    "nodes": {"tk1": {"kafka": "tokyo"}, "ny1": {"kafka": "newyork"}},
    "zones": {"WO": {"kind": "multi-hop", "links": [["tk1", "ny1"]]}},
}
BASE: Mapping[str, Any] = {"topology": {"name": "worldwide", "spec": SPEC}}


def well_formed(manifests: Sequence[Manifest]) -> None:
    """Check what an API server checks, schemas of Kubernetes and more."""
    assert manifests
    seen = set()
    for one in manifests:
        kind, name = one["kind"], one["metadata"]["name"]
        if kind not in OF_OPERATORS:
            kubernetes_validate.validate(dict(one), NEWEST, strict=True)
        assert NAME.fullmatch(name), name
        assert len(name) <= NAME_MAX.get(kind, 63), name
        assert kind != "Service" or name[0].isalpha(), name
        assert (kind, name) not in seen, f"two of {kind} {name}"
        seen.add((kind, name))
        for labels in labels_of(one):
            for key, value in labels.items():
                assert LABEL.fullmatch(value), (key, value)
                assert len(value) <= 63, (key, value)
        if (pod := one.get("spec", {}).get("template")) is not None:
            well_made(one, pod)


def labels_of(manifest: Manifest) -> Iterator[Mapping[str, str]]:
    yield manifest["metadata"]["labels"]
    spec = manifest.get("spec", {})
    if (pod := spec.get("template")) is not None:
        yield pod["metadata"]["labels"]
    if isinstance(chosen := spec.get("selector"), Mapping):
        yield chosen.get("matchLabels", chosen)


def well_made(workload: Manifest, pod: Manifest) -> None:
    if workload["kind"] != "Job":
        wanted = workload["spec"]["selector"]["matchLabels"].items()
        assert wanted <= pod["metadata"]["labels"].items()
    volumes = [one["name"] for one in pod["spec"]["volumes"]]
    assert len(set(volumes)) == len(volumes)
    for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
        mounts = container.get("volumeMounts", [])
        assert {one["name"] for one in mounts} <= set(volumes)
        assert len({one["mountPath"] for one in mounts}) == len(mounts)
        names = [one["name"] for one in container.get("env", [])]
        assert len(set(names)) == len(names), f"twice in {container['name']}: {names}"


def over(values: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return values with one more, by its path."""
    name, _, rest = path.partition(".")
    below = values.get(name) or {}
    return {**values, name: over(below, rest, value) if rest else value}


OF_THE_CHART = ("XDG_CONFIG_HOME", "OTEL_EXPORTER_OTLP_ENDPOINT", "MESH_CACHE", "MESH_TOKEN")
NODES = ("a", "A1", "0", "on", "null", "1e3", "n" * 63 + "-", "n" * 64, "x-", "kafka", "dashboard")
KAFKA = ("k", "On", "0x10", "k" * 64, "yes", "K-")
LABELS = {"team": "on", "app.kubernetes.io/component": "mine", "mesh/node": "1", "x/y": ""}
CHOICES: Mapping[str, Sequence[object]] = {
    "nameOverride": ["on", "123", "n" * 63],
    "fullnameOverride": ["on", "m", "m" * 63, "null"],
    "image": [
        {"repository": "m", "registry": "r:5000/x/", "digest": f"sha256:{'0a' * 32}"},
        {"repository": "m", "tag": "1e3"},
    ],
    "imagePullSecrets": [[{"name": "on"}]],
    "topology.validate": [False],
    "topology.apply.enabled": [True],
    "topology.compare.enabled": [True],
    "workers": [0, 1, 3],
    "rollout": [{"enabled": False}, {"podSeconds": 2_000_000}],
    "resources": [
        {},
        {"limits": {"memory": "1Gi"}},
        {
            "requests": {"memory": "0.5G", "cpu": 0.25, "a.b/c": 1, "ephemeral-storage": "1e6"},
            "limits": {"memory": 5e8, "cpu": "250m", "a.b/c": "1", "ephemeral-storage": "1000k"},
        },
    ],
    "port": [1024, 65535],
    "logLevel": ["debug", "error"],
    "startupProbe": [{"enabled": False}, {"initialDelaySeconds": 0}],
    "traces": [
        {"enabled": True, "endpoint": "https://collector:4318/v1/traces"},
        {"enabled": True, "endpoint": "http://[fd00::1]:4318/a%20b?c=d"},
    ],
    "podMonitor": [{"enabled": True, "interval": "1m", "labels": LABELS}],
    "prometheusRule": [{"enabled": True, "labels": LABELS}],
    "grafana": [{"enabled": True, "labels": LABELS}],
    "networkPolicy": [
        {"enabled": True, "from": [{"podSelector": {}}]},
        {"enabled": True, "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    ],
    "terminationGracePeriodSeconds": [0, 2_000_000],
    "podDisruptionBudget": [{"maxUnavailable": "50%"}, {"maxUnavailable": 0}, {"enabled": False}],
    "topologySpread": [{"enabled": False}, {"topologyKey": "on", "maxSkew": 5}],
    "serviceAccount": [{"create": False}, {"create": False, "name": "on"}, {"name": "123"}],
    "podSecurityContext": [{}, {"runAsUser": 1000660000}],
    "labels": [LABELS],
    "annotations": [{"a": "null", "checksum/topology": "mine"}],
    "podLabels": [LABELS, {"team": "other"}],
    "podAnnotations": [{"a": "null", "checksum/topology": "mine"}],
    "nodeSelector": [{"kubernetes.io/arch": "on"}],
    "tolerations": [
        [{"operator": "Exists"}],
        [{"key": "", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        [{"key": "a.b/c", "value": "on", "effect": ""}],
    ],
    "affinity": [{"nodeAffinity": {}}],
    "priorityClassName": ["on", "1"],
    "extraEnv": [
        [{"name": "A", "value": "{{ .Release.Name }}"}],
        [{"name": name, "value": "ours"} for name in (*OF_THE_CHART, "A", "A")],
    ],
    "extraEnvFrom": [
        [{"secretRef": {"name": "on"}}, {"prefix": "A_", "configMapRef": {"name": "a.b"}}]
    ],
    "extraObjects": [
        [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "more", "labels": {"a": "{{ .Release.Name }}"}},
            }
        ]
    ],
    "audit": [
        {"enabled": True},
        {"enabled": True, "checkpoint": {"enabled": False}, "cacheSize": "1"},
        {"enabled": True, "checkpoint": {"storageClass": "on", "size": "0.5Gi"}},
        {"enabled": True, "checkpoint": {"existingClaim": "123"}, "extraArgs": ["--trigger", "2"]},
    ],
    "dashboard": [
        {"enabled": True, "existingSecret": "123"},
        {"enabled": True, "userHeader": "X-User", "service": {"type": "NodePort", "port": 65535}},
        {
            "enabled": True,
            "existingSecret": "on",
            "rootPath": "/a/b",
            "embed": ["https://*.example.com:8443"],
            "ingress": {"enabled": True, "className": "on", "hosts": ["on", "a.b.c"]},
        },
        {
            "enabled": True,
            "userHeader": "on",
            "httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}], "hostnames": ["null"]},
        },
    ],
    "evaluationKafka": [{"enabled": True}, {"enabled": True, "size": "1"}],
    "test": [{"enabled": False}, {"waitSeconds": 0, "extraArgs": ["-v"]}],
}


def drawn(seed: int) -> tuple[str, dict[str, Any]]:
    """Return the name of a release and values for it."""
    chance = Random(seed)
    kafka = chance.sample(KAFKA, chance.randint(1, 3))
    nodes = chance.sample(NODES, chance.randint(1, 5))
    spec: dict[str, Any] = {
        "kafka": {name: chance.choice([None, {}, {"client.rack": "on"}]) for name in kafka},
        "nodes": {name: {"kafka": chance.choice(kafka)} for name in nodes},
        "zones": {},
    }
    values: dict[str, Any] = {"topology": {"name": chance.choice(["on", "m" * 64]), "spec": spec}}
    for path, among in CHOICES.items():
        if chance.random() < 0.3:
            values = over(values, path, chance.choice(among))
    if not values.get("evaluationKafka"):
        values["bootstrap"] = dict.fromkeys(kafka, "broker:9092,other:9093")
    if chance.random() < 0.3 and not values.get("evaluationKafka"):
        secrets = {name: {"existingSecret": chance.choice(["on", "123"])} for name in kafka}
        values["credentials"] = secrets
        env = [{"name": name, "value": "own"} for name in ("A", *OF_THE_CHART[:2])]
        own = {"workers": 2, "extraEnv": env, "credentials": {kafka[-1]: {"existingSecret": "own"}}}
        values["nodes"] = {nodes[0]: own, nodes[-1]: None} if len(nodes) > 1 else {nodes[0]: own}
    if values["topology"].get("apply") and values["topology"].get("compare"):
        del values["topology"]["apply"]
    release = chance.choice(["rel", "on", "a" * 53, "trellis-mesh", "my.release", "a--b"])
    return release, values


@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_valid_gives_what_an_api_server_takes(render: Render, seed: int) -> None:
    release, values = drawn(seed)
    well_formed(render(values, release))


def test_long_names_of_releases_stay_apart(render: Render) -> None:
    """Two sites in one namespace, whose names differ at their end."""
    names = [
        f"{'worldwide-event-mesh-of-the-company' * 2}"[:46] + end for end in ("-tokyo", "-paris")
    ]
    found = [
        {(one["kind"], one["metadata"]["name"]) for one in render(BASE, name)} for name in names
    ]
    assert not found[0] & found[1]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("east", "rel-east"),
        ("mesh_East", "rel-mesh-east"),
        ("_2", "rel-2"),
        *(("x" * length, None) for length in (58, 60, 70)),  # what says the version is cut
    ],
)
def test_a_parent_chart_may_call_it_otherwise(tmp_path: Path, alias: str, name: str | None) -> None:
    """Helm takes any letters, digits, hyphens and underscores as the alias of a dependency."""
    values = {alias: BASE, "global": {"imageRegistry": "registry.example"}}
    parent = parent_of(tmp_path, alias)
    manifests = manifests_of(parent.render(values, name="rel", namespace="mesh"))
    well_formed(manifests)
    assert name is None or name in {one["metadata"]["name"] for one in manifests}


def parent_of(folder: Path, *aliases: str) -> helm_python.Chart:
    """Return a chart that has this one as a dependency, once under each of these names."""
    shutil.copytree(CHART, folder / "charts" / CHART.name)
    about = YAML(typ="safe").load((CHART / "Chart.yaml").read_text("utf-8"))
    named = {one: about[one] for one in ("name", "version")}
    wanted = [{**named, "repository": "", "alias": alias} for alias in aliases]
    parent = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": wanted}
    (folder / "Chart.yaml").write_text(json.dumps(parent))
    return helm_python.Chart.load(str(folder))


def test_sites_of_one_release_stay_apart_whatever_it_is_called(tmp_path: Path) -> None:
    """Its name may contain those of all of them."""
    parent = parent_of(tmp_path, "eu", "us")
    files = parent.render({"eu": BASE, "us": BASE}, name="museum", namespace="mesh")
    manifests = manifests_of(files)
    well_formed(manifests)
    assert {"museum-eu", "museum-us"} <= {one["metadata"]["name"] for one in manifests}


def test_templates_of_a_parent_chart_are_not_taken_for_ours(tmp_path: Path, render: Render) -> None:
    """All charts share the names of theirs: `helm create mesh` makes some that begin with `mesh.`."""
    parts = "".join(path.read_text("utf-8") for path in (CHART / "templates").glob("**/*.*"))
    ours = re.findall(r'define "(.*?)"', parts)
    assert ours
    assert {name.partition(".")[0] for name in ours} == {CHART.name}
    shutil.copytree(CHART, tmp_path / "charts" / CHART.name)
    (tmp_path / "Chart.yaml").write_text('{"apiVersion": "v2", "name": "mesh", "version": "1.0.0"}')
    (tmp_path / "templates").mkdir()
    theirs = (
        f'{{{{- define "mesh.{name.partition(".")[2]}" }}}}theirs{{{{ end -}}}}' for name in ours
    )
    (tmp_path / "templates" / "_helpers.tpl").write_text("\n".join(theirs))
    parent = helm_python.Chart.load(str(tmp_path))
    found = manifests_of(parent.render({CHART.name: BASE}, name="rel", namespace="mesh"))
    assert found == render(BASE)


def paths(values: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the path of every value and of every mapping of values."""
    for name, value in values.items():
        yield f"{at}{name}"
        if isinstance(value, Mapping):
            yield from paths(value, f"{at}{name}.")


EVERYTHING_ON: Mapping[str, Any] = {
    **BASE,
    "workers": 2,
    "audit": {"enabled": True},
    "dashboard": {"enabled": True, "existingSecret": "page"},
    "evaluationKafka": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafana": {"enabled": True},
}


AS_GIVEN = re.compile(r"(podS|s)ecurityContext\..*")
"""What is handed to Kubernetes as it is."""


@pytest.mark.parametrize("path", [p for p in paths(defaults()) if not AS_GIVEN.fullmatch(p)])
def test_a_value_of_null_is_left_out_or_refused_by_its_name(render: Render, path: str) -> None:
    """As `--set image=null` does it: never an error of a template."""
    try:
        manifests = render(over(EVERYTHING_ON, path, None))
    except helm_python.HelmError as error:
        said = str(error)
    else:
        well_formed(manifests)
        return
    assert path.rpartition(".")[2] in said
    assert "template:" not in said


def objects(schema: Mapping[str, Any], below: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the path of each mapping whose keys are all known."""
    if "$ref" in below:
        below = schema["definitions"][below["$ref"].rpartition("/")[2]]
    if below.get("additionalProperties") is False:
        yield at
    for name, one in below.get("properties", {}).items():
        yield from objects(schema, one, f"{at}.{name}".strip("."))
    if isinstance(more := below.get("additionalProperties"), Mapping):
        yield from objects(schema, more, f"{at}.tokyo" if "credentials" in at else f"{at}.tk1")


SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("at", list(objects(SCHEMA, SCHEMA)))
def test_an_unknown_key_is_refused_by_its_name(render: Render, at: str) -> None:
    with pytest.raises(helm_python.HelmError, match="wrokers"):
        render(over(BASE, f"{at}.wrokers".strip("."), 1))


def test_every_value_has_a_place_in_the_draws() -> None:
    """A value that is new is drawn too, or known not to matter to what is rendered."""
    drawn_at = {path.partition(".")[0] for path in CHOICES}
    elsewhere = {"topology", "nodes", "credentials", "bootstrap", "enabled", "global"}
    alike = {
        *("livenessProbe", "readinessProbe", "securityContext"),
        *("extraVolumes", "extraVolumeMounts", "extraInitContainers", "extraContainers"),
    }
    assert {path.partition(".")[0] for path, _ in leaves(defaults())} == (
        drawn_at | elsewhere | alike
    )


def test_a_variable_is_what_is_said_of_it_nearest(render: Render) -> None:
    """A name that comes twice is refused by some API servers, and merged by name by others."""
    said = over(
        BASE, "extraEnv", [{"name": name, "value": "release"} for name in ("A", *OF_THE_CHART)]
    )
    for path, value in {
        "nodes": {"tk1": {"extraEnv": [{"name": "A", "value": "node"}]}, "ny1": None},
        "traces": {"enabled": True, "endpoint": "http://collector:4318"},
        "audit.enabled": True,
        "dashboard": {"enabled": True, "existingSecret": "page"},
    }.items():
        said = over(said, path, value)
    env = {
        (manifest["metadata"]["name"], one["name"]): one.get("value")
        for manifest in render(said)
        if manifest["kind"] in ("StatefulSet", "Deployment")
        for one in manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    tk1, ny1, audit, page = (
        f"rel-trellis-mesh-{name}" for name in ("tk1", "ny1", "audit", "dashboard")
    )
    assert [env[pod, "A"] for pod in (tk1, ny1, audit, page)] == ["node", *["release"] * 3]
    assert [env[pod, "OTEL_EXPORTER_OTLP_ENDPOINT"] for pod in (tk1, ny1)] == ["release"] * 2
    assert env[audit, "MESH_CACHE"] == env[page, "XDG_CONFIG_HOME"] == "release"
    assert env[page, "MESH_TOKEN"] is None, "of the Secret that is named for the page alone"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bootstrap": {"tokio": "a:1"}}, "bootstrap.tokio: .* has no such Kafka cluster; it has: newyork, tokyo"),
        ({"credentials": {"tokio": {"existingSecret": "s"}}}, "credentials.tokio: "),
        ({"nodes": {"tk1": {"credentials": {"k": {"existingSecret": "s"}}}}}, "nodes.tk1.credentials.k: "),
        ({"nodes": {"tk9": None}}, "nodes.tk9: topology.spec.nodes has no such node"),
        ({"fullnameOverride": "My_Mesh"}, "fullnameOverride"),
        ({"fullnameOverride": "1mesh"}, "a Service's name begins with a letter"),
        ({"nameOverride": "a-"}, "nameOverride"),
        ({"labels": {"a": "b c"}}, "labels"),
        ({"podLabels": {"a b": "c"}}, "'a b' does not match"),
        ({"priorityClassName": "High"}, "priorityClassName"),
        ({"podDisruptionBudget": {"maxUnavailable": "some"}}, "maxUnavailable"),
        ({"credentials": {"tokyo": {"existingSecret": "My Secret"}}}, "existingSecret"),
        ({"credentials": {"tokyo": {"existingSecret": ""}}}, "existingSecret"),
        ({"topology": {"spec": {"nodes": ["tk1"]}}}, "nodes"),
        ({"topology": {"spec": {"kafka": "tokyo:9092"}}}, "kafka"),
        ({"topology": {"spec": {"kafka": {"tokyo": "tokyo:9092"}}}}, "/topology/spec/kafka/tokyo': got string"),
        ({"topology": {"spec": {"nodes": {"tk1": "tokyo"}}}}, "/topology/spec/nodes/tk1': got string"),
        ({"topology": {"spec": {"zones": {"WO": ["tk1", "ny1"]}}}}, "/topology/spec/zones/WO': got array"),
        ({"bootstrap": {"tokyo": "a,b:9092"}}, "/bootstrap/tokyo': 'a,b:9092' does not match"),
        ({"tolerations": [{"key": "mesh", "op": "Exists"}]}, "/tolerations/0': additional properties 'op' not allowed"),
        ({"dashboard": {"embed": ["https://portal.example.com/"]}}, "embed"),
        ({"dashboard": {"userHeader": "X User"}}, "userHeader"),
        ({"dashboard": {"ingress": {"hosts": ["Mesh.example.com"]}}}, "hosts"),
        ({"dashboard": {"ingress": {"hosts": ["10.0.0.1"]}}}, "hosts"),
        ({"dashboard": {"httpRoute": {"hostnames": ["a..b"]}}}, "hostnames"),
        ({"topology": {"apply": {"enabled": True}, "compare": {"enabled": True}}}, "topology.compare"),
        ({"topology": {"apply": True}}, "/topology/apply': got boolean, want object"),
        ({"topology": {"existingConfigMap": "mine"}, "nodes": {"tk1": None}}, "topology.existingConfigMap: .* topology.spec"),
        ({"topology": {"spec": {"nodes": {"tk_1": {"kafka": "tokyo"}}}}}, "'tk_1' does not match"),
        ({"topology": {"spec": {"kafka": {"to kyo": {}}}}}, "'to kyo' does not match"),
        ({"topology": {"spec": {"nodes": {"tk1": {"kafka": False}}}}}, "/topology/spec/nodes/tk1/kafka': got boolean"),
        ({"topology": {"spec": {"zones": {"WO": {"links": [["tk1", False]]}}}}}, "/zones/WO/links/0/1': got boolean"),
        ({"topology": {"spec": {"zones": {"WO": {"nodes": ["tk1", True]}}}}}, "/zones/WO/nodes/1': got boolean"),
        ({"topology": {"spec": {"zones": {"J": {"kind": "join", "from": False}}}}}, "/zones/J/from': got boolean"),
        ({"topology": {"spec": {"zones": {"J": {"kind": "join", "to": True}}}}}, "/zones/J/to': got boolean"),
        ({"topology": {"spec": {"nodes": {"tk1": {"realm": False}}}}}, "/nodes/tk1/realm': got boolean"),
        ({"networkPolicy": {"kafkaPorts": []}}, "kafkaPorts"),
        ({"workers": 101}, "/workers': maximum"),
        ({"nodes": {"tk1": {"workers": 1e6}}}, "/nodes/tk1/workers': maximum"),
        ({"resources": {"requests": {"memory": "512MB"}}}, "/resources/requests/memory"),
        ({"resources": {"limits": {"cpu": [1]}}}, "/resources/limits/cpu"),
        ({"nodes": {"tk1": {"resources": {"limits": {"memory": "1 Gi"}}}}}, "/nodes/tk1/resources/limits/memory"),
        ({"evaluationKafka": {"resources": {"limits": {"memory": -1}}}}, "/evaluationKafka/resources/limits/memory"),
        ({"extraEnv": [{"value": "x"}]}, "/extraEnv/0': missing property 'name'"),
        ({"extraEnv": [{"name": "PORT", "value": 8080}]}, "/extraEnv/0/value': got number, want string"),
        ({"extraEnv": [{"name": "1A", "value": ""}]}, "/extraEnv/0/name': '1A' does not match"),
        ({"nodes": {"tk1": {"extraEnv": [{"name": "DEBUG", "value": True}]}}}, "/nodes/tk1/extraEnv/0/value': got boolean"),
        (
            {"extraEnv": [{"name": "A", "value": "", "valueFrom": {"fieldRef": {}}}]},
            "extraEnv: A has value and valueFrom; leave one of them out",
        ),
        (
            {"nodes": {"tk1": {"extraEnv": [{"name": "B", "value": "1", "valueFrom": {}}]}}},
            "nodes.tk1.extraEnv: B has value and valueFrom",
        ),
        ({"tolerations": [{"key": "mesh", "value": True}]}, "/tolerations/0/value': got boolean, want string"),
        ({"imagePullSecrets": [{"name": "My Secret"}]}, "/imagePullSecrets/0/name"),
        ({"extraContainers": [{"name": "worker", "image": "a"}]}, "two containers of node ny1 would be called worker"),
        (
            {
                "nodes": {"tk1": {"extraInitContainers": [{"name": "a", "image": "a"}]}},
                "extraInitContainers": [{"name": "a", "image": "a"}],
            },
            "two containers of node tk1 would be called a",
        ),
        ({"extraContainers": [{"name": "Side_Car", "image": "a"}]}, "/extraContainers/0/name"),
        ({"extraVolumes": [{"emptyDir": {}}]}, "/extraVolumes/0': missing property 'name'"),
        ({"extraVolumeMounts": [{"name": "a"}]}, "/extraVolumeMounts/0': missing property 'mountPath'"),
        ({"extraContainers": [{"image": "a"}]}, "/extraContainers/0': missing property 'name'"),
        ({"imagePullSecrets": [{"secret": "a"}]}, "/imagePullSecrets/0': missing property 'name'"),
        ({"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}, "extraVolumes: .* tmp"),
        ({"extraVolumes": [{"name": "a", "emptyDir": {}}] * 2}, "extraVolumes: two are called a"),
        (
            {
                "credentials": {"tokyo": {"existingSecret": "s"}},
                "extraVolumes": [{"name": "kafka-tokyo", "emptyDir": {}}],
            },
            "extraVolumes: .* kafka-tokyo",
        ),
        ({"extraVolumeMounts": [{"name": "a", "mountPath": "/a"}]}, "extraVolumeMounts: no volume is called a"),
        ({"extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}, "extraVolumeMounts: .* at /tmp already"),
        ({"extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp/"}]}, "extraVolumeMounts: .* at /tmp already"),
        ({"extraVolumeMounts": [{"name": "tmp", "mountPath": "tmp"}]}, "/extraVolumeMounts/0/mountPath': 'tmp' does not match"),
        *(
            (
                {
                    "credentials": {"tokyo": {"existingSecret": "s"}},
                    "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
                    "extraVolumeMounts": [{"name": "ca", "mountPath": path}],
                },
                said,
            )
            for path, said in {
                "/etc/mesh/kafka/tokyo/ca": "extraVolumeMounts: /etc/mesh/kafka/tokyo is mounted read-only",
                "/etc/mesh/mesh.yaml/ca": "extraVolumeMounts: /etc/mesh/mesh.yaml is mounted read-only",
                "/etc/mesh/kafka/": "extraVolumeMounts: /etc/mesh/kafka would hide /etc/mesh/kafka/tokyo",
                "/": "extraVolumeMounts: / would hide ",
            }.items()
        ),
        ({"extraVolumeMounts": [{"name": "cache", "mountPath": "/a"}]}, "extraVolumeMounts: no volume is called cache in every pod"),
        (
            {
                "nodes": {"tk1": {"credentials": {"tokyo": {"existingSecret": "s"}}}},
                "extraVolumeMounts": [{"name": "kafka-tokyo", "mountPath": "/a"}],
            },
            "extraVolumeMounts: no volume is called kafka-tokyo in every pod",
        ),
        (
            {
                "audit": {"enabled": True},
                "extraVolumes": [{"name": "a", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "a", "mountPath": "/cache"}],
            },
            "extraVolumeMounts: .* at /cache already",
        ),
        ({"extraVolumeMounts": [{"name": "tmp", "mountPath": "/a:b"}]}, "/extraVolumeMounts/0/mountPath': '/a:b' does not match"),
        ({"extraEnvFrom": [{"prefix": "A_"}]}, "extraEnvFrom: each names a source, by secretRef or by"),
        ({"extraEnvFrom": [{"secretRef": {}}]}, "/extraEnvFrom/0/secretRef': missing property 'name'"),
        ({"extraEnv": [{"name": "A", "valueFrom": {}}]}, "extraEnv: valueFrom of A names one source"),
        ({"networkPolicy": {"from": [{}]}}, "/networkPolicy/from/0': minProperties"),
        ({"networkPolicy": {"from": [{"podselector": {}}]}}, "'podselector' not allowed"),
        ({"networkPolicy": {"dashboardFrom": [{"ipBlock": {}}]}}, "/dashboardFrom/0/ipBlock': missing property 'cidr'"),
        ({"topologySpread": {"topologyKey": "a b"}}, "/topologySpread/topologyKey': 'a b' does not match"),
        ({"topologySpread": {"maxSkew": 1e6}}, "/topologySpread/maxSkew': maximum"),
        ({"podDisruptionBudget": {"maxUnavailable": 1e6}}, "/podDisruptionBudget/maxUnavailable': maximum"),
        ({"terminationGracePeriodSeconds": 1e19}, "/terminationGracePeriodSeconds': maximum"),
        ({"rollout": {"podSeconds": 3e9}}, "/rollout/podSeconds': maximum"),
        ({"readinessProbe": {"periodSeconds": 3e9}}, "/readinessProbe/periodSeconds': maximum"),
        ({"credentials": {"tokyo": {"existingSecret": "a..b"}}}, "existingSecret': 'a..b' does not match"),
        ({"priorityClassName": "a.-b"}, "priorityClassName': 'a.-b' does not match"),
        ({"tolerations": [{"operator": "exists"}]}, "/tolerations/0/operator': value must be one of 'Exists', 'Equal'"),
        ({"tolerations": [{"key": "a", "effect": "NoScedule"}]}, "/tolerations/0/effect': value must be one of"),
        ({"tolerations": [{"key": "a b", "operator": "Exists"}]}, "/tolerations/0/key': 'a b' does not match"),
        ({"tolerations": [{"value": "a"}]}, "tolerations: one without a key has operator Exists"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, 'tolerations: with operator Exists .* leave "b" out'),
        ({"nodes": {"tk1": {"tolerations": [{"key": "a", "tolerationSeconds": 5}]}}}, "nodes.tk1.tolerations: tolerationSeconds goes with"),
        ({"resources": {"requests": {"memroy": "1Gi"}}}, "'memroy' does not match"),
        ({"resources": {"requests": {"memory": "1Gi"}}}, "resources.requests.memory: 1Gi is more than limits.memory, which is 512Mi"),
        ({"audit": {"resources": {"requests": {"memory": "3e9"}}}}, "audit.resources.requests.memory: 3e9 is more than"),
        (
            {"nodes": {"tk1": {"resources": {"requests": {"cpu": 1.5}, "limits": {"cpu": "1499m"}}}}},
            "nodes.tk1.resources.requests.cpu: 1.5 is more than limits.cpu, which is 1499m",
        ),
        ({"audit": {"checkpoint": {"size": "0"}}}, "/audit/checkpoint/size': '0' does not match"),
        ({"evaluationKafka": {"size": "0.0Gi"}}, "/evaluationKafka/size': '0.0Gi' does not match"),
        ({"bootstrap": {"tokyo": "a:9092,b:65536"}}, "bootstrap.tokyo: port 65536 is not between 1 and 65535"),
        ({"traces": {"endpoint": "http://collector:99999"}}, "traces.endpoint: port 99999 is not between"),
        ({"traces": {"enabled": True, "endpoint": "http://{{ x }}:4318"}}, "/traces/endpoint'"),
        ({"traces": {"endpoint": "http://collector:4318/%zz"}}, "/traces/endpoint'"),
        ({"traces": {"endpoint": "http://[7]:4318"}}, "/traces/endpoint'"),
        ({"resources": {"claims": ["gpu"]}}, "/resources/claims/0'"),
        ({"dashboard": {"httpRoute": {"parentRefs": [{"gateway": "a"}]}}}, "/parentRefs/0': missing property 'name'"),
        ({"dashboard": {"ingress": {"tls": [{"secret": "a"}]}}}, "/tls/0': additional properties 'secret' not allowed"),
        ({"extraObjects": [{"metadata": {"name": "a"}}]}, "/extraObjects/0': missing properties 'apiVersion', 'kind'"),
        ({"extraContainers": [{"name": "a"}]}, "/extraContainers/0': missing property 'image'"),
        ({"extraInitContainers": [{"name": "a", "image": ""}]}, "/extraInitContainers/0/image"),
        ({"topology": {"spec": {"zones": {"WO": {"title": "w" * 1_048_000}}}}}, "topology.spec: a ConfigMap has room for .* shorten"),
        ({"image": {"repository": "mesh:1"}}, "/image/repository': 'mesh:1' does not match"),
        ({"image": {"repository": f"mesh@sha256:{'0' * 64}"}}, "/image/repository"),
        ({"image": {"registry": "https://r.example"}}, "/image/registry"),
        ({"audit": {"image": {"tag": "a b"}}}, "/audit/image/tag"),
        ({"topology": {"spec": {"nodes": {"TK1": {"kafka": "tokyo"}}}}}, "topology.spec.nodes: TK1 and tk1 differ in case only"),
        ({"topology": {"spec": {"kafka": {"Tokyo": {}}}}}, "topology.spec.kafka: Tokyo and tokyo differ in case only"),
        ({"topology": {"spec": {}, "existingConfigMap": "mine"}, "nodes": {"tk1": None, "TK1": None}}, "nodes: TK1 and tk1 differ in case only"),
        (
            {
                "topology": {"spec": {}, "existingConfigMap": "mine"},
                "nodes": {"tk1": None},
                "credentials": {"a": {"existingSecret": "s"}, "A": {"existingSecret": "s"}},
            },
            "credentials: A and a differ in case only",
        ),
        (
            {
                "topology": {"spec": {}, "existingConfigMap": "mine"},
                "nodes": {"tk1": {"credentials": {"A": {"existingSecret": "s"}}}},
                "credentials": {"a": {"existingSecret": "s"}},
            },
            "nodes.tk1.credentials: A and a differ in case only",
        ),
        ({"topology": {"spec": {"nodes": {"tk1": {"kafka": "tokio"}}}}}, 'nodes.tk1.kafka: .* no Kafka cluster "tokio"'),
        ({"topology": {"spec": {"nodes": {"tk1": None}}}}, "nodes.tk1.kafka: .* no Kafka cluster"),
        ({"topology": {"spec": {"kafka": {"tokyo": None}}}}, "spec.kafka.tokyo: nobody says where it is: .* bootstrap.tokyo"),
        (
            {
                "evaluationKafka": {"enabled": True},
                "topology": {"spec": {"nodes": {"kafka-tokyo": {"kafka": "tokyo"}}}},
            },
            "node kafka-tokyo and the broker of Kafka cluster tokyo would both be called",
        ),
    ],
)  # fmt: skip
def test_what_nobody_could_run_is_refused_before_anything_is_asked(
    render: Render, values: Mapping[str, Any], said: str
) -> None:
    """With the value's name; not by a pod that ends, nor half way through an install."""
    merged = dict(BASE)
    for path, value in leaves(values):
        merged = over(merged, path, value)
    with pytest.raises(helm_python.HelmError, match=said):
        render(merged)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap": {"servers": "a:9092"}}, "bootstrap': got object"),  # --set without backslash
        ({"bootstrap.servers": None}, "bootstrap.servers': got null"),
        ({"bootstrap.servers": 9092}, "bootstrap.servers': got number"),
        ({"bootstrap.servers": "a:9092", "client.rack": None}, "client.rack': got null"),
        ({"bootstrap.servers": "a:9092", ENDPOINT: 443}, f"{ENDPOINT}': got number"),
    ],
)
def test_an_option_of_a_kafka_cluster_is_one_value(
    render: Render, options: Mapping[str, object], said: str
) -> None:
    """What `--set` makes of a name with dots is refused where it stands."""
    with pytest.raises(helm_python.HelmError, match=f"/topology/spec/kafka/tokyo/{said}"):
        render(over(BASE, "topology.spec.kafka.tokyo", options))
    plain = {"bootstrap.servers": "a:9092", "linger.ms": 5, "socket.keepalive.enable": True}
    render(over(BASE, "topology.spec.kafka.tokyo", plain))


@pytest.mark.parametrize(
    "servers",
    [
        *("a:9092", "a:9092,SASL_SSL://b.example:9093", "[fd00::1]:9092", "10.0.0.1:1"),
        *("a", "a:", ":9092", "a:9092,", "a:123456", "a b:9092", "tokyo=a:9092"),
        *("https://a:9092", "fd00::1:9092", "a:9092/", "user@a:9092"),
    ],
)
def test_addresses_are_those_that_commands_take(render: Render, servers: str) -> None:
    """No job looks at them before the pods, which would end over them."""
    given = over(BASE, "bootstrap.tokyo", servers)
    if bootstrap_fault(servers) is None:
        well_formed(render(given))
        return
    with pytest.raises(helm_python.HelmError, match="/bootstrap/tokyo'"):
        render(given)


def test_volumes_may_lie_where_nothing_is_in_their_way(render: Render) -> None:
    """Certificates of several authorities, a Secret each; what is writable takes more below it."""
    mounts = {"ca": "/etc/mesh/ca/tokyo", "more": "/tmp/more", "other": "/etc/mesh/kafka-ca"}
    volumes = {
        "extraVolumes": [{"name": name, "secret": {"secretName": name}} for name in mounts],
        "extraVolumeMounts": [{"name": n, "mountPath": path} for n, path in mounts.items()],
    }
    well_formed(render({**BASE, **volumes, "credentials": {"tokyo": {"existingSecret": "s"}}}))
    whole = [{"name": "ca", "mountPath": "/etc/mesh/kafka"}]
    well_formed(render({**BASE, **volumes, "extraVolumeMounts": whole}))


def test_nodes_need_not_say_the_only_kafka_cluster_there_is(render: Render) -> None:
    """As in a topology file."""
    spec = {"kafka": {"k": {"bootstrap.servers": "k:9092"}}, "nodes": {"a": {}, "b": {"lanes": 2}}}
    well_formed(render({"topology": {"spec": spec}}))
    with pytest.raises(helm_python.HelmError, match=r"spec.kafka.k: nobody says where it is"):
        render({"topology": {"spec": {**spec, "kafka": {"k": {}}}}})


@pytest.mark.parametrize("protocol", ["SSL", "sasl_plaintext", "SASL_SSL"])
def test_brokers_of_an_evaluation_are_asked_for_no_logins(render: Render, protocol: str) -> None:
    """They have none, nor encryption: workers would wait for them for ever."""
    secured = over(BASE, "topology.spec.kafka.tokyo", {"security.protocol": protocol})
    tried = over(secured, "evaluationKafka.enabled", True)
    with pytest.raises(helm_python.HelmError, match=f"spec.kafka.tokyo: .* is {protocol}, and"):
        render(tried)
    render(over(tried, "bootstrap.tokyo", "kafka.example:9093"))
    render(over(tried, "topology.spec.kafka.tokyo", {"security.protocol": "PLAINTEXT"}))


@pytest.mark.parametrize("whole", ["topology.apply", "topology.compare", "audit"])
def test_who_looks_at_the_whole_mesh_has_all_addresses(render: Render, whole: str) -> None:
    """A site needs those of its nodes alone, and of their neighbours, which its workers miss."""
    ours = over(over(BASE, "nodes", {"tk1": None}), "topology.spec.kafka.newyork", {})
    render(ours)
    with pytest.raises(helm_python.HelmError, match=r"spec.kafka.newyork: nobody says where it is"):
        render(over(ours, f"{whole}.enabled", True))


@pytest.mark.parametrize(
    ("values", "port"),
    [
        ({"bootstrap": {"tokyo": "a:9092,b:19092"}}, "19092"),
        (over(BASE, "topology.spec.kafka.tokyo", {"bootstrap.servers": "a:29092"}), "29092"),
        ({"networkPolicy": {"kafkaPorts": [9093]}}, "9092"),
        *(
            (
                over(BASE, "topology.spec.kafka.tokyo", {"bootstrap.servers": "a", ENDPOINT: url}),
                port,
            )
            for url, port in {
                "https://id.example/token": "443",
                "http://id/token": "80",
                "https://id:8443/token": "8443",
                "https://id:8443/%zz": "8443",
                "https://[fd00::1]/token": "443",
                "https://id?for=mesh": "443",
            }.items()
        ),
    ],
)
def test_a_policy_that_closes_a_port_that_is_needed_is_refused(
    render: Render, values: Mapping[str, Any], port: str
) -> None:
    """Packets that are dropped are no error: workers would wait for ever."""
    merged = {**BASE, **values}
    render(merged)
    closed = over(merged, "networkPolicy.enabled", True)
    with pytest.raises(helm_python.HelmError, match=rf"kafkaPorts: .* is asked at port {port},"):
        render(closed)
    ports = [*closed["networkPolicy"].get("kafkaPorts", [9092]), int(port)]
    well_formed(render(over(closed, "networkPolicy.kafkaPorts", ports)))


OPTIONS = (
    *("sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl_key", "ssl.key.pem"),
    *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.oauthbearer.extensions"),
    *("sasl.username", "ssl.key.location", "ssl.ca.pem", "client.id", ENDPOINT),
    *("sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.file"),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_secret_never_stands_in_a_config_map(render: Render, option: str) -> None:
    """What may not be printed may not be read there either; it is named, and never shown."""
    at = "topology.spec.kafka.tokyo"
    here = {"bootstrap.servers": "a:9092"}
    named = over(BASE, at, {**here, option: "${file:/etc/mesh/kafka/tokyo/KEY}"})
    render(over(named, "credentials", {"tokyo": {"existingSecret": "s"}}))
    plain = over(BASE, at, {**here, option: "canary"})
    if not is_secret(option):
        render(plain)
        return
    with pytest.raises(helm_python.HelmError, match=r"kafka.tokyo: .* ConfigMap") as refused:
        render(plain)
    assert option in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("asks", ["topology.apply", "topology.compare", "audit", "dashboard"])
def test_what_looks_at_the_whole_mesh_has_credentials_of_its_own(render: Render, asks: str) -> None:
    """It has those of no node: where a topology refers to them it could not even begin."""
    alone = over(BASE, "nodes", {"tk1": {"credentials": {"tokyo": {"existingSecret": "tk1"}}}})
    reference = {"sasl.password": "${file:/etc/mesh/kafka/tokyo/password}"}
    options = {**BASE["topology"]["spec"]["kafka"]["tokyo"], **reference}
    alone = over(alone, "topology.spec.kafka.tokyo", options)
    well_formed(render(alone))
    asking = over(over(alone, f"{asks}.enabled", True), "dashboard.existingSecret", "page")
    said = rf"nodes.tk1.credentials.tokyo: .*\({asks}\) .* set credentials.tokyo too"
    with pytest.raises(helm_python.HelmError, match=said):
        render(asking)
    well_formed(render(over(asking, "credentials", {"tokyo": {"existingSecret": "all"}})))


@pytest.mark.parametrize("asks", ["topology.apply", "topology.compare", "audit", "dashboard"])
def test_what_looks_at_the_whole_mesh_has_the_variables_of_its_nodes(
    render: Render, asks: str
) -> None:
    """A variable of one node is that node's alone; an unset one would end jobs and the auditor."""
    variable = {"name": "TOKYO_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    other = {"name": "TOKYO", "value": "no option refers to it"}
    alone = over(BASE, "nodes", {"tk1": {"extraEnv": [other, variable]}, "ny1": None})
    options = {"bootstrap.servers": "a:9092", "sasl.password": "x${env:TOKYO_PASSWORD}"}
    alone = over(alone, "topology.spec.kafka.tokyo", options)
    well_formed(render(alone))
    asking = over(over(alone, f"{asks}.enabled", True), "dashboard.existingSecret", "page")
    said = (
        rf"nodes.tk1.extraEnv: .*\({asks}\) has no variable TOKYO_PASSWORD, .* set it in extraEnv"
    )
    with pytest.raises(helm_python.HelmError, match=said):
        render(asking)
    well_formed(render(over(asking, "extraEnv", [variable])))
    well_formed(render(over(asking, "extraEnvFrom", [{"secretRef": {"name": "may-have-it"}}])))


PASSWORD = {"sasl.password": "${file:/etc/mesh/kafka/tokyo/password}"}
CERTIFICATE = {"ssl.ca.location": "/etc/mesh/kafka/tokyo/ca.crt"}


@pytest.mark.parametrize("option", [PASSWORD, CERTIFICATE])
def test_files_of_secrets_are_mounted_where_a_topology_looks_for_them(
    render: Render, option: Mapping[str, str]
) -> None:
    """Without the Secret a worker would only say that there is no such file, again and again."""
    at = "topology.spec.kafka.tokyo"
    lacking = over(BASE, at, {**BASE["topology"]["spec"]["kafka"]["tokyo"], **option})
    said = "kafka.tokyo: nothing is mounted at /etc/mesh/kafka/tokyo/ in "
    with pytest.raises(helm_python.HelmError, match=f"{said}pods of node tk1; .* set credentials"):
        render(lacking)
    secret = {"tokyo": {"existingSecret": "s"}}
    well_formed(render(over(lacking, "credentials", secret)))
    well_formed(render(over(lacking, "nodes", {"tk1": {"credentials": secret}})))
    volume = {"extraVolumes": [{"name": "s", "secret": {"secretName": "s"}}]}
    for path in ("/etc/mesh/kafka", "/etc/mesh/kafka/tokyo/"):
        mount = {"extraVolumeMounts": [{"name": "s", "mountPath": path}]}
        well_formed(render({**lacking, **volume, **mount}))
    # Another site's are its own, unless the whole mesh is looked at from here.
    other = over(lacking, "nodes", {"ny1": None})
    well_formed(render(other))
    with pytest.raises(helm_python.HelmError, match=said + r"what looks .*\(audit\)"):
        render(over(other, "audit.enabled", True))


def test_a_node_may_ask_for_no_resources_where_others_do(render: Render) -> None:
    """Said of one node, `{}` counts as anything else does: a namespace may have limits of its own."""
    asked = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["resources"]
        for one in render(over(BASE, "nodes", {"tk1": {"resources": {}}, "ny1": None}))
        if one["kind"] == "StatefulSet"
    }
    assert asked["rel-trellis-mesh-tk1"] == {}
    assert asked["rel-trellis-mesh-ny1"] == defaults()["resources"]
