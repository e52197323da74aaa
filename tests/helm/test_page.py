"""The page and its API in a release: who may open it, and by which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import helm_python
import pytest

from mesh.api.guard import PROBES
from mesh.api.serve import ServeSettings
from mesh.transport.probes import parse_address
from tests.helm.conftest import Manifest, Render
from tests.helm.releases import (
    BASE,
    EVERYTHING,
    ROUTED,
    of_kind,
    parsed_by,
)


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
        *(name, f"{name}.mesh", f"{name}.mesh.svc", f"{name}.mesh.svc.cluster.local"),
        *("mesh.internal", "mesh.example.com"),
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


@pytest.mark.parametrize("host", ["mesh.internal", "10.0.0.1", "fd00::1", "::1"])
def test_the_page_may_be_called_by_an_address(render: Render, host: str) -> None:
    """A load balancer need not have a name, and may have an address of IPv6 alone."""
    page = {"enabled": True, "userHeader": "U", "allowedHosts": [host]}
    deployed = of_kind(render({**BASE, "dashboard": page}), "Deployment")
    [container] = deployed["rel-trellis-mesh-dashboard"]["spec"]["template"]["spec"]["containers"]
    parsed = parsed_by(["dashboard"], container["command"][2:])
    given = ServeSettings(host="", port=0, user_header="U", allowed_hosts=parsed["allowed_host"])
    assert host in given.access().hosts


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


def policies_of(manifests: Sequence[Manifest], labels: Mapping[str, str]) -> list[Manifest]:
    """Return the policies that hold for a pod: what one of them lets through, is."""
    found = []
    for one in of_kind(manifests, "NetworkPolicy").values():
        chosen = one["spec"]["podSelector"]
        left_out = any(
            labels[rule["key"]] in rule["values"] for rule in chosen.get("matchExpressions", [])
        )
        if chosen["matchLabels"].items() <= labels.items() and not left_out:
            found.append(one["spec"])
    return found


@pytest.mark.parametrize("scrapers", [[], [{"podSelector": {}}]])
def test_who_may_open_the_page_need_not_be_who_may_scrape(
    render: Render, scrapers: list[Manifest]
) -> None:
    """Who else reached it past a proxy that logs people in could say to be anybody."""
    of_whom = {"namespaceSelector": {"matchLabels": {"name": "ingress"}}}
    policy = {"enabled": True, "from": scrapers, "dashboardFrom": [of_whom]}
    manifests = render({**EVERYTHING, "networkPolicy": policy})
    page, worker = (
        policies_of(manifests, one["spec"]["template"]["metadata"]["labels"])
        for one in (
            of_kind(manifests, "Deployment")["rel-trellis-mesh-dashboard"],
            of_kind(manifests, "StatefulSet")["rel-trellis-mesh-tk1"],
        )
    )
    assert [rule.get("from") for one in page for rule in one["ingress"]] == [[of_whom]]
    assert [rule.get("from", []) for one in worker for rule in one["ingress"]] == [scrapers]
    # It asks DNS and Kafka as workers do, which send spans besides.
    assert [one["policyTypes"] for one in page] == [["Ingress", "Egress"]]
    *wanted, _collector = [rule for one in worker for rule in one["egress"]]
    assert [rule for one in page for rule in one["egress"]] == wanted
    without = of_kind(render({**BASE, "networkPolicy": policy}), "NetworkPolicy")
    assert set(without) == {"rel-trellis-mesh"}
