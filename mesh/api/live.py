"""Looks at the mesh once a second, beside the server, and passes what has changed to the feed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from mesh.api.map_layout import Places, places_of
from mesh.errors import MeshError
from mesh.operate.audit.proof import proof_of
from mesh.operate.documents.status import parts_of
from mesh.operate.moments import moment
from mesh.operate.watch import Seen, Watch

LOOK_S = 1.0
LOOK_MIN_S = 0.05
"""Others get a turn between two looks, however long one takes."""

LIVE_S = 60.0
"""A loop that has not gone round for so long hangs: Kafka clusters that are dead take seconds."""

log = structlog.get_logger("mesh.api")

Publish = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The mesh as of one look.

    A request takes one and no more: between two a change may come, and an answer that is made of
    both would ask one topology for links of the other.

    Attributes:
        seen: Everything that control topics told.
        places: Where its nodes are drawn: every node has one.
        watch: What ledgers and the auditor tell, as it goes on growing.
        now_ms: Monotonic clock.
    """

    seen: Seen
    places: Places
    watch: Watch
    now_ms: Callable[[], int]

    def moment(self, at: str, where: str = "at") -> int | None:
        """Return a moment gone by that somebody asks for, or None for now.

        Raises:
            ConfigError: It is not a time, or is in the future.
        """
        # By the clock, and not as of the last look: who asks for just now asks for nothing to come.
        return moment(at, self.watch.wall_ms(), where) if at else None


class Live:
    """Keeps a watch looking, in a thread of its own.

    Args:
        watch: The mesh.
        publish: Takes what has changed; called from that thread.
        now_s: Monotonic clock.
        pause: Lets time pass, once: at the first look.

    Attributes:
        watch: The mesh.
        snapshot: How it was seen last.
        begun: Set once everything was read.
    """

    def __init__(
        self,
        watch: Watch,
        publish: Publish,
        now_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.watch = watch
        self.begun = threading.Event()
        self._publish = publish
        self._now_s = now_s
        self.snapshot = Snapshot(
            seen=watch.seen,
            places=places_of(watch.seen.topology),
            watch=watch,
            now_ms=self.now_ms,
        )
        self._looked_s = self._turned_s = now_s()
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self._told: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns when the last look is over."""
        self._stopping.set()
        self._thread.join()
        self.watch.close()

    def now_ms(self) -> int:
        """Monotonic time."""
        return int(self._now_s() * 1000)

    @property
    def idle_s(self) -> float:
        """How many seconds ago the mesh was looked at."""
        return self._now_s() - self._looked_s

    @property
    def is_fresh(self) -> bool:
        """Whether the mesh was looked at a moment ago; who looks also sees what is away."""
        return self.idle_s < LIVE_S

    @property
    def is_begun(self) -> bool:
        """Whether everything was read once."""
        return self.begun.is_set()

    @property
    def is_live(self) -> bool:
        """Whether the loop goes round, whatever comes of it."""
        return self._now_s() - self._turned_s < LIVE_S and self._thread.is_alive()

    def look(self) -> None:
        """Look once, and pass on what has changed; the first time everything is read."""
        try:
            if self.is_begun:
                self.watch.look()
            else:
                self.watch.begin(self._pause)
            self._tell()
            self.begun.set()
            self._looked_s = self._now_s()
        except MeshError as error:
            log.warning("look.failed", fault=" ".join(str(error).split()))
        except Exception:  # whatever it is, the next look may see more
            log.exception("look.failed")
        self._turned_s = self._now_s()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began_s = self._now_s()
            self.look()
            self._stopping.wait(max(LOOK_MIN_S, LOOK_S - (self._turned_s - began_s)))

    def _tell(self) -> None:
        seen, places = self.watch.seen, self.snapshot.places
        if seen.in_force.number != self.snapshot.seen.in_force.number:
            places = places_of(seen.topology, places)
        self.snapshot = replace(self.snapshot, seen=seen, places=places)
        present = state_of(self.snapshot)
        changes = changed(self._told, present)
        self._told = present
        if changes and self.is_begun:
            self._publish({"at_ms": seen.at_ms, **changes})


def state_of(snapshot: Snapshot) -> dict[str, Any]:
    """Return what viewers follow, small: the rest is asked for when somebody looks at it."""
    seen, traffic, trail = snapshot.seen, snapshot.watch.traffic, snapshot.watch.trail
    links: dict[str, tuple[str, float | None, float | None, int | None, str]] = {}
    for one in seen.flows:
        rates = seen.rates_on(one, traffic)
        shown = (None, None) if rates is None else (rounded(rates[0]), rounded(rates[1]))
        links[f"{one.source}->{one.target}"] = (one.state, *shown, one.wanted, one.reason)
    return {
        "version": seen.in_force.number,
        "nodes": {one.node: (one.state, one.subscriptions) for one in seen.nodes},
        "links": links,
        "faults": dict(seen.faults),
        "parts": parts_of(seen.view, seen.nodes),
        "proof": asdict(proof_of(trail, seen.at_ms)),
        "audit": trail.version,
        "findings": trail.findings_version,
    }


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs: of nodes and links only those that do."""
    found: dict[str, Any] = {}
    for name, value in after.items():
        old = before.get(name)
        if value == old:
            continue
        if name in ("nodes", "links") and isinstance(old, dict):
            value = {key: one for key, one in value.items() if old.get(key) != one}
            if not value:
                continue
        found[name] = value
    return found


def rounded(rate: float) -> float:
    """Return a rate with three digits: what does not matter is not sent again and again."""
    if rate >= 100:
        return float(round(rate))
    return round(rate, 1)
