"""Random lives of applications at their nodes: what they say, what stands for it, what they hear.

Where `trial` drives tree nodes, this drives all that a node keeps of applications: leases, records
of `roles`, polite requests, grants, watches, under cuts and crashes. Everything is from one seed.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from mesh.model.tree_apps import (
    Answered,
    AnswerGiven,
    AppTold,
    Delivered,
    ExclusiveCleared,
    Expired,
    LeaseSaid,
    NewsKind,
    NewsWanted,
    Refused,
    Resumed,
    RoleKey,
    RoleLost,
    RoleRequest,
    RoleSaid,
    RoleTaken,
    SendWanted,
    Snooped,
    SnoopEnded,
    SnoopWanted,
    TreeEvicted,
)
from mesh.model.tree_frames import Frame, Options
from mesh.model.trees import Address, Extent, InstanceId, tree_id
from mesh.trees.applications.effects import DropLease, Effect, Tell, WriteRole
from mesh.trees.applications.inputs import NodeInput, RolesCaughtUp, RolesRead
from mesh.trees.applications.machine import Applications
from mesh.trees.inputs import FrameRead, LinkClosed, LinkOpened, Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Transmit
from mesh.trees.settings import Settings
from tests.sim.trees.world import RuleBrokenError

APPS = ("p", "q")
TREES, ROLES = ("t", "u", "v"), ("r", "s")
QUIET_MS = 400_000
App = tuple[str, str]
"""A node, and the name of an application there."""


@dataclass(slots=True)
class Call:
    """A send, and whether its last answer, or a refusal, has come; or who waits for it went first."""

    options: Options
    is_over: bool = False
    is_moot: bool = False


@dataclass
class Lives:
    """A mesh of nodes with two applications each."""

    seed: int
    now_ms: int = 0
    nodes: dict[str, Applications] = field(default_factory=dict)
    epochs: Counter[str] = field(default_factory=Counter)
    cuts: Counter[frozenset[str]] = field(default_factory=Counter)
    works: dict[frozenset[str], bool] = field(default_factory=dict)
    topics: dict[str, list[RoleSaid | LeaseSaid]] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    calls: dict[tuple[App, str], Call] = field(default_factory=dict)
    held: dict[App, dict[Address, InstanceId]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        """Start all nodes, on a tree of links or on one with a circle."""
        self.random = Random(self.seed)
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._open: dict[tuple[str, str], tuple[int, int]] = {}
        self._arrival: Counter[tuple[str, str]] = Counter()
        self._wakes: dict[str, int | None] = {}
        names = "abcd"[: self.random.randint(1, 4)]
        self.realms = {name: self.random.choice(("", "r1", "r1", "r2")) for name in names}
        for at, name in enumerate(names[1:], 1):
            self.works[frozenset((name, self.random.choice(names[:at])))] = True
        if len(names) > 2 and self.random.random() < 0.5:
            self.works[frozenset(self.random.sample(names, 2))] = True
        self.topics = {name: [] for name in names}
        for name in names:
            self.start(name)

    # -- what happens ---------------------------------------------------------------------

    def live(self, steps: int = 120) -> None:
        """Let much happen, then nothing more; check what must hold then."""
        for _ in range(steps):
            self._happen()
            self._run(self.now_ms + self.random.choice((0, 5, 50, 400, 2_000)))
        for name in self.topics:
            if name not in self.nodes:
                self.start(name)
            for app in APPS:
                self.write(name, LeaseSaid(app, 1_000_000))
        for wire in self.works:
            self.cut(wire, works=True)
        self._run(self.now_ms + QUIET_MS)
        self.check()

    def start(self, name: str) -> None:
        """Begin a new incarnation, which reads all that `roles` holds before it serves."""
        self.epochs[name] += 1
        epoch, uuid = self.epochs[name], f"uuid-{name}"
        number = int.from_bytes(hashlib.sha256(f"{name} {epoch}".encode()).digest()[:8], "big")
        settings = Settings(
            ping_ms=0, record_ms=120_000, trees_max=self.random.choice((None, None, 2))
        )
        node = TreeNode(name, uuid, epoch, number, self.realms[name], settings)
        self.nodes[name] = Applications(node, uuid, epoch)
        self.read[name], self._wakes[name] = 0, None
        for one, other in self._ends(name):
            self._open.pop((name, other if one == name else one), None)
            self._later(self.random.randint(0, 5), partial(self._notice, one, other))
        self._later(self.random.randint(10, 200), partial(self._catch_up, name, epoch))

    def crash(self, name: str) -> None:
        """End a node: what it knew is gone."""
        del self.nodes[name]
        for (app, _), call in self.calls.items():
            call.is_moot |= app[0] == name
        for app in APPS:
            self.held[name, app] = {}
        for one, other in self._ends(name):
            self._open.pop((name, other if one == name else one), None)
            self._later(self.random.randint(0, 60), partial(self._notice, one, other))

    def cut(self, wire: frozenset[str], *, works: bool) -> None:
        """Cut a link, or mend it."""
        if self.works[wire] == works:
            return
        self.works[wire] = works
        self.cuts[wire] += not works
        one, other = sorted(wire)
        for way in ((one, other), (other, one)):
            self._later(self.random.randint(0, 60), partial(self._notice, *way))

    def write(self, name: str, said: RoleSaid | LeaseSaid) -> None:
        """Write a record of `roles`."""
        if isinstance(said, LeaseSaid) and said.lease_ms is None and said.by:
            self._give_up_calls((name, said.app))
        self.topics[name].append(said)
        self._later(self.random.randint(1, 15), partial(self._read, name))

    def _give_up_calls(self, app: App) -> None:
        for (whose, _), call in self.calls.items():
            call.is_moot |= whose == app

    def _happen(self) -> None:
        chance, kind = self.random, self.random.random()
        name, app = chance.choice(list(self.topics)), chance.choice(APPS)
        tree, role = chance.choice(TREES), chance.choice(ROLES)
        place = Address(tree_id(tree), role)
        if kind < 0.06:
            if self.works:
                self.cut(chance.choice(list(self.works)), works=chance.random() < 0.5)
        elif name not in self.nodes:
            pass
        elif kind < 0.08:
            self.crash(name)
            self._later(chance.randint(1, 3_000), partial(self._start_again, name))
        elif kind < 0.14:
            self.write(name, LeaseSaid(app, chance.choice((500, 5_000, 60_000))))
        elif kind < 0.40:
            named = tree if chance.random() < 0.9 else place.tree
            self.write(name, RoleSaid(RoleKey(app, named, role), self._request(place)))
        elif kind < 0.50:
            self.write(name, RoleSaid(RoleKey(app, tree, role), None))
        elif kind < 0.51:
            self.write(name, LeaseSaid(app, None))
        elif kind < 0.63:
            self.step(name, self._say(app, place))
        else:
            self._send(name, app, place)

    def _request(self, place: Address) -> RoleRequest:
        is_alone = self.random.random() < 0.3
        return RoleRequest(
            place,
            is_alone,
            self.random.choice([Extent.CLOUD] * 4 + [Extent.REALM, Extent.NODE]),
            self.random.choice(("", "", "v2")),
            is_polite=is_alone and self.random.random() < 0.4,
        )

    def _say(self, app: str, place: Address) -> NodeInput:
        chance = self.random
        tree = chance.choice((None, place.tree))
        return chance.choice(
            (
                ExclusiveCleared(app, place),
                TreeEvicted(app, place.tree),
                SnoopWanted(app, tree, chance.choice(("", "v2")), chance.random() < 0.6),
                SnoopEnded(app, tree),
                NewsWanted(app, chance.choice(list(NewsKind)), chance.random() < 0.3),
            )
        )

    def _send(self, name: str, app: str, place: Address) -> None:
        chance = self.random
        options = Options(*(chance.random() < one for one in (0.1, 0.2, 0.2, 0.15)))
        call = f"c{len(self.calls)}"
        self.calls[(name, app), call] = Call(options)
        protocol = chance.choice(("", "", "v2"))
        self.step(name, SendWanted(app, call, place, b"p", b"", options, protocol=protocol))

    def _answer(self, name: str, told: Delivered) -> None:
        chance, kind = self.random, self.random.random()
        given = AnswerGiven(told.app, told.mid, b"x" if kind < 0.6 else None)
        if kind > 0.8:
            gives_up, is_last = chance.random() < 0.6, chance.random() < 0.8
            given = AnswerGiven(told.app, told.mid, b"g", is_last, grants=True, gives_up=gives_up)
        elif kind > 0.7:
            given = AnswerGiven(told.app, told.mid, b"1", is_last=False)
            self._later(chance.randint(1, 200), partial(self._answer, name, told))
        self.step(name, given)

    # -- what is heard --------------------------------------------------------------------

    def step(self, name: str, input_: NodeInput) -> None:
        """Give a node an input, if it runs, and do what it asks for."""
        node = self.nodes.get(name)
        if node is None:
            return
        for effect in node.step(input_, self.now_ms):
            self._perform(name, effect)
        due_ms, known = node.wakes_ms, self._wakes[name]
        if due_ms is not None and (known is None or due_ms < known):
            self._wakes[name] = due_ms
            tick = partial(self._tick, name, self.epochs[name], due_ms)
            self._later(max(1, due_ms - self.now_ms), tick)

    def _perform(self, name: str, effect: Effect) -> None:
        match effect:
            case Transmit(link, frame):
                self._transmit(name, link, frame)
            case WriteRole(key, request):
                self.write(name, RoleSaid(key, request, by=self.epochs[name]))
            case DropLease(app):
                self.write(name, LeaseSaid(app, None, by=self.epochs[name]))
            case Tell(app, told):
                self._hear((name, app), told)

    def _hear(self, app: App, told: AppTold) -> None:
        match told:
            case Answered():
                self._end(app, told.call, is_over=told.is_last)
            case Refused(address=None) if (app, told.call) in self.calls:
                self._end(app, told.call, is_over=True)
            case Refused(address=Address() as place, code=code):
                if code not in ("ROLE_HELD", "NOT_HELD"):
                    self.held[app].pop(place, None)
            case RoleTaken():
                self.held[app][told.address] = told.iid
                if told.is_granted:
                    kept = (told.is_exclusive, told.extent, told.protocol)
                    request = RoleRequest(told.address, *kept)
                    self.write(app[0], RoleSaid(self._key(app, told.address), request))
            case RoleLost():
                self.held[app].pop(told.address, None)
            case Expired():
                self.held[app] = {}
            case Delivered(wants_answer=True) if self.random.random() < 0.9:
                self._later(self.random.randint(0, 100), partial(self._answer, app[0], told))
            case Snooped(token=token) if token:
                is_out, is_other = self.random.random() < 0.2, self.random.random() < 0.3
                word = Resumed(app[1], token, is_out, b"other" if is_other else None)
                self._later(self.random.randint(0, 300), partial(self.step, app[0], word))
            case _:
                pass

    def _key(self, app: App, place: Address) -> RoleKey:
        """Return in which words an application asks for a role already, or would."""
        said = [one.key for one in self.topics[app[0]] if isinstance(one, RoleSaid) and one.request]
        own = [key for key in said if key.app == app[1] and key.role == place.role]
        own = [key for key in own if tree_id(key.tree) == place.tree]
        return own[-1] if own else RoleKey(app[1], *place)

    def _end(self, app: App, call: str, *, is_over: bool) -> None:
        known = self.calls[app, call]
        if known.is_over and not known.is_moot:
            raise RuleBrokenError(f"I2: seed {self.seed}: {app} heard behind the last of {call}")
        known.is_over = is_over

    def check(self) -> None:
        """Check that what stands on `roles`, what nodes host and what was told are one."""
        for key, call in self.calls.items():
            if not (call.is_over or call.is_moot or call.options.one_way):
                raise RuleBrokenError(f"I2: seed {self.seed}: no last answer for {key}")
        for name, node in self.nodes.items():
            self._check_node(name, node)

    def _check_node(self, name: str, node: Applications) -> None:
        inside = node.node._node
        left = (
            inside.sessions.open, inside.recoveries, inside.joins, inside.sessions.calls, inside.watching.held,
            len(node._polite), node._early,
        )  # fmt: skip
        if any(left) or inside.watching.held_bytes:
            raise RuleBrokenError(f"I3: seed {self.seed}: {name} still has {left}")
        stands = {one.key: one.request for one in self.topics[name] if isinstance(one, RoleSaid)}
        for app in APPS:
            hosted = dict(inside.hosts.by_app.get(app, {}).keys())
            requests = [request for key, request in stands.items() if request and key.app == app]
            wanted = {request.address for request in requests}
            for request in requests:
                self._check_request(name, node, request, hosted.get(request.address))
            told = {place: iid for place, iid in self.held[name, app].items() if place in hosted}
            if hosted.keys() != wanted or told != hosted:
                text = f"hosts {hosted}, wants {wanted}, heard of {told}"
                raise RuleBrokenError(f"seed {self.seed}: {app} at {name}: {text}")

    def _check_request(
        self, name: str, node: Applications, request: RoleRequest, iid: InstanceId | None
    ) -> None:
        """Check that a restart would bring back what is held now."""
        held = node.node._node.instances(request.address).get(iid or InstanceId(0))
        if held is None:
            return
        one = (held.is_exclusive, held.extent, held.protocol)
        if one != (request.is_exclusive, request.extent, request.protocol):
            raise RuleBrokenError(f"seed {self.seed}: {name} holds {one}, and {request} stands")

    # -- how time passes ------------------------------------------------------------------

    def _ends(self, name: str) -> list[tuple[str, str]]:
        ends = [tuple(sorted(wire)) for wire in self.works if name in wire]
        return [way for a, b in ends for way in ((a, b), (b, a))]

    def _notice(self, name: str, peer: str) -> None:
        wire = frozenset((name, peer))
        works, state = self.works[wire] and peer in self.nodes, (self.cuts[wire], self.epochs[peer])
        if name in self.nodes and (name, peer) in self._open:
            if works and self._open[name, peer] == state:
                return
            del self._open[name, peer]
            self.step(name, LinkClosed(peer))
        if name in self.nodes and works:
            self._open[name, peer] = state
            self.step(name, LinkOpened(peer))

    def _transmit(self, name: str, peer: str, frame: Frame) -> None:
        wire, way = frozenset((name, peer)), (name, peer)
        if self.works[wire]:
            self._arrival[way] = max(self.now_ms + self.random.randint(5, 25), self._arrival[way])
            arrive = partial(self._arrive, way, frame, self.cuts[wire])
            self._later(self._arrival[way] - self.now_ms, arrive)

    def _arrive(self, way: tuple[str, str], frame: Frame, cuts: int) -> None:
        if self.cuts[frozenset(way)] == cuts:
            self.step(way[1], FrameRead(way[0], frame))

    def _read(self, name: str) -> None:
        said = self.topics[name][self.read[name] :]
        if name in self.nodes and said:
            self.read[name] += len(said)
            for one in said:
                if isinstance(one, LeaseSaid) and one.lease_ms is None and not one.by:
                    self._give_up_calls((name, one.app))
            self.step(name, RolesRead(said))

    def _catch_up(self, name: str, epoch: int) -> None:
        if name in self.nodes and self.epochs[name] == epoch:
            self._read(name)
            self.step(name, RolesCaughtUp())

    def _start_again(self, name: str) -> None:
        if name not in self.nodes:
            self.start(name)

    def _tick(self, name: str, epoch: int, due_ms: int) -> None:
        if name in self.nodes and self.epochs[name] == epoch:
            if self._wakes[name] == due_ms:
                self._wakes[name] = None
            self.step(name, Ticked())

    def _run(self, until_ms: int) -> None:
        while self._heap and self._heap[0][0] <= until_ms:
            self.now_ms, _, happen = heapq.heappop(self._heap)
            happen()
        self.now_ms = until_ms

    def _later(self, after_ms: int, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + after_ms, self._count, happen))
