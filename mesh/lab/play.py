"""One step of a scenario, run against the mesh that a driver drives. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import StartError, TransportError
from mesh.lab import steps
from mesh.lab.changing import run_apply
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.log_faults import run_log_fault
from mesh.lab.queue_accounts import is_shared
from mesh.lab.steps import Detail
from mesh.lab.storm import run_storm
from mesh.model.names import fold


def run_step(driver: Driver, number: int, step: steps.Step) -> Detail:
    """Run one step; return what there is to say about it.

    Raises:
        StepFailedError: It was not done in time, or Kafka refused.
    """
    try:
        return _run(driver, number, step)
    except (StartError, TransportError) as error:
        raise StepFailedError(str(error)) from error


def _run(driver: Driver, number: int, step: steps.Step) -> Detail:
    match step:
        case steps.Subscribe():
            return driver.clients.subscribe(number, step)
        case steps.Unsubscribe():
            return driver.clients.unsubscribe(number, step)
        case steps.Settle():
            return driver.settle(number, step.timeout_s)
        case steps.Publish():
            return driver.clients.publish(number, step)
        case steps.Drain():
            return driver.drain(number, step.timeout_s)
        case steps.Apply():
            return run_apply(driver, number, step, step.timeout_s)
        case steps.Consume():
            return _consume(driver, step, step.timeout_s)
        case (
            steps.Leave(app=str())
            | steps.Role()
            | steps.Unrole()
            | steps.Send()
            | steps.Move()
            | steps.Evict()
        ):
            return driver.applications.run(step, step.timeout_s)
        case steps.Wait(seconds=seconds):
            _wait(driver, seconds)
            return {}
        case steps.Leave():
            driver.consumers.leave(step)
            return {}
        case steps.Inject():
            return driver.inject(step)
        case steps.Storm():
            return run_storm(driver, number, step, step.timeout_s)
        case steps.Truncate() | steps.DeleteRecords() | steps.RecreateTopic():
            return _harm(driver, step)
        case steps.Expect(findings=dict(kinds)):
            return driver.await_findings(kinds, step.timeout_s)
        case steps.Expect():
            driver.count_everything()
            return {}
        case steps.Disable() | steps.Enable():
            _disable(driver, step)
            return {}
        case _:
            driver.faults.run(step)
            return {}


def _harm(
    driver: Driver, step: steps.Truncate | steps.DeleteRecords | steps.RecreateTopic
) -> Detail:
    classes = {one.place: one.message_class for one in driver.clients.subscriptions}
    driver.clients.forget_writers()
    return run_log_fault(step, driver.topology, driver.backend, driver.tally, classes)


def _disable(driver: Driver, step: steps.Disable | steps.Enable) -> None:
    is_disabled = isinstance(step, steps.Disable)
    driver.faults.disable(step.link, is_disabled=is_disabled)
    driver.wait(step.timeout_s, lambda: driver.faults.untold(step.link, is_disabled=is_disabled))


def _wait(driver: Driver, seconds: float) -> None:
    now_ms = driver.backend.now_ms
    until_ms = now_ms() + int(seconds * 1000)
    driver.wait(2 * seconds, lambda: ["time"] if now_ms() < until_ms else [])


def _consume(driver: Driver, step: steps.Consume, timeout_s: float) -> Detail:
    driver.consumers.join(driver.topology, step)
    driver.wait(timeout_s, lambda: driver.consumers.lacking(step) or _untold(driver, step))
    return {"consumed": driver.consumers.count(step)}


def _untold(driver: Driver, step: steps.Consume) -> Sequence[str]:
    """Return, in words, that a node does not tell other members yet of whoever has just joined.

    Until it does, messages go to members farther away whose consumers are known.
    """
    mine = driver.clients.subscriptions_of(f"{step.node}/{step.queue}")
    if (
        step.count is not None
        or step.node not in driver.faults.serving()
        or not any(one.ended_at is None and is_shared(one, driver.topology) for one in mine)
    ):
        return []
    driver.view.refresh()
    heartbeat = driver.view.nodes[step.node].heartbeat
    told = () if heartbeat is None else heartbeat.queues
    mine_told = {fold(one.queue) for one in told if one.node == step.node and one.room}
    if fold(step.queue) in mine_told:
        return []
    return [f"{step.node} does not tell others of its consumers of {step.queue}"]
