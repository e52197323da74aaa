"""Alerts on scrapes of meshes in memory that really have the trouble, judged by promtool.

Of the auditor its port is scraped, which has seen what an auditor publishes. A mesh is scraped
before and after; both scrapes become series of half an hour. Each alert must fire in the meshes
that are listed here, and in no other.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from mesh.config.topology_file import topology_from_mapping
from mesh.model.findings import FindingKind
from mesh.model.topology import Topology
from mesh.wire.keys import subscription_key
from mesh.worker.http.server import Port
from streaming.connectors.sink import SinkRecord
from streaming.job.port import AuditPort
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.gates import break_writer
from tests.component.worker.test_progress_log import SOURCE, compact

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "infra" / "prometheus" / "alerts.yaml"
DASHBOARDS = sorted((ROOT / "infra" / "grafana").glob("*.json"))
RUNBOOKS = ROOT / "docs" / "runbooks.md"

CERTIFIED = Path(__file__).with_name("certificate.crt")
"""One that ends in a hundred years."""

ENDED = Path(__file__).with_name("ended.crt")
"""One that ended on the tenth of January 1970: promtool's time begins at the first."""

Scrape = dict[str, float]


class Now:
    s = 100.0

    def __call__(self) -> float:
        return self.s


class Scraped:
    """A mesh, the ports of its workers, and that of an auditor that tells how far it is."""

    def __init__(self, spec: Mapping[str, object] = CHAIN) -> None:
        self.mesh = SmallMesh(spec)
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
        self.audit.see([SinkRecord("mesh.audit.status", "position", json.dumps(told))])

    def audit_finds(self, kind: FindingKind) -> None:
        assert self.audit is not None
        self.audit.see([SinkRecord("mesh.audit.findings", "f", json.dumps({"kind": str(kind)}))])

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


def is_recreated(of: Scraped) -> None:
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


def cannot_keep_up_with_control(of: Scraped) -> None:
    for _ in range(1_500):
        of.mesh.write(of.mesh.names.control("b"), None, key=b"advert ? ?")


def has_a_certificate_that_ends(of: Scraped) -> None:
    of.ports["b"].certificates = {"k": [CERTIFIED, ENDED]}


def has_two_files_of_one_link(of: Scraped) -> None:
    """Its ends hold it in zones of different kinds."""
    zones = {"Z": {"kind": "one-hop", "links": [["b", "c"]]}}
    of.mesh.world.apart["c"] = topology_from_mapping({**CHAIN, "zones": zones})
    of.mesh.world.kill("c")
    of.mesh.world.start("c")
    of.mesh.run()


def has_a_new_link_that_a_dead_node_has_not_seen(of: Scraped) -> None:
    """Nodes of files of their own: b and c link up while a, which is linked to b, is dead."""
    world = of.mesh.world
    for node, links in {"a": ["ab"], "b": ["ab"], "c": ["bc"]}.items():
        world.kill(node)
        world.apart[node] = _file(links)
    for node in "ab":
        world.start(node)
    of.mesh.run()
    for node in "ab":
        world.kill(node)
    world.apart["b"] = _file(["ab", "bc"])
    for node in "bc":
        world.start(node)
    of.mesh.run(20_000)


def _file(links: Sequence[str]) -> Topology:
    zones = {"Z": {"kind": "multi-hop", "links": [list(link) for link in links]}}
    return topology_from_mapping({**CHAIN, "zones": zones})


LIMITED = {**CHAIN, "limits": [{"link": ["a", "b"], "outboxBytes": 3_000, "whenFull": "stop"}]}


def has_a_link_that_is_not_read(of: Scraped) -> None:
    """It hears its neighbour, whose lane does not come to read."""
    of.mesh.world.workers["b"].isolate(["a"])
    for _ in range(12):
        of.mesh.publish(b"x" * 400, [subject("acme/x")])
        of.mesh.run(300)


def has_a_lane_that_nobody_can_take(of: Scraped) -> None:
    """What it kept of where it stood is overwritten."""
    of.mesh.publish(b"x", [subject("acme/x")])
    of.mesh.run()
    progress = of.mesh.names.progress("a")
    of.mesh.write(progress, b"garbage", key=SOURCE)
    compact(of.mesh, progress)
    of.mesh.world.kill("a")
    of.mesh.world.start("a")
    of.mesh.run()


def loses_its_lane_again_and_again(of: Scraped) -> None:
    for _ in range(6):
        lanes = of.mesh.world.workers["a"].lanes
        assert lanes is not None
        break_writer(lanes, 0)
        of.mesh.publish(b"x", [subject("acme/x")])
        of.mesh.run(8_000)


def has_an_endpoint_that_takes_nothing(of: Scraped) -> None:
    topic = of.mesh.kafka.topics[of.mesh.names.endpoint("c", "s")]
    topic.message_bytes_max = 10
    of.mesh.publish(b"x", [subject("acme/x")])
    of.mesh.run(15_000)


def has_a_queue_of_two_policies(of: Scraped) -> None:
    """The second subscription attracts nothing."""
    for filter_, policy in (("jobs/a", "any"), ("jobs/b", "local")):
        value = json.dumps({"kind": "queue", "policy": policy}).encode()
        of.mesh.write(of.mesh.names.clients("c"), value, key=subscription_key("jobs", filter_))
    of.mesh.run()


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
    for kind in FindingKind:
        if kind.is_news:
            of.audit_finds(kind)


MESHES: Mapping[Callable[[Scraped], None], Sequence[str]] = {
    cannot_keep_up_with_control: ["MeshControlLag"],
    has_a_certificate_that_ends: ["MeshCertificateEnds"],
    has_two_files_of_one_link: ["MeshLinkRefused"],
    has_a_new_link_that_a_dead_node_has_not_seen: [
        "MeshLinkDown",
        "MeshLinkProbing",
        "MeshNodeWithoutLeader",
    ],
    has_a_link_that_is_not_read: ["MeshLinkFull"],
    has_a_lane_that_nobody_can_take: [
        "MeshLanesUntaken",
        "MeshNodeNotReady",
        "MeshSourceStopped",
    ],
    loses_its_lane_again_and_again: ["MeshLanesMove"],
    has_an_endpoint_that_takes_nothing: ["MeshEndpointUnwell"],
    has_a_queue_of_two_policies: ["MeshEndpointUnwell"],
    nothing: [],
    dies: ["MeshLinkDown", "MeshNodeWithoutLeader"],
    hangs: ["MeshLoopStuck"],
    loses_its_kafka: ["MeshNodeNotReady", "MeshNodeWithoutLeader"],
    is_recreated: ["MeshSourceStopped"],
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
UNPROVEN = "MeshLinkUnproven"

SPECS = {has_a_link_that_is_not_read: LIMITED}
"""Of meshes that are not the chain."""


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
    of = Scraped(SPECS.get(trouble, CHAIN))
    before = of.look()
    trouble(of)
    found = fired(promtool, tmp_path, before, of.look())
    assert sorted(found) == sorted(MESHES[trouble]), "\n".join(found.values())


@pytest.mark.parametrize(
    "trouble", [loses_its_kafka, loses_its_auditor], ids=lambda one: one.__name__
)
def test_a_mesh_that_is_well_hides_no_other(
    promtool: str, tmp_path: Path, trouble: Callable[[Scraped], None]
) -> None:
    """One Prometheus may watch several, in namespaces of their own, whose nodes have the same names."""
    of = Scraped()
    well = before = of.look()
    trouble(of)
    both = [
        {**within(well, "staging"), **within(scrape, "production")}
        for scrape in (before, of.look())
    ]
    found = fired(promtool, tmp_path, *both)
    assert sorted(found) == sorted(MESHES[trouble]), "\n".join(found.values())


def within(scrape: Scrape, namespace: str) -> Scrape:
    """Return samples with the label that a Prometheus in Kubernetes gives to each."""
    return {
        name.replace("{", f'{{namespace="{namespace}",', 1): value for name, value in scrape.items()
    }


def test_the_alert_of_interest_that_is_not_proven_fires_on_what_a_worker_exports(
    promtool: str, tmp_path: Path
) -> None:
    """No mesh in memory stays so: who leads a neighbour sets right what others wrote there."""
    healthy = Scraped().look()
    unproven = {'mesh_link_state{link="a-b",node="a",state="unproven"}': 1.0}
    assert unproven.keys() <= healthy.keys()
    assert list(fired(promtool, tmp_path, healthy, {**healthy, **unproven})) == [UNPROVEN]


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
    tried = {name for found in MESHES.values() for name in found} | {UNPROVEN}
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
    news = {str(kind) for kind in FindingKind if kind.is_news}
    assert left_out == news
    [told] = re.findall(r"News that is no fault \((.*?)\)", runbook("MeshAuditFinding"))
    assert set(re.findall(r"`(.*?)`", told)) == news


def test_who_is_woken_by_a_stopped_source_is_told_what_ends_the_stop() -> None:
    """On a link and at an ingress by one command each, which without the option only look."""
    told = set(re.findall(r"`(mesh \w+ resume|--accept-gap)", runbook("MeshSourceStopped")))
    assert told == {"mesh link resume", "mesh node resume", "--accept-gap"}


def runbook(alert: str) -> str:
    """Return what the page says of an alert."""
    text = RUNBOOKS.read_text(encoding="utf-8")
    return text.partition(f"## {alert}\n")[2].partition("\n## ")[0]


def selectors_in(expression: str) -> list[promql_parser.VectorSelector]:
    """Return what an expression selects."""
    plain = expression.replace("$__rate_interval", "5m")
    tree = promql_parser.parse(plain)
    found: list[promql_parser.VectorSelector] = []

    def walk(node: object) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        for part in ("expr", "lhs", "rhs", "vector_selector"):
            if (inner := getattr(node, part, None)) is not None:
                walk(inner)
        args = getattr(node, "args", None)
        for inner in args if isinstance(args, list) else []:
            walk(inner)

    walk(tree)
    assert found, expression
    return found


def expressions_of(board: Mapping[str, Any]) -> list[str]:
    """Return the expressions of a dashboard's panels."""
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_alerts_and_dashboards_name_metrics_that_are_exported() -> None:
    """Of a node that carries traffic; a metric that was renamed would show nothing for ever."""
    of = Scraped()
    of.audit_finds(FindingKind.MISSING)
    gets_no_subject(of)
    nothing(of)
    exported = {name.partition("{")[0] for name in of.look()}
    boards = [json.loads(board.read_text()) for board in DASHBOARDS]
    expressions = [one for board in boards for one in expressions_of(board)]
    expressions += [rule["expr"] for rule in alerts()]
    for expression in expressions:
        assert {one.name for one in selectors_in(expression) if one.name} <= exported, expression


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_the_mesh_of_one_namespace(board: Path) -> None:
    """Others may have nodes and links of the same names, which would be added up.

    Without Kubernetes series have no namespace: the variable is empty then, and selects these.
    """
    shown = json.loads(board.read_text(encoding="utf-8"))
    variables = {one["name"]: one for one in shown["templating"]["list"]}
    assert "includeAll" not in variables["namespace"]
    others = [one["query"] for name, one in variables.items() if name == "node"]
    assert all('{namespace="$namespace"}' in query for query in others)
    for expression in expressions_of(shown):
        for one in selectors_in(expression):
            among = {matcher.name: matcher.value for matcher in one.matchers.matchers}
            assert among.get("namespace") == "$namespace", expression


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_the_processes_of_workers_alone(board: Path) -> None:
    """Much else in a namespace tells of its memory, as does all else without namespaces."""
    for expression in expressions_of(json.loads(board.read_text(encoding="utf-8"))):
        names = {one.name or "" for one in selectors_in(expression)}
        if any(name.startswith("process_") for name in names):
            assert "mesh_build_info" in names, expression
