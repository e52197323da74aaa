"""Alerts on scrapes of meshes in memory that really have the trouble, judged by promtool.

Of the auditor its port is scraped, which has seen what an auditor publishes. A mesh is scraped before and after; both scrapes become series of half an hour. Each alert must
fire in the meshes that are listed here, and in no other.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from mesh.runtime.port.server import Port
from streaming.audits.findings import FindingKind
from streaming.audits.rules import RULES
from streaming.connectors.sink import Output
from streaming.job.port import Port as AuditPort
from tests.component.runtime.conftest import SmallMesh, subject

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "infra" / "prometheus" / "alerts.yaml"
DASHBOARDS = sorted((ROOT / "infra" / "grafana").glob("*.json"))
RUNBOOKS = ROOT / "docs" / "runbooks.md"

CERTIFIED = Path(__file__).with_name("certificate.crt")
"""One that ends in a hundred years."""

Scrape = dict[str, float]


class Now:
    s = 100.0

    def __call__(self) -> float:
        return self.s


class Scraped:
    """A mesh, the ports of its workers, and that of an auditor that tells how far it is."""

    def __init__(self) -> None:
        self.mesh = SmallMesh()
        self.now = Now()
        self.waiting: dict[str, None] = {}
        """Nodes whose process lives and has no worker yet."""
        self.ports = {node: Port(node, self.now) for node in "abc"}
        for port in self.ports.values():
            port.certificates = {"k": [CERTIFIED]}
        self.audit_now = Now()
        self.audit: AuditPort | None = AuditPort(self.audit_now)
        self.audit_tells()

    def audit_tells(self, *, lagging: bool = False, unread: str | None = None) -> None:
        assert self.audit is not None
        of_k = {"batch": 3, "lagging": lagging, "unread": unread}
        told = {"batch": 4, "findings": 0, "uncertified": 1, "sources": {"k": of_k}}
        self.audit.see([Output("mesh.audit.status", "position", json.dumps(told))])

    def audit_finds(self, kind: FindingKind) -> None:
        assert self.audit is not None
        self.audit.see([Output("mesh.audit.findings", "f", json.dumps({"kind": str(kind)}))])

    def look(self) -> Scrape:
        """Return every sample of the auditor and of every worker that runs."""
        found: Scrape = {}
        if self.audit is not None:
            text = self.audit.answer("/metrics")[1].decode()
            for family in text_string_to_metric_families(text):
                for one in family.samples:
                    inner = ",".join(f'{k}="{v}"' for k, v in sorted(one.labels.items()))
                    found[f"{one.name}{{{inner}}}"] = one.value
        for node, worker in {**self.waiting, **self.mesh.world.workers}.items():
            port = self.ports[node]
            if worker is not None and port.idle_s() < 10:
                self.now.s += 1
                port.see(worker)
            text = port.answer("/metrics")[1].decode()
            for family in text_string_to_metric_families(text):
                for one in family.samples:
                    labels = dict(one.labels)
                    if one.name.startswith(("process_", "python_")):
                        labels["instance"] = node
                    inner = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
                    found[f"{one.name}{{{inner}}}"] = one.value
        return found


def nothing(of: Scraped) -> None:
    of.mesh.publish(b"x", [subject("acme/x")])
    of.mesh.run()


def dies(of: Scraped) -> None:
    """The node in the middle; its neighbours miss ten beats."""
    of.mesh.world.kill("b")
    of.mesh.run(20_000)


def hangs(of: Scraped) -> None:
    of.now.s += 20


def loses_its_kafka(of: Scraped) -> None:
    """A worker that waits for brokers lives and does not serve."""
    of.ports["a"].forget()
    of.mesh.world.kill("a")
    of.waiting["a"] = None
    of.mesh.run(1_000)


def is_made_anew(of: Scraped) -> None:
    """The outbox that b reads: offsets of the former one mean nothing there."""
    of.mesh.publish(b"x", [subject("acme/x")])
    of.mesh.run()
    of.mesh.kafka.recreate("mesh.a.to.b.g")
    of.mesh.run(10_000)


def is_written_to_by_strangers(of: Scraped) -> None:
    of.mesh.write(of.mesh.names.control("b"), b"junk", key=b"\xff\xfe junk")
    of.mesh.run()


def gets_no_subject(of: Scraped) -> None:
    of.mesh.publish(b"x", [])
    of.mesh.run()


def is_too_slow(of: Scraped) -> None:
    for _ in range(12_000):
        of.mesh.publish(b"", [subject("acme/x")])


def has_an_auditor_that_cannot_write(of: Scraped) -> None:
    of.audit_now.s += 61


def loses_its_auditor(of: Scraped) -> None:
    of.audit = None


def has_a_kafka_that_the_auditor_cannot_read(of: Scraped) -> None:
    of.audit_tells(unread="no broker answers")


def is_too_fast_for_the_auditor(of: Scraped) -> None:
    of.audit_tells(lagging=True)


def loses_a_message(of: Scraped) -> None:
    of.audit_finds(FindingKind.MISSING)


def has_news(of: Scraped) -> None:
    for kind, rule in RULES.items():
        if rule.is_news:
            of.audit_finds(kind)


MESHES: Mapping[Callable[[Scraped], None], Sequence[str]] = {
    nothing: [],
    dies: ["MeshLinkDown", "MeshNodeWithoutLeader"],
    hangs: ["MeshLoopStuck"],
    loses_its_kafka: ["MeshNodeNotReady", "MeshNodeWithoutLeader"],
    is_made_anew: ["MeshSourceStopped"],
    is_written_to_by_strangers: ["MeshControlRefused"],
    gets_no_subject: ["MeshMessagesDropped"],
    is_too_slow: ["MeshLinkLag"],
    has_an_auditor_that_cannot_write: ["MeshAuditBlind"],
    loses_its_auditor: ["MeshAuditBlind"],
    has_a_kafka_that_the_auditor_cannot_read: ["MeshAuditUnread"],
    is_too_fast_for_the_auditor: ["MeshAuditLags"],
    loses_a_message: ["MeshAuditFinding"],
    has_news: [],
}


@pytest.fixture(scope="module")
def promtool(unavailable: Callable[[str, str], NoReturn]) -> str:
    found = shutil.which("promtool")
    if found is None:
        unavailable("promtool", "promtool is not installed (package prometheus)")
    return found


def alerts() -> Sequence[Mapping[str, str]]:
    [group] = YAML(typ="safe").load(ALERTS)["groups"]
    rules: Sequence[Mapping[str, str]] = group["rules"]
    return rules


def fired(promtool: str, folder: Path, before: Scrape, after: Scrape) -> dict[str, str]:
    """Return what promtool says of each alert that is not silent, by the alert's name."""
    series = []
    for name in {**before, **after}:
        old = f"{before[name]:g}" if name in before else "_"
        values = f"{old} " * 10 + (f"{after[name]:g} " * 20 if name in after else "_ " * 20)
        series.append({"series": name, "values": values.strip()})
    return fired_of(promtool, folder, series, ("12m", "24m"))


def fired_of(
    promtool: str, folder: Path, series: Sequence[Mapping[str, str]], moments: Sequence[str]
) -> dict[str, str]:
    """Return the alerts that some series of samples raise at some moment, with promtool's words."""
    (folder / "alerts.yaml").write_text(ALERTS.read_text())
    silent = [
        {"eval_time": when, "alertname": rule["alert"], "exp_alerts": []}
        for rule in alerts()
        for when in moments
    ]
    case = {"interval": "1m", "input_series": series, "alert_rule_test": silent}
    test = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (folder / "test.yaml").write_text(json.dumps(test))
    run = subprocess.run(
        [promtool, "test", "rules", "test.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    told = run.stdout + run.stderr
    names = sorted(set(re.findall(r"alertname: ?(\w+)", told)))
    assert (run.returncode == 0) == (names == []), told
    return dict.fromkeys(names, told)


@pytest.mark.parametrize("trouble", MESHES, ids=lambda one: one.__name__)
def test_alerts_fire_where_the_trouble_is_and_nowhere_else(
    promtool: str, tmp_path: Path, trouble: Callable[[Scraped], None]
) -> None:
    of = Scraped()
    before = of.look()
    trouble(of)
    found = fired(promtool, tmp_path, before, of.look())
    assert sorted(found) == sorted(MESHES[trouble]), "\n".join(found.values())


CERTIFICATE = 'mesh_tls_certificate_end_seconds{kafka="k",node="a"}'
EVERY_STATE = {
    "down": "MeshLinkDown",
    "frozen": "MeshLinkFrozen",
    "unproven": "MeshLinkUnproven",
    "refused": "MeshLinkRefused",
    "probing": "MeshLinkProbing",
    "full": "MeshLinkFull",
}


@pytest.mark.parametrize(
    ("samples", "alert"),
    [
        *(
            ({f'mesh_link_state{{link="a-b",node="a",state="{s}"}}': 1.0}, a)
            for s, a in EVERY_STATE.items()
        ),
        ({'mesh_node_ready{node="a"}': 0.0}, "MeshNodeNotReady"),
        ({'mesh_node_leads{node="a"}': 0.0}, "MeshNodeWithoutLeader"),
        ({'mesh_lanes_owned{node="a"}': 0.0}, "MeshLanesUntaken"),
        ({'mesh_control_lag_records{node="a"}': 5_000.0}, "MeshControlLag"),
        ({'mesh_endpoints_unwell{node="a",state="held"}': 1.0}, "MeshEndpointUnwell"),
        ({'mesh_lane_takings_total{node="a"}': 9.0}, "MeshLanesMove"),
        ({CERTIFICATE: 13 * 86_400.0}, "MeshCertificateEnds"),
    ],
)
def test_alerts_fire_on_the_samples_that_a_worker_exports(
    promtool: str, tmp_path: Path, samples: Scrape, alert: str
) -> None:
    """One sample of a healthy scrape is changed; a name that no worker exports is an error here."""
    healthy = Scraped().look()
    assert samples.keys() <= healthy.keys()
    assert list(fired(promtool, tmp_path, healthy, {**healthy, **samples})) == [alert]


def test_who_is_gone_is_missed_for_hours(promtool: str, tmp_path: Path) -> None:
    """A process that has ended exports nothing: no comparison of its samples holds any more."""
    series = [
        {"series": "mesh_audit_status_age_seconds", "values": "1x20 stale"},
        {"series": 'mesh_build_info{node="a"}', "values": "1x20 stale"},
        {"series": 'mesh_build_info{node="b"}', "values": "1x300"},
    ]
    found = fired_of(promtool, tmp_path, series, ["300m"])
    assert sorted(found) == ["MeshAuditBlind", "MeshNodeWithoutLeader"], "\n".join(found.values())


def test_every_alert_is_tried_and_has_a_runbook() -> None:
    names = [rule["alert"] for rule in alerts()]
    tried = {name for found in MESHES.values() for name in found} | set(EVERY_STATE.values())
    tried |= {"MeshNodeNotReady", "MeshNodeWithoutLeader", "MeshLanesUntaken", "MeshControlLag"}
    tried |= {"MeshEndpointUnwell", "MeshLanesMove", "MeshCertificateEnds"}
    assert tried == set(names)
    headings = [line[3:] for line in RUNBOOKS.read_text().splitlines() if line.startswith("## ")]
    assert headings == names
    for rule in alerts():
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{rule['alert'].lower()}"  # type: ignore[index]


def test_what_is_news_raises_no_alert_and_every_fault_does() -> None:
    [expression] = [rule["expr"] for rule in alerts() if rule["alert"] == "MeshAuditFinding"]
    left_out = {
        kind for found in re.findall(r'kind!~"(.*?)"', expression) for kind in found.split("|")
    }
    assert left_out == {str(kind) for kind, rule in RULES.items() if rule.is_news}


def metrics_in(expression: str) -> set[str]:
    """Return the names of metrics in an expression."""
    plain = expression.replace("$__rate_interval", "5m")
    tree = promql_parser.parse(plain)
    found: set[str] = set()

    def walk(node: object) -> None:
        name = getattr(node, "name", None)
        if isinstance(node, promql_parser.VectorSelector) and name:
            found.add(str(name))
        for part in ("expr", "lhs", "rhs", "vector_selector"):
            if (inner := getattr(node, part, None)) is not None:
                walk(inner)
        args = getattr(node, "args", None)
        for inner in args if isinstance(args, list) else []:
            walk(inner)

    walk(tree)
    assert found, expression
    return found


def test_alerts_and_dashboards_name_metrics_that_are_exported() -> None:
    """Of a node that carries traffic; a metric that was renamed would show nothing for ever."""
    of = Scraped()
    of.audit_finds(FindingKind.MISSING)
    gets_no_subject(of)
    nothing(of)
    exported = {name.partition("{")[0] for name in of.look()}
    panels = [one for board in DASHBOARDS for one in json.loads(board.read_text())["panels"]]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions += [rule["expr"] for rule in alerts()]
    for expression in expressions:
        assert metrics_in(expression) <= exported, expression
