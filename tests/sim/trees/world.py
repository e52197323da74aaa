"""Nodes, links and applications under a virtual clock; everything comes from one seed.

A link loses what is under way when it is cut; its ends are told later, each at its own time, as
they are told at once when it heals first. Frames of a link arrive in order, after a latency.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from mesh.model.tree_apps import (
    Answered,
    AnswerGiven,
    Delivered,
    Refused,
    Resumed,
    RoleLost,
    RoleRequest,
    SendWanted,
    Snooped,
    SnoopWanted,
)
from mesh.model.tree_frames import Frame, Options, ReplyKind
from mesh.model.trees import Address, Extent, InstanceId, MessageId, tree_id
from mesh.trees.inputs import (
    FrameRead,
    Input,
    LinkClosed,
    LinkOpened,
    PortOpened,
    RolesAdded,
    RolesRemoved,
    Ticked,
)
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Output, Transmit
from mesh.trees.settings import Settings
from tests.sim.trees.churn import Seen, look, missed

APP = "app"
SPY = "$spy"
QUIET_MS = 60_000
"""Whoever waits for longer than this waits for nothing: the world is quiet."""

STEPS_MAX = 400_000
BUILDING = ("Publish", "Bulk", "RecoveryRequest", "RecoveryAnswer", "RecoveryDone", "RouteBreak")
"""Frames of the builder, as against those of the router."""


class RuleBrokenError(AssertionError):
    """What an invariant forbids has happened."""


@dataclass(slots=True)
class Call:
    """A message of an application, and all that became of it."""

    node: str
    address: Address
    options: Options
    began_ms: int
    was_gone: bool = False
    seen: Seen | None = None
    delivered: list[tuple[str, InstanceId]] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)

    @property
    def reached(self) -> list[str]:
        """Return the nodes whose application got it."""
        return sorted(node for node, _ in self.delivered)

    def count(self, kind: ReplyKind) -> int:
        """Return how many answers are of a kind."""
        return sum(one.kind is kind for one in self.answers)

    @property
    def items(self) -> list[bytes]:
        """Return what was answered, in order."""
        return [item for one in self.answers for item in one.items]


@dataclass(slots=True)
class Wire:
    """A link between two nodes: whether it works, and how often it was cut."""

    latency_ms: int
    works: bool = True
    cuts: int = 0


class World:
    """A mesh of tree nodes. `run` lets time pass until nothing more happens."""

    def __init__(
        self,
        wires: Iterable[tuple[str, str]],
        *,
        seed: int = 0,
        realms: dict[str, str] | None = None,
        settings: Settings | None = None,
        latency_ms: tuple[int, int] = (10, 40),
        alone: Iterable[str] = (),
        spies: Iterable[str] = (),
    ) -> None:
        """Start all nodes and open all links; `run` brings them up.

        At `spies` everything that passes is held for a moment.
        """
        self.spies = frozenset(spies)
        self.random = Random(seed)
        self.now_ms = 0
        self.settings = settings or Settings(ping_ms=0)
        self.realms = realms or {}
        self.latency_ms = latency_ms
        self.wires: dict[frozenset[str], Wire] = {}
        self.nodes: dict[str, TreeNode] = {}
        self.epochs: Counter[str] = Counter()
        self.known: dict[tuple[str, str], int] = {}
        self.calls: dict[str, Call] = {}
        self.answers_of: Callable[[str, Delivered], list[AnswerGiven] | None] = self._say_name
        self.frames: Counter[str] = Counter()
        self.told: list[tuple[str, Output]] = []
        self.log: list[tuple[int, str, str, Frame]] | None = None
        self.churn: Counter[bool] = Counter()
        self.digest = hashlib.sha256()
        self.intercept: Callable[[str, str, Frame], list[Frame]] | None = None
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._arrival: dict[tuple[str, str], int] = {}
        self._wakes: dict[str, int] = {}
        names = sorted({name for wire in wires for name in wire} | set(alone))
        for a, b in wires:
            self.wires[frozenset((a, b))] = Wire(self._latency())
        for name in names:
            self.start(name)

    # What happens to the mesh.

    def start(self, name: str) -> None:
        """Start a node, as a new incarnation with nothing but its application."""
        self.epochs[name] += 1
        epoch = self.epochs[name]
        incarnation = int.from_bytes(hashlib.sha256(f"{name} {epoch}".encode()).digest()[:8], "big")
        realm = self.realms.get(name, "")
        uuid = f"uuid-{name}"
        self.nodes[name] = TreeNode(name, uuid, epoch, incarnation, realm, self.settings)
        self.step(name, PortOpened(APP))
        if name in self.spies:
            self.step(name, SnoopWanted(SPY, None, holds=True))
        for peer in self.peers(name):
            self.known.pop((name, peer), None)
            self._later(self.random.randint(0, 5), lambda peer=peer: self._notice(name, peer))
            self._later(self.random.randint(0, 5), lambda peer=peer: self._notice(peer, name))

    def crash(self, name: str) -> None:
        """End a node: what it knew is gone; its neighbours are told later."""
        del self.nodes[name]
        self._wakes.pop(name, None)
        for call in self.calls.values():
            call.was_gone |= call.node == name
        for peer in self.peers(name):
            self.known.pop((name, peer), None)
            self._later(self.random.randint(0, 60), lambda peer=peer: self._notice(peer, name))

    def cut(self, a: str, b: str, lags_ms: tuple[int, int] | None = None) -> None:
        """Cut a link; its ends are told after these times."""
        wire = self.wires[frozenset((a, b))]
        if wire.works:
            wire.works = False
            wire.cuts += 1
            lags_ms = lags_ms or (self.random.randint(0, 60), self.random.randint(0, 60))
            self._later(lags_ms[0], lambda: self._notice(a, b))
            self._later(lags_ms[1], lambda: self._notice(b, a))

    def heal(self, a: str, b: str) -> None:
        """Mend a link, or make one."""
        wire = self.wires.setdefault(frozenset((a, b)), Wire(self._latency(), works=False))
        if not wire.works:
            wire.works = True
            for one, other in ((a, b), (b, a)):
                self._later(
                    self.random.randint(0, 30),
                    lambda one=one, other=other: self._notice(one, other),
                )

    def role(
        self, node: str, role: str, *, tree: str = "t", is_exclusive: bool = False,
        app: str = APP, extent: Extent = Extent.CLOUD,
    ) -> list[Output]:  # fmt: skip
        """Let the application of a node take a role."""
        request = RoleRequest(address(tree, role), is_exclusive, extent)
        return self.step(node, RolesAdded(app, (request,)))

    def unrole(self, node: str, role: str, *, tree: str = "t") -> list[Output]:
        """Let the application of a node give a role up."""
        return self.step(node, RolesRemoved(APP, (address(tree, role),)))

    def send(
        self, node: str, role: str, *, tree: str = "t", payload: str = "",
        iid: int = 0, ask: str = "", **options: bool,
    ) -> Call:  # fmt: skip
        """Let the application of a node send; the call fills while the world runs."""
        name = f"c{len(self.calls)}"
        call = Call(node, address(tree, role), Options(**options), self.now_ms)
        self.calls[name] = call
        call.seen = look(self, call)
        text = ask.encode() or f"{name} {payload}".encode()
        to = InstanceId(iid)
        self.step(node, SendWanted(APP, name, call.address, text, b"", call.options, to))
        return call

    # How time passes.

    def step(self, name: str, input_: Input) -> list[Output]:
        """Give a node an input and do what it asks for."""
        node = self.nodes[name]
        outputs = node.step(input_, self.now_ms)
        self.digest.update(repr((self.now_ms, name, outputs)).encode())
        for output in outputs:
            self._perform(name, output)
        wakes_ms = node.wakes_ms
        if wakes_ms is not None and wakes_ms < self._wakes.get(name, wakes_ms + 1):
            self._wakes[name] = wakes_ms
            self._at(wakes_ms, lambda: self._tick(name, wakes_ms))
        return outputs

    def run(self, for_ms: int | None = None) -> None:
        """Let time pass: so long, or until nothing more happens for a minute."""
        until_ms = None if for_ms is None else self.now_ms + for_ms
        for _ in range(STEPS_MAX):
            if not self._heap or self._heap[0][0] > (until_ms or self.now_ms + QUIET_MS):
                break
            self.now_ms, _, happen = heapq.heappop(self._heap)
            happen()
        else:
            raise RuleBrokenError("the mesh never comes to rest")
        if until_ms is not None:
            self.now_ms = until_ms

    def peers(self, name: str) -> list[str]:
        """Return the nodes that a node has links to, working or not."""
        return sorted(next(iter(wire - {name})) for wire in self.wires if name in wire)

    def parts(self, *, realm: str | None = None) -> list[list[str]]:
        """Return the connected parts of running nodes, or of a realm's over its own links."""
        left = [one for one in self.nodes if realm is None or self.realms.get(one) == realm]
        parts = []
        while left:
            part, front = [], [left[0]]
            while front:
                one = front.pop()
                if one in left:
                    left.remove(one)
                    part.append(one)
                    front += [
                        peer for peer in self.peers(one) if self.wires[frozenset((one, peer))].works
                    ]
            parts.append(sorted(part))
        return sorted(parts)

    def _perform(self, name: str, output: Output) -> None:
        if isinstance(output, Transmit):
            self._transmit(name, output)
        elif isinstance(output, Delivered):
            self._deliver(name, output)
        elif isinstance(output, Answered):
            call = self.calls[output.call]
            if any(one.is_last for one in call.answers):
                raise RuleBrokenError(f"I2: {output.call} has an answer behind its last one")
            call.answers.append(output)
            if output.is_last and (is_missed := missed(self, call)) is not None:
                self.churn[is_missed] += 1
        else:
            self.told.append((name, output))
            if isinstance(output, Snooped) and output.app == SPY:
                self._later(self.random.randint(0, 80), lambda: self._resume(name, output.token))

    def _resume(self, name: str, token: MessageId) -> None:
        if name in self.nodes:
            self.step(name, Resumed(SPY, token))

    def _transmit(self, name: str, output: Transmit) -> None:
        self.frames[type(output.frame.body).__name__] += 1
        wire = self.wires[frozenset((name, output.link))]
        if not wire.works:
            return
        if self.log is not None:
            self.log.append((self.now_ms, name, output.link, output.frame))
        way = (name, output.link)
        frames = [output.frame] if self.intercept is None else self.intercept(*way, output.frame)
        for frame in frames:
            due_ms = self.now_ms + wire.latency_ms + self.random.randint(0, 3)
            self._arrival[way] = max(due_ms, self._arrival.get(way, 0))
            arrive = partial(self._arrive, way, frame, wire, wire.cuts)
            self._at(self._arrival[way], arrive)

    def _arrive(self, way: tuple[str, str], frame: Frame, wire: Wire, cuts: int) -> None:
        if wire.cuts == cuts and way[1] in self.nodes:
            self.step(way[1], FrameRead(way[0], frame))

    def _deliver(self, name: str, output: Delivered) -> None:
        call = self.calls[output.payload.decode().split()[0]]
        if any(iid == output.iid for _, iid in call.delivered):
            raise RuleBrokenError(f"I1: {output.payload!r} twice to one instance, now at {name}")
        call.delivered.append((name, output.iid))
        if call.options.one_instance and len(call.delivered) > 1:
            raise RuleBrokenError(f"I5: {output.payload!r} at {call.reached}")
        if not output.wants_answer:
            return
        for given in self.answers_of(name, output) or ():
            self._later(self.random.randint(0, 30), lambda given=given: self._answer(name, given))

    def _say_name(self, name: str, output: Delivered) -> list[AnswerGiven]:
        gives = output.payload.endswith(b"give")
        given = AnswerGiven(APP, output.mid, name.encode(), grants=gives, gives_up=gives)
        return [given]

    def _answer(self, name: str, given: AnswerGiven) -> None:
        if name not in self.nodes:
            return
        refused = [one for one in self.step(name, given) if isinstance(one, Refused)]
        if refused and given.grants:  # the role went elsewhere meanwhile
            self.step(name, AnswerGiven(APP, given.mid, given.payload))

    def _notice(self, name: str, peer: str) -> None:
        """Tell an end of a link what has become of it."""
        if name not in self.nodes:
            return
        wire = self.wires[frozenset((name, peer))]
        is_open = (name, peer) in self.known
        works = wire.works and peer in self.nodes
        if is_open and (not works or self.known[(name, peer)] != wire.cuts):
            del self.known[(name, peer)]
            self.step(name, LinkClosed(peer))
            is_open = False
        if works and not is_open:
            self.known[(name, peer)] = wire.cuts
            self.step(name, LinkOpened(peer))

    def _tick(self, name: str, wakes_ms: int) -> None:
        if name in self.nodes and self._wakes.get(name) == wakes_ms:
            del self._wakes[name]
            self.step(name, Ticked())

    def _later(self, after_ms: int, happen: Callable[[], None]) -> None:
        self._at(self.now_ms + after_ms, happen)

    def _at(self, at_ms: int, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(at_ms, self.now_ms), self._count, happen))

    def _latency(self) -> int:
        return self.random.randint(*self.latency_ms)


def address(tree: str, role: str) -> Address:
    """Return the address of a role on a named tree."""
    return Address(tree_id(tree), role)


def lost_by(world: World, node: str) -> list[RoleLost]:
    """Return which roles the application of a node has lost."""
    return [one for name, one in world.told if name == node and isinstance(one, RoleLost)]


def mid_of(delivered: Delivered) -> MessageId:
    """Return the id by which a delivery is answered."""
    return delivered.mid
