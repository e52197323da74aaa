"""Subscriptions that come and go while everything changes: see `live_trials`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Subscribe, Unsubscribe
from mesh.operate.interest.propagation import laggards
from tests.sim.controls import random_filter
from tests.sim.interplay import Phase, owed
from tests.sim.live_verdict import Sent

SHARE = 0.02
"""Share of 50 ms in which one comes or goes."""
NAMES = ("g0", "g1")
QUEUE = "gq"
"""A queue with policy `any`, whose members come and go."""
LEAVES_MS = 20_000
"""What was published so long before somebody left need not have come meanwhile."""


@dataclass
class Guest:
    """A subscription, and since when it is known everywhere, until when it was wanted."""

    wish: Subscribe
    known_ms: int | None = None
    left_ms: int | None = None

    def is_owed(self, sent: Sent, phases: Sequence[Phase]) -> bool:
        """Return whether a message must come to it, whatever mesh was in force."""
        if sent.may_fail:
            return False
        is_here = self.known_ms is not None and self.known_ms <= sent.at_ms
        is_calm = len(phases) == 1  # else it may have been held for long
        stays = self.left_ms is None or (is_calm and self.left_ms > sent.at_ms + LEAVES_MS)
        return is_here and stays and all(self._gets(phase, sent) for phase in phases)

    def may_get(self, sent: Sent, phases: Sequence[Phase]) -> bool:
        """Return whether a message may come to it under any mesh."""
        return any(self._gets(phase, sent) for phase in phases)

    def _gets(self, phase: Phase, sent: Sent) -> bool:
        if self.wish.node not in phase.topology.nodes:
            return False
        return bool(owed(Phase(phase.spec, [self.wish]), sent.message).must)


@dataclass
class Guests:
    """Who came, who left, and who is there.

    Attributes:
        names: Endpoints to draw from.
    """

    driver: Driver
    backend: SimulatedBackend
    rng: random.Random
    names: Sequence[str] = NAMES
    all: list[Guest] = field(default_factory=list)

    @property
    def here(self) -> list[Guest]:
        return [guest for guest in self.all if guest.left_ms is None]

    def step(self, nodes: Sequence[str], *, is_calm: bool, away: Sequence[str]) -> None:
        """Have somebody come or go now and then, and ask who is known.

        Args:
            nodes: Who is part of every mesh that may be in force.
            is_calm: Whether all nodes and links serve, and nothing changes.
            away: Kafka clusters that do not answer.
        """
        if is_calm:
            self._look()
        if self.rng.random() > SHARE:
            return
        node, name = self.rng.choice(nodes), self.rng.choice(self.names)
        if self.driver.topology.nodes[node].kafka in away:
            return
        there = [one for one in self.here if (one.wish.node, one.wish.endpoint) == (node, name)]
        if there:
            wish = there[0].wish
            self._do(Unsubscribe(node=node, endpoint=name, filter=wish.filter))
            there[0].left_ms = self.backend.now_ms()
        else:
            wish = Subscribe(node=node, endpoint=name, filter=random_filter(self.rng))
            if name == QUEUE:
                wish = wish.model_copy(update={"kind": "queue", "policy": "any"})
            self._do(wish)
            self.all.append(Guest(wish))

    def _do(self, step: Subscribe | Unsubscribe) -> None:
        run_step(self.driver, 0, step)

    def _look(self) -> None:
        new = [guest for guest in self.here if guest.known_ms is None]
        if not new:
            return
        driver = self.driver
        driver.view.refresh()
        wanted = {node: driver.view.nodes[node].clients_offset for node in driver.topology.nodes}
        faults = driver.faults
        if not any(
            laggards(driver.topology, driver.view, wanted, faults.least_epochs, faults.is_excused)
        ):
            for guest in new:
                guest.known_ms = self.backend.now_ms()

    def members(self, nodes: Sequence[str]) -> list[tuple[str, str]]:
        """Return who has the queue just now: (node, queue)."""
        wishes = [guest.wish for guest in self.here]
        return [(one.node, QUEUE) for one in wishes if one.endpoint == QUEUE and one.node in nodes]

    def faults(
        self,
        sent: Sent,
        phases: Sequence[Phase],
        found: Mapping[str, Counter[bytes]],
        consumed: Counter[bytes],
    ) -> Iterator[str]:
        """Yield what is wrong with what became of a message at guests.

        Args:
            sent: The message.
            phases: Meshes that were in force, or came, meanwhile.
            found: Per endpoint of a guest, how often its topic holds each payload.
            consumed: How often each was handed to a consumer of the queue.
        """
        by_name: dict[str, list[Guest]] = {}
        for guest in self.all:
            by_name.setdefault(f"{guest.wish.node}/{guest.wish.endpoint}", []).append(guest)
        if consumed[sent.payload] > 1:
            yield f"{consumed[sent.payload]} times consumed of {QUEUE}"
        for name, guests in by_name.items():
            count = found[name][sent.payload]
            if name.endswith(f"/{QUEUE}"):
                # Who leaves keeps what came, and others may get it: it is anywhere.
                everywhere = sum(found[one][sent.payload] for one in found if one.endswith(QUEUE))
                if not everywhere and any(guest.is_owed(sent, phases) for guest in guests):
                    yield f"nowhere in {QUEUE}"
                continue
            is_owed = any(guest.is_owed(sent, phases) for guest in guests)
            may_come = any(guest.may_get(sent, phases) for guest in guests)
            if count > 1 or (is_owed and not count) or (count and not may_come):
                yield f"{count} times at guest {name}"
