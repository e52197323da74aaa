"""`python -m tests.sim.live_trials --seeds A:B`: everything changes under load, and nodes die.

Each seed draws a mesh and one or two others to follow it, with nodes and links that come and go,
and for each of them queues, selectors, controls of interest and covering anew. Messages are
published all the time, some links lag when a change begins, nodes are killed and start again, and
with odd seeds consumers of queues come and go. From a seed on, subscriptions come and go too, and
more than nodes breaks; from another on, messages of both classes meet clusters for direct ones
alone, and changes are taken back. What must come of it, says `live_verdict`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Kill, Publish, Settle, Slow, Start, Step, Subscribe
from mesh.lab.tally import Tally
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.view.mesh_view import MeshView
from tests.sim.controls import random_subject
from tests.sim.interplay import Phase, owed
from tests.sim.live_consumers import QUIET_MS, Consumption
from tests.sim.live_guests import NAMES as GUEST_NAMES
from tests.sim.live_guests import QUEUE, Guests
from tests.sim.live_meshes import random_phases, steady_links
from tests.sim.live_operators import TRIES, Operator
from tests.sim.live_troubles import Troubles
from tests.sim.live_verdict import Sent, Verdict
from tests.sim.test_selectors import random_headers
from tests.sim.trials import run_trials

NAMES = TopicNames("mesh.")
LIMITED_FROM = 30_000
"""From this seed on links have limits; the others stay what they were."""
TROUBLED_FROM = 100_000
"""From this seed on more breaks than nodes, and subscriptions come and go."""
LEAVING_FROM = 200_000
"""From this seed on a queue's members come and go as well."""
CLASSED_FROM = 300_000
"""From this seed on there are direct messages too, and operators go back."""
KILLED = 0.04
"""Share of 50 ms in which a node dies: a few a change, for while all die again and again none ends."""
CLASSES = ("guaranteed", "guaranteed", "direct")
ON_ITS_WAY_MS = 5_000
"""So long before a change a message may have been published that the change still meets."""


@dataclass
class Trial:
    """One seed's course.

    Attributes:
        sent: All messages.
        first, last: The meshes that may be in force now.
        kills: So many nodes may die yet before all are up again.
        down: Nodes that are to start again, and when.
        consumption: Of queues; None if nobody consumes.
        guests: Who comes and goes; None if nobody does.
        troubles: What else breaks; None if nothing does.
        most: So much may break in a mesh.
    """

    seed: int
    sent: list[Sent] = field(default_factory=list)
    first: int = 0
    last: int = 0
    kills: int = 0
    down: dict[str, int] = field(default_factory=dict)
    consumption: Consumption | None = None
    guests: Guests | None = None
    troubles: Troubles | None = None
    most: int = 0

    def __post_init__(self) -> None:
        """Draw the meshes, and start the first one."""
        self.rng = random.Random(f"live {self.seed}")
        is_classed = self.seed >= CLASSED_FROM
        self.phases, self.wishes = random_phases(
            self.rng,
            joined=self.seed % 3 == 0,
            limited=self.seed >= LIMITED_FROM,
            classed=is_classed,
        )
        self.classes = random.Random(f"classes {self.seed}") if is_classed else None
        begin = self.phases[0].topology
        self.backend = SimulatedBackend(begin, self.seed)
        self.driver = Driver(
            begin,
            self.backend,
            Tally(begin, self.backend.kafka, self.backend.now_ms),
            MeshView(begin, self.backend.kafka, self.backend.now_ms),
            workers={name: self.rng.randint(1, node.lanes) for name, node in begin.nodes.items()},
            proposals={
                number: Proposal(mesh=Mesh(spec=phase.spec, topology=phase.topology))
                for number, phase in enumerate(self.phases)
            },
        )
        if self.seed % 2:
            rng = random.Random(f"consumers {self.seed}")
            self.consumption = Consumption(self.backend, rng)
        if self.seed >= TROUBLED_FROM:
            rng = random.Random(f"guests {self.seed}")
            names = [*GUEST_NAMES, QUEUE] if self.seed >= LEAVING_FROM else GUEST_NAMES
            self.guests = Guests(self.driver, self.backend, rng, names)
            rng = random.Random(f"troubles {self.seed}")
            self.troubles = Troubles(self.driver, self.backend, rng, steady_links(self.phases))
        self.operator = Operator(
            self.driver, self.backend, self.rng, self._rest, self._mend, self.classes
        )

    def run(self) -> None:
        """Run it, and judge what came of it."""
        for wish in self.wishes:
            self._do(wish)
        self._do(Settle())
        self.backend.accompany([self._break, self._publish, self._die, self._consume, self._visit])
        self.most = self.rng.choice([0, 0, 2, 10])
        self._let_break(self.most)
        self._rest(500 if self.consumption is None else 7_000)
        for number in range(1, len(self.phases)):
            if not self._change(number):
                break
            self._recover()
            self._do(Settle())
            self.first = number
            self._let_break(self.most)
            self._rest(self.rng.choice([300, 800]))
        self._recover()
        self.backend.part()
        self._do(Settle())
        self._do(Drain())
        if self.guests is not None and self.consumption is None:
            self._assert_links()
        if self.consumption is not None:
            self.consumption.finish(self.driver.topology, self._members())
        self.driver.close()
        self._judge()

    # -- what happens -------------------------------------------------------------------------

    def _do(self, step: Step, number: int = 0) -> None:
        run_step(self.driver, number, step)

    def _rest(self, ms: int) -> None:
        until = self.backend.now_ms() + ms
        while self.backend.now_ms() < until:
            self.backend.advance()

    def _change(self, number: int) -> bool:
        """Put the next mesh in force; say whether that was not refused."""
        links = self.driver.topology.links
        late = [link for link in links if self.rng.random() < self.rng.choice([0, 0.5])]
        for link in late:
            self._do(Slow(link=list(link.ends), delay_ms=self.rng.choice([500, 2_000])))
        since = self.backend.now_ms() - ON_ITS_WAY_MS
        self.last = number
        self.sent = [replace(one, last=number) if one.at_ms > since else one for one in self.sent]
        self._rest(self.rng.choice([0, 100, 400]))
        if not self.operator.apply(number, 1 if self.troubles is None else TRIES):
            self.last = self.first
            return False  # something waits unread in a topic that would go
        for link in late:
            if link in self.driver.topology.links:
                self._do(Slow(link=list(link.ends), delay_ms=0))
        return True

    def _nodes(self) -> list[str]:
        """Return who is part of every mesh that may be in force."""
        return sorted(
            set.intersection(
                *(set(one.topology.nodes) for one in self.phases[self.first : self.last + 1])
            )
        )

    def _publish(self) -> None:
        if self.rng.random() < 0.5:
            return
        message = Publish(
            node=self.rng.choice(self._nodes()),
            subject=random_subject(self.rng),
            key=self.rng.choice([None, "k1"]),
            headers=random_headers(self.rng),
            **({} if self.classes is None else {"class": self.classes.choice(CLASSES)}),
        )
        payload = b"%d" % len(self.sent)
        home = self.phases[self.first].topology.nodes[message.node].kafka
        if home in self._away():
            return
        own = [(name, text.encode()) for name, text in message.headers.items()]
        self.backend.kafka[home].writer("load").produce(
            NAMES.ingress(message.node, MessageClass(message.class_)),
            payload,
            None if message.key is None else message.key.encode(),
            headers=[(SUBJECT_HEADER, message.subject.encode()), *own],
        )
        now_ms = self.backend.now_ms()
        self.sent.append(Sent(payload, message, now_ms, self.first, self.last, not self.most))

    def _members(self) -> list[tuple[str, str]]:
        """Return the (node, queue) pairs of nodes that are there."""
        queues = {(one.node, one.endpoint) for one in self.wishes if one.kind == "queue"}
        found = sorted(pair for pair in queues if pair[0] in self._nodes())
        return found + (self.guests.members(self._nodes()) if self.guests is not None else [])

    def _consume(self) -> None:
        if self.consumption is not None:
            if not self._away():
                self.consumption.turn(self.driver.topology, self._members())
            self.consumption.step()

    def _die(self) -> None:
        now_ms = self.backend.now_ms()
        for node in [node for node, until in self.down.items() if until <= now_ms]:
            del self.down[node]
            if node in self.driver.topology.nodes:
                self._do(Start(node=node))
        up = [node for node in self._nodes() if node not in self.down]
        if up and self.kills and self.rng.random() < KILLED:
            self.kills -= 1
            node = self.rng.choice(up)
            self._do(Kill(node=node))
            self.down[node] = now_ms + self.rng.choice([50, 300, 1_500])

    def _away(self) -> Sequence[str]:
        return self.troubles.away if self.troubles is not None else ()

    def _break(self) -> None:
        if self.troubles is not None:
            nodes = self._nodes()
            self.troubles.step(nodes, [node for node in nodes if node not in self.down])

    def _visit(self) -> None:
        if self.guests is None or self.troubles is None:
            return
        is_calm = not self.down and self.troubles.is_over and self.first == self.last
        self.guests.step(self._nodes(), is_calm=is_calm, away=self._away())

    def _let_break(self, most: int) -> None:
        self.kills = most
        if self.troubles is not None:
            self.troubles.left = most

    def _mend(self) -> None:
        self.kills = 0
        if self.troubles is not None:
            self.troubles.mend()

    def _recover(self) -> None:
        self._mend()
        while self.down:
            self.backend.advance()

    # -- what must have happened --------------------------------------------------------------

    def _assert_links(self) -> None:
        """Publish once more: nothing crosses a link any more for who has left."""
        assert self.guests is not None
        phase = self.phases[self.first]
        guests = [one.wish for one in self.guests.here if one.wish.node in phase.topology.nodes]
        phase = Phase(phase.spec, [*phase.wishes, *guests])
        before = self._rested()
        while (now := self._rested()) != before:
            before = now  # members of queues still pass on what they have
        begun = len(self.sent)
        while len(self.sent) < begun + 5:
            self._publish()
        self._do(Drain())
        wanted = Counter[str]()
        for one in self.sent[begun:]:
            wanted.update(list(owed(phase, one.message).links))
        crossed = self._crossed() - before
        assert crossed == wanted, (crossed, wanted, self.sent[begun:])

    def _rested(self) -> Counter[str]:
        self._rest(QUIET_MS)
        return self._crossed()

    def _crossed(self) -> Counter[str]:
        self.driver.tally.refresh()
        return Counter({name: one.messages for name, one in self.driver.tally.links.items()})

    def _judge(self) -> None:
        verdict = Verdict(
            phases=self.phases,
            wishes=self.wishes,
            found={f"{one.node}/{one.endpoint}": self._read(one) for one in self.wishes},
            consumed=None if self.consumption is None else self.consumption.got,
            gone=[n for n in self.phases[0].topology.nodes if n not in self.driver.topology.nodes],
            is_visited=self.guests is not None,
        )
        guests = [] if self.guests is None else self.guests.all
        at_guests = {f"{one.wish.node}/{one.wish.endpoint}": self._read(one.wish) for one in guests}
        consumed = {} if self.consumption is None else self.consumption.got
        handed = consumed.get(QUEUE, Counter[bytes]())
        for one in self.sent:
            faults = list(verdict.faults(one))
            if self.guests is not None:
                phases = self.phases[one.first : one.last + 1]
                faults += self.guests.faults(one, phases, at_guests, handed)
            assert not faults, (one, faults)

    def _read(self, wish: Subscribe) -> Counter[bytes]:
        topic = NAMES.endpoint(wish.node, wish.endpoint)
        return Counter(
            record.value()
            for kafka in self.backend.kafka.values()
            if topic in kafka.topics
            for log in kafka.topics[topic].logs
            for record in log.entries
            if record is not None
        )


def main() -> int:
    """Run what the command line asks for; exit 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.live_trials", description=__doc__)
    return run_trials(parser, lambda seed, _: Trial(seed).run())


if __name__ == "__main__":
    sys.exit(main())
