"""One step of a scenario, run against the mesh that a driver drives. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import StartError, TransportError
from mesh.lab import steps
from mesh.lab.changing import run_apply
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.log_faults import run_log_fault
from mesh.lab.steps import Detail
from mesh.lab.storm import run_storm


def run_step(driver: Driver, number: int, named: steps.NamedStep) -> Detail:
    """Run one step; return what there is to say about it.

    Raises:
        StepFailedError: It was not done in time, or Kafka refused.
    """
    try:
        return _run(driver, number, named)
    except (StartError, TransportError) as error:
        raise StepFailedError(str(error)) from error


def _run(driver: Driver, number: int, named: steps.NamedStep) -> Detail:
    match named.step:
        case steps.Subscribe() as step:
            return driver.clients.subscribe(number, step)
        case steps.Unsubscribe() as step:
            return driver.clients.unsubscribe(number, step)
        case steps.Settle():
            return driver.settle(number, named.timeout_s)
        case steps.Publish() as step:
            return driver.clients.publish(number, step)
        case steps.Drain():
            return driver.drain(number, named.timeout_s)
        case steps.Apply() as step:
            return run_apply(driver, number, step, named.timeout_s)
        case steps.Consume() as step:
            return _consume(driver, step, named.timeout_s)
        case (
            steps.Leave(app=str())
            | steps.Role()
            | steps.Unrole()
            | steps.Send()
            | steps.Move()
            | steps.Evict()
        ) as step:
            return driver.applications.run(step, named.timeout_s)
        case steps.Wait(seconds=seconds):
            _wait(driver, seconds)
            return {}
        case steps.Leave() as step:
            driver.consumers.leave(step)
            return {}
        case steps.Inject() as step:
            return driver.inject(step)
        case steps.Storm() as step:
            return run_storm(driver, number, step, named.timeout_s)
        case steps.Truncate() | steps.DeleteRecords() | steps.RecreateTopic() as step:
            return _harm(driver, step)
        case steps.Expect(findings=dict(kinds)):
            return driver.await_findings(kinds, named.timeout_s)
        case steps.Expect():
            driver.count_everything()
            return {}
        case steps.LinkStep(link=ends) if named.word in ("disable", "enable"):
            _disable(driver, ends, named.timeout_s, is_disabled=named.word == "disable")
            return {}
        case step:
            driver.break_or_mend(named.word, step)
            return {}


def _harm(
    driver: Driver, step: steps.Truncate | steps.DeleteRecords | steps.RecreateTopic
) -> Detail:
    classes = {one.place: one.message_class for one in driver.clients.subscriptions}
    driver.clients.forget_writers()
    return run_log_fault(step, driver.topology, driver.backend, driver.tally, classes)


def _disable(driver: Driver, ends: Sequence[str], timeout_s: float, *, is_disabled: bool) -> None:
    driver.faults.disable(ends, is_disabled=is_disabled)
    driver.wait(timeout_s, lambda: driver.faults.untold(ends, is_disabled=is_disabled))


def _wait(driver: Driver, seconds: float) -> None:
    now_ms = driver.backend.now_ms
    until_ms = now_ms() + int(seconds * 1000)
    driver.wait(2 * seconds, lambda: ["time"] if now_ms() < until_ms else [])


def _consume(driver: Driver, step: steps.Consume, timeout_s: float) -> Detail:
    driver.consumers.join(driver.topology, step)
    driver.wait(timeout_s, lambda: driver.consumers.lacking(step))
    return {"consumed": driver.consumers.count(step)}
