"""The step `apply`: puts another topology in force on the scenario's mesh. Spec: lab.md 1, K28."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.core.cutover import CutOver
from mesh.errors import (
    ConfigError,
    InvariantError,
    NotBegunError,
    NotInTimeError,
    Problem,
    TransportError,
    TransportUnavailableError,
    wrong_input,
)
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.steps import Apply, Detail
from mesh.model.control import Stage
from mesh.model.topology import Topology
from mesh.operate.changes.begin import begin_change, read_begun
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import ChangeOutcome, MeshToChange
from mesh.operate.changes.in_force import TopologyInForce, read_in_force
from mesh.operate.changes.plan import refuse_loss
from mesh.operate.changes.proposal import plan_on_mesh
from mesh.operate.status import observe
from mesh.transport.clock import Timekeeper
from mesh.transport.node_topics import config_topic

NOT_BEGUN = "NOT_BEGUN"
"""Code of the refusal that the mesh is in no state for a change."""


def run_apply(driver: Driver, number: int, step: Apply, timeout_s: float) -> Detail:
    """Put what the step proposes in force, or have it refused.

    Kafka clusters and nodes that it adds are started before, and nodes that it removes are
    stopped after.

    Raises:
        StepFailedError: It was refused and should not be, or the other way round, or it was not
            in force in time.
    """
    proposal = driver.proposals[number]
    if proposal.mesh is None:
        return _refused(driver, number, step, proposal.problems)
    try:
        outcome = _change(driver, number, proposal.mesh.topology, timeout_s)
    except ConfigError as error:
        return _refused(driver, number, step, error.problems)
    except NotInTimeError as error:
        raise StepFailedError(str(error)) from error
    if step.refused:
        raise StepFailedError("it was put in force, and should be refused")
    return {
        "version": outcome.number,
        "ms": outcome.ms,
        "pauses_ms": dict(outcome.pauses),
    }


def _refused(driver: Driver, number: int, step: Apply, problems: Sequence[Problem]) -> Detail:
    driver.refusals += [{**problem.as_mapping(), "step": number} for problem in problems]
    codes = [problem.code for problem in problems]
    if not step.refused:
        raise StepFailedError("; ".join(problem.line() for problem in problems))
    if isinstance(step.refused, str) and step.refused not in codes:
        found = "; ".join(problem.line() for problem in problems)
        raise StepFailedError(f"it should be refused with {step.refused}, and was with {found}")
    return {"refused": codes}


def _change(driver: Driver, number: int, after: Topology, timeout_s: float) -> ChangeOutcome:
    after = _with_kafka(driver, after)
    kafka = driver.backend.kafka
    found = _in_force(driver, timeout_s)
    with FollowedLaneReports.begun(found.topology, kafka, driver.backend.now_ms) as reports:
        return _carry_out(driver, number, found, after, reports, timeout_s)


def _in_force(driver: Driver, timeout_s: float) -> TopologyInForce:
    """Return what is in force, once every Kafka cluster has said what it knows of that.

    Raises:
        StepFailedError: One did not answer in time.
    """
    told: list[TopologyInForce | None] = []

    def silent() -> Sequence[str]:
        try:
            found, records = read_in_force(driver.backend.kafka, driver.topology.prefix)
        except TransportUnavailableError as error:
            return [str(error)]
        told.append(found)
        return list(records.silent.values())

    driver.wait(timeout_s, silent)
    if (found := told[-1]) is None:
        raise InvariantError("a scenario begins with its topology in force")
    return found


def _carry_out(
    driver: Driver,
    number: int,
    found: TopologyInForce,
    after: Topology,
    reports: FollowedLaneReports,
    timeout_s: float,
) -> ChangeOutcome:
    before, kafka = driver.topology, driver.backend.kafka

    def pause(seconds: float) -> None:
        until = driver.backend.now_ms() + int(1000 * seconds)
        while driver.backend.now_ms() < until:
            driver.backend.advance(seconds)

    where = f"spec.steps.{number}.apply"
    time = Timekeeper(driver.backend.now_ms, pause)
    driver.view.refresh()
    mesh = MeshToChange(
        topology=found.topology,
        in_force=found,
        kafka=kafka,
        view=driver.view,
        beats=observe(driver.view, time),
        time=time,
        tell=lambda _: None,
    )
    plan = plan_on_mesh(mesh, found, after, lambda _: where)
    # A Kafka cluster that is new knows nothing of the changes before.
    begun = read_begun({name: kafka[name] for name in found.topology.kafka}, before.prefix)
    goes_on = begun is not None and begun.is_open
    if not goes_on:
        refuse_loss(plan.unread, lambda _: where)
    change = begin_change(mesh, reports, after, begun)
    cut = change.way.cut_over
    driver.adopt(after)
    try:
        driver.start_nodes([node for node in cut.arriving if node not in driver.faults.running])
        # Who runs is about to beat, and may be waited for; for who was killed nobody waits.
        all_serve = set(cut.taking_part) <= set(driver.faults.serving())
        outcome = change.run(timeout_s, timeout_s if all_serve else 0.0)
    except NotBegunError as error:
        _go_back(driver, before, cut)
        raise wrong_input(where, str(error), code=NOT_BEGUN) from error
    except (NotInTimeError, TransportError):  # it may be gone on with
        if change.way.target.stage is Stage.HOLD:
            _go_back(driver, before, cut)
        else:
            driver.took_force(number)  # nodes that leave serve until it is in force everywhere
        raise
    driver.took_force(number)
    driver.stop_nodes([node for node in driver.faults.running if node not in after.nodes])
    return outcome


def _with_kafka(driver: Driver, after: Topology) -> Topology:
    """Start Kafka clusters that a topology adds; return it with the addresses they have."""
    found = driver.backend.bring(after)
    for name in found.kafka:
        if name not in driver.topology.kafka:
            driver.backend.kafka[name].admin().create([config_topic(found)])
    return found


def _go_back(driver: Driver, before: Topology, cut: CutOver) -> None:
    driver.stop_nodes(cut.arriving)
    driver.adopt(before)
