"""Looks at the mesh once a second, beside the server, and tells the feed what has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from mesh.errors import MeshError
from mesh.operate.documents.audit import proof_document
from mesh.operate.documents.status import parts_of
from mesh.operate.places import Places, places_of
from mesh.operate.proof import Proof, proof_of
from mesh.operate.watch import Seen, Watch

LOOK_S = 1.0
LOOK_MIN_S = 0.05
"""Others get a turn between two looks, however long one takes."""

LIVE_S = 60.0
"""A loop that has not gone round for so long hangs: Kafka clusters that are dead take seconds."""

log = structlog.get_logger("mesh.api")

Publish = Callable[[Mapping[str, Any]], None]


class Live:
    """Keeps a watch looking, in a thread of its own.

    Args:
        watch: The mesh.
        publish: Takes what has changed; called from that thread.
        now_s: Monotonic clock.
        pause: Lets time pass, once: at the first look.

    Attributes:
        watch: The mesh.
        places: Where its nodes are drawn.
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
        self.places: Places = places_of(watch.seen.topology)
        self.begun = threading.Event()
        self._publish = publish
        self._now_s = now_s
        self._looked_s = now_s()
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self._told: dict[str, Any] = {}
        self._number = watch.seen.in_force.number
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
        """For how many seconds the loop has not gone round."""
        return self._now_s() - self._looked_s

    @property
    def is_begun(self) -> bool:
        """Whether everything was read once."""
        return self.begun.is_set()

    @property
    def is_live(self) -> bool:
        """Whether the loop goes round, whatever Kafka does."""
        return self.idle_s < LIVE_S and self._thread.is_alive()

    @property
    def seen(self) -> Seen:
        """The mesh as of the last look."""
        return self.watch.seen

    def proof(self) -> Proof:
        """How far all is proven now."""
        return proof_of(self.watch.trail, self.seen.at_ms)

    def look(self) -> None:
        """Look once, and tell what has changed; the first time everything is read."""
        try:
            if self.is_begun:
                self.watch.look()
            else:
                self.watch.begin(self._pause)
            self._tell()
            self.begun.set()
        except MeshError as error:
            log.warning("look.failed", why=" ".join(str(error).split()))
        self._looked_s = self._now_s()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began_s = self._now_s()
            self.look()
            self._stopping.wait(max(LOOK_MIN_S, LOOK_S - (self._looked_s - began_s)))

    def _tell(self) -> None:
        if self.seen.in_force.number != self._number:
            self._number = self.seen.in_force.number
            self.places = places_of(self.seen.topology, self.places)
        present = state_of(self)
        changes = changed(self._told, present)
        self._told = present
        if changes and self.is_begun:
            self._publish({"at_ms": self.seen.at_ms, **changes})


def state_of(live: Live) -> dict[str, Any]:
    """Return what viewers follow, small: the rest is asked for when somebody looks at it."""
    seen, traffic, proof = live.seen, live.watch.traffic, live.proof()
    links: dict[str, tuple[str, float, float]] = {}
    for one in seen.flows:
        flow = traffic.links.get((one.source, one.target))
        guaranteed, direct = flow.rates if flow is not None else (0.0, 0.0)
        links[f"{one.source}->{one.target}"] = (one.state, rounded(guaranteed), rounded(direct))
    return {
        "version": seen.in_force.number,
        "nodes": {one.node: (one.state, one.subscriptions) for one in seen.nodes},
        "links": links,
        "faults": dict(seen.faults),
        "parts": parts_of(seen.view, seen.nodes),
        "proof": proof_document(proof),
        "audit": live.watch.trail.version,
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
