"""The demo from the first broker to the last certificate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from mesh.config.legal import load_legal_topology
from mesh.lab.demo.endpoints import expected_counts
from mesh.lab.demo.feed import FlightFeed, load_feed
from mesh.lab.demo.harvest import harvest
from mesh.lab.demo.pace import SLOW_START, FlightPace, ProofAge, ProvableRate
from mesh.lab.demo.picture import Picture, picture_of
from mesh.lab.demo.publisher import FlightPublisher
from mesh.lab.demo.report import Report, Times
from mesh.lab.demo.screen import Screen, open_screen
from mesh.lab.demo.stage import TOPOLOGY_FILE, DemoStage
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.stopping import StoppedError, Stopping
from mesh.local.up import select_mesh, stoppable
from mesh.model.frames import MessageClass
from mesh.transport.clock import wall_ms

ENOUGH = 1000.0
"""Flights per second where nobody asks for a rate: the flights of a year in two hours."""
FRAME_S = 1.0
"""How often the picture is drawn."""
BEHIND_AUDITOR = 10
"""How nice nodes are to the auditor. Where the processor does not suffice for both, messages take
longer, and fewer are published: an auditor that falls behind would prove nothing at all."""
MEMORY_S = 5.0
DRAIN_DEADLINE_S = 240.0
CERTIFY_DEADLINE_S = 240.0
"""Longest wait for the next certificate: on a slow machine the auditor's batches are long."""
AUDITOR_DEADLINE_S = 300.0
"""Longest wait for an auditor that has not said anything yet, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """The settings of the demo.

    Attributes:
        folder: For data and logs.
        software: Java and Kafka's jars.
        duration_s: How long to publish; 0 until stopped.
        rate: Flights per second; None: `ENOUGH`, and without end no more than the auditor proves.
        is_audited: Whether the auditor runs.
        console: Where people may be looking at it; None where a program asks.
    """

    folder: Path
    software: KafkaSoftware
    duration_s: float
    rate: float | None
    is_audited: bool
    console: Console | None

    @property
    def is_adaptive(self) -> bool:
        """Whether the auditor decides how many flights are published."""
        return self.rate is None and not self.duration_s and self.is_audited


def run_demo(
    settings: DemoSettings,
    *,
    stopping: Stopping,
    progress: Progress,
) -> Report | None:
    """Start everything, publish, and give an account.

    Args:
        settings: What is asked for.
        stopping: Tells when to stop.
        progress: Told what is going on.

    Returns:
        The account, or None if it ran until it was told to stop.

    Raises:
        StartError: Something could not be started.
        StoppedError: Told to stop before the time was over.
    """
    started_s = time.monotonic()
    feed = load_feed()
    progress(f"{len(feed):,} flights in scheduled order")
    fleet = Fleet.start(
        load_legal_topology(TOPOLOGY_FILE),
        TOPOLOGY_FILE,
        settings.folder,
        software=settings.software,
        progress=stoppable(progress, stopping),
    )
    with DemoStage(fleet, progress, stopping) as stage:
        begin(stage, settings)
        screen = open_screen(fleet.topology, progress, settings.console)
        stopping.screen = screen.close
        try:
            publisher = publish(stage, settings, feed)
            watch = _Watch(stage, publisher, started_s)
            if settings.is_adaptive:
                watch.provable = ProvableRate(most=ENOUGH)
            _run_traffic(watch, screen)
        except StoppedError:
            if settings.duration_s:
                raise
            return None
        finally:
            screen.close()
            stopping.screen = None
        return finish(watch, settings)


def begin(stage: DemoStage, settings: DemoSettings) -> None:
    """Start nodes and auditor, subscribe, and wait until that is known everywhere."""
    topology, progress = stage.fleet.topology, stage.progress
    if settings.is_audited:
        progress("starting the auditor (Spark) beside the rest")
        stage.start_auditor()
        stage.fleet.niceness = BEHIND_AUDITOR
    progress(f"starting {len(topology.nodes)} nodes")
    stage.subscribe()
    stage.supervisor.start_nodes(list(topology.nodes))
    stage.settle()
    stage.traffic.look(looks_for_new=True)  # it takes longest: not while messages wait to be seen
    progress("every node serves; every subscription is known everywhere")
    select_mesh(stage.fleet, progress)
    if settings.console is not None:
        stage.show_page()


def publish(stage: DemoStage, settings: DemoSettings, feed: FlightFeed) -> FlightPublisher:
    """Start the feed."""
    rate = SLOW_START if settings.is_adaptive else settings.rate or ENOUGH
    total = int(rate * settings.duration_s) if settings.duration_s else None
    stage.publisher = FlightPublisher(stage.fleet, feed, FlightPace(rate, total))
    stage.publisher.start()
    more = f", up to {ENOUGH:g} as far as the auditor keeps up" if settings.is_adaptive else ""
    stage.progress(f"publishing {rate:g} flights per second{more}")
    return stage.publisher


class _Watch:
    """Looks at everything once a frame."""

    def __init__(self, stage: DemoStage, publisher: FlightPublisher, started_s: float) -> None:
        self.stage = stage
        self.publisher = publisher
        self.started_s = started_s
        self.proof = ProofAge(time.monotonic())
        self.times = Times()
        self.provable: ProvableRate | None = None
        self.memory = 0
        self._memory_due_s = 0.0

    def look(self) -> Picture:
        """Read what is new and return the present picture."""
        stage, now_s = self.stage, time.monotonic()
        stage.supervisor.tend()
        stage.traffic.look(looks_for_new=True)
        stage.traffic.tick(now_s)
        self.look_at_audit()
        stage.peek(stage.view.refresh)
        times = self.times
        if times.first_delivery_s is None and stage.traffic.delivered:
            times.first_delivery_s = now_s - self.started_s
            stage.progress(
                f"first message delivered {times.first_delivery_s:.1f} s after the start"
            )
        unproven_s = self.proof.at(now_s, wall_ms(), stage.audit.proven_until_ms())
        if self.provable is not None:
            self.publisher.pace.rate = self.provable.adapt(now_s, unproven_s)
        if now_s >= self._memory_due_s:
            self._memory_due_s = now_s + MEMORY_S
            self.memory = stage.measure_memory()
        return picture_of(
            stage,
            self.publisher,
            now_s=now_s,
            started_s=self.started_s,
            memory=self.memory,
            unproven_s=unproven_s,
        )

    def look_at_audit(self) -> None:
        """Read what the auditor says."""
        audit, times = self.stage.audit, self.times
        audit.refresh()
        if times.first_certificate_s is None and audit.certificates:
            times.first_certificate_s = time.monotonic() - self.proof.published_s
            self.stage.progress(
                f"first certificate {times.first_certificate_s:.1f} s after the first message"
            )


def _run_traffic(watch: _Watch, screen: Screen) -> None:
    """Show the traffic until the feed has ended."""
    while watch.publisher.is_running:
        began_s = time.monotonic()
        screen.show(watch.look())
        pause_s = FRAME_S if watch.times.first_delivery_s is not None else FRAME_S / 4
        watch.stage.stopping.wait(pause_s - (time.monotonic() - began_s))
    if watch.publisher.fault is not None:
        raise watch.publisher.fault


def finish(watch: _Watch, settings: DemoSettings) -> Report:
    """Wait until all is delivered and certified, count it, and return the account."""
    stage, publisher = watch.stage, watch.publisher
    published = publisher.counts()
    expected = expected_counts(stage.fleet.topology, published)
    stage.progress(f"{publisher.messages:,} messages published; waiting for the last delivery")
    is_drained = stage.wait_until(lambda: _is_drained(watch, published), DRAIN_DEADLINE_S)
    delivered_s = time.monotonic()
    if not is_drained:
        stage.progress(f"not drained within {DRAIN_DEADLINE_S:.0f} s")
    if settings.is_audited:
        stage.progress("waiting for the last certificate")
        owed = {name: counts[MessageClass.GUARANTEED] for name, counts in expected.items()}
        if _wait_certified(watch, owed):
            watch.times.last_certificate_s = time.monotonic() - delivered_s
    stage.progress("counting what every endpoint got")
    harvested = harvest(stage.fleet.topology, stage.kafka, stage.clock.now_ms, stage.stopping.check)
    watch.look()
    stage.measure_memory()
    return Report.of(
        stage,
        publisher,
        expected,
        harvested,
        duration_s=settings.duration_s,
        times=watch.times,
        is_audited=settings.is_audited,
        is_drained=is_drained,
    )


def _is_drained(watch: _Watch, published: Mapping[tuple[str, MessageClass, str], int]) -> bool:
    watch.look()
    traffic = watch.stage.traffic
    taken = sum(flow.total for flow in traffic.taken.values())
    return taken >= sum(published.values()) and traffic.in_flight <= 0


def _wait_certified(watch: _Watch, owed: Mapping[str, int]) -> bool:
    """Wait for the last certificate as long as there is hope for another one; say if it came."""
    stage, audit = watch.stage, watch.stage.audit
    is_settled = partial(_is_certified, watch, owed)
    if not stage.wait_until(lambda: is_settled() or audit.is_live, AUDITOR_DEADLINE_S):
        stage.progress(f"the auditor said nothing within {AUDITOR_DEADLINE_S:.0f} s")
        return False
    before = -1
    while (certified := sum(audit.certified().values())) > before:
        before = certified
        if stage.wait_until(is_settled, CERTIFY_DEADLINE_S):
            return True
        stage.progress(f"{sum(audit.certified().values()):,} deliveries are certified so far")
    stage.progress(f"no certificate for {CERTIFY_DEADLINE_S:.0f} s: {audit.stands()}")
    return False


def _is_certified(watch: _Watch, owed: Mapping[str, int]) -> bool:
    """Return whether everything is certified, and the auditor has read all there is.

    Nothing else is looked at: nobody sees it, and the auditor has need of the processor.
    """
    watch.look_at_audit()
    audit = watch.stage.audit
    return audit.covers(owed) and audit.status.get("uncertified", 0) == 0
