"""Run a scenario and give its result. Spec: lab.md 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mesh.errors import TransportError
from mesh.lab.backend import AuditResult, Backend
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.missing import missing
from mesh.lab.play import run_step
from mesh.lab.queue_accounts import QueueAccounts
from mesh.lab.scenario import Scenario
from mesh.lab.steps import Expect, Step
from mesh.lab.tally import EndpointTally, LinkTally, Tally
from mesh.lab.tree_results import TreeFrames, colours, differences, tree_faults
from mesh.model.findings import WAITS
from mesh.model.topology import Topology
from mesh.operate.links.flows import wanted_over
from mesh.view.mesh_view import MeshView

Result = Mapping[str, object]


def run_scenario(
    scenario: Scenario,
    backend: Backend,
    *,
    backend_name: str,
    history: Path | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run every step, whatever fails, and return the result document.

    Args:
        scenario: What to do.
        backend: Where.
        backend_name: `sim` or `kafka`, as the result tells it.
        history: File to which a storm writes what clients were told, or None.
        report: Called with a line for each step that fails, as soon as it does: those after it
            may take their whole time before the result is there. What it raises ends the run.
    """
    topology = scenario.topology
    tally = Tally(topology, backend.kafka, backend.now_ms)
    view = MeshView(topology, backend.kafka, backend.now_ms, name="mesh-lab-view")
    driver = Driver(
        topology,
        backend,
        tally,
        view,
        workers=scenario.workers,
        proposals=scenario.proposals,
        is_apart=bool(scenario.apart),
        history=history,
    )
    steps: list[dict[str, object]] = []
    frames = TreeFrames(topology, backend) if scenario.uses_trees else None
    if scenario.audit:
        backend.begin_audit()
    try:
        for number, step in enumerate(scenario.steps):
            done = _run_step(driver, number, step)
            steps.append(done)
            if not done["ok"]:
                report(f"step {number} failed: {step.word}: {done['detail']['error']}")
        _count(driver, steps)
        accounts = QueueAccounts(driver)
        audited = backend.audit(accounts.certified())
        if audited is not None and audited.fault:
            steps.append({"step": "audit", "ok": False, "detail": {"error": audited.fault}})
        surprises = [] if audited is None else unexpected(audited, scenario.steps)
        if surprises:
            error = f"findings that nobody expected: {', '.join(surprises)}"
            steps.append({"step": "audit", "ok": False, "detail": {"error": error}})
        return {
            "name": scenario.name,
            "backend": backend_name,
            "ok": all(step["ok"] for step in steps),
            "steps": steps,
            "links": {name: asdict(counted) for name, counted in sorted(tally.links.items())},
            "endpoints": _endpoints(driver, accounts),
            "not_forwarded": dict(sorted(tally.not_forwarded.items())),
            "refusals": driver.refusals,
            "audit": _audit(audited),
            **({} if driver.verdict is None else {"checker": driver.verdict}),
            **({} if frames is None else _of_trees(driver, frames)),
        }
    finally:
        driver.close()


def _count(driver: Driver, steps: list[dict[str, object]]) -> None:
    """Have everything counted; brokers that are still down at the end make the run not ok."""
    try:
        driver.count_everything()
    except TransportError as error:
        fault = f"not everything is counted: {error}"
        steps.append({"step": "count", "ok": False, "detail": {"error": fault}})


def _of_trees(driver: Driver, frames: TreeFrames) -> Result:
    applications = driver.applications
    return {
        "sends": [sent.document() for sent in applications.sends.values()],
        "roles": applications.holders(driver.faults.serving()),
        "colours": _colours(driver),
        "tree_frames": frames.document([one for _, one in driver.topologies.found]),
    }


def _colours(driver: Driver) -> Mapping[str, str]:
    driver.view.refresh()
    return colours(driver.view, driver.faults.serving())


def _audit(audited: AuditResult | None) -> Mapping[str, object] | None:
    if audited is None:
        return None
    return {"findings": audited.findings, "certificates": audited.certificates}


def unexpected(audited: AuditResult, steps: Sequence[Step]) -> Sequence[str]:
    """Return the kinds of findings that there are more of than a file expects. Spec: lab.md 2."""
    expected: dict[str, int] = {}
    for step in steps:
        if isinstance(step, Expect):
            for kind, count in (step.findings or {}).items():
                expected[kind] = max(count, expected.get(kind, 0))
    found = Counter(str(one.get("kind")) for one in audited.findings)
    return [
        f"{count} {kind}" if kind not in expected else f"{count} {kind} and not {expected[kind]}"
        for kind, count in sorted(found.items())
        if kind not in WAITS and count > expected.get(kind, 0)
    ]


def _run_step(driver: Driver, number: int, step: Step) -> dict[str, Any]:
    try:
        detail = dict(run_step(driver, number, step))
    except StepFailedError as error:
        return {"step": step.word, "ok": False, "detail": {"error": str(error)}}
    if isinstance(step, Expect):
        faults = judge(driver, step)
        if faults:
            return {"step": step.word, "ok": False, "detail": {"error": "; ".join(faults)}}
    return {"step": step.word, "ok": True, "detail": detail}


def judge(driver: Driver, expect: Expect) -> Sequence[str]:
    """Return how the counts differ from what is expected; `count: n` also means no duplicate.

    Args:
        driver: Who runs the scenario, with all that was published and came so far.
        expect: The step; findings it has waited for already.

    Returns:
        One sentence for each difference.
    """
    faults: list[str] = []
    if expect.findings is not None:
        return faults  # the step has waited for them
    if expect.interest is not None:
        driver.view.refresh()
        return _interest_faults(driver.topology, driver.view, expect)
    if expect.is_of_trees:
        return tree_faults(expect, driver.applications, _colours(driver))
    if expect.link is not None:
        link = driver.tally.links.get(expect.link, LinkTally())
        return differences(expect, "link", asdict(link))
    if expect.queue is not None:
        found, distinct = driver.consumers.counted(expect.queue)
        if expect.count not in (None, found) or found != distinct:
            faults.append(
                f"{expect.queue}: {found} messages consumed, {distinct} distinct, "
                f"expected {expect.count} of each"
            )
        return faults
    name = expect.endpoint or ""
    endpoint = driver.tally.endpoints.get(name, EndpointTally())
    if expect.count is not None and (endpoint.count, endpoint.distinct) != (
        expect.count,
        expect.count,
    ):
        faults.append(
            f"{name}: {endpoint.count} records, {endpoint.distinct} distinct, "
            f"expected {expect.count} of each"
        )
    if expect.ordered is not None and expect.ordered != (endpoint.disordered == 0):
        faults.append(f"{name}: {endpoint.disordered} disordered")
    return faults


def _endpoints(driver: Driver, accounts: QueueAccounts) -> Mapping[str, Mapping[str, object]]:
    lacking = missing(driver, accounts)
    return {
        name: _endpoint(accounts, name, one, lacking[name])
        for name, one in sorted(driver.tally.endpoints.items())
    }


def _endpoint(
    accounts: QueueAccounts, name: str, tally: EndpointTally, lacking: int
) -> Mapping[str, object]:
    return {
        "count": tally.count,
        "distinct": tally.distinct,
        "duplicates": tally.count - tally.distinct - tally.again + accounts.doubled(name, tally),
        "missing": lacking,
        "disordered": tally.disordered,
        "paths": dict(sorted(tally.paths.items())),
    }


def _interest_faults(topology: Topology, view: MeshView, expect: Expect) -> Sequence[str]:
    """Return how what a link's reader wants of its sender differs from what is expected.

    Addresses of nodes do not count. Over a link that is gone by now nothing is wanted.
    """
    link = expect.interest or ""
    found = _wanted(topology, view, link)
    expected = sorted(dict.fromkeys(expect.filters or ()))
    if found == expected:
        return ()
    return [f"{link}: wanted are {_listed(found)}, expected {_listed(expected)}"]


def _wanted(topology: Topology, view: MeshView, link: str) -> list[str]:
    source, _, target = link.partition("->")
    zones = [
        topology.zone_over(one, source)
        for one in topology.links
        if sorted(one.ends) == sorted((source, target)) and topology.sends(source, target)
    ]
    found = [filter_ for zone in zones for _, filter_, _ in wanted_over(view, target, source, zone)]
    return sorted(dict.fromkeys(found))


def _listed(filters: Sequence[str]) -> str:
    return ", ".join(filters) or "none"
