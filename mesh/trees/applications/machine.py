"""The applications of one node: how long each lives, what roles it wants, what it is told.

A role is a request of an application that lives. Every record of an application renews its lease;
one that ends takes its roles along, and what waited for its answers ends at that moment. What the
node takes away, or does not give, is taken out of `roles` at once, so that no restart brings it
back. Spec: tree_layer 13.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from mesh.model.tree_apps import (
    LEASE_MS,
    PROBE,
    Answered,
    AnswerGiven,
    AppSaid,
    AppTold,
    ColourChanged,
    ColourReason,
    Delivered,
    ExclusiveCleared,
    Expired,
    LeaseSaid,
    NewsKind,
    NewsWanted,
    PartitionSuspected,
    Refused,
    Resumed,
    RoleKey,
    RoleLoss,
    RoleLost,
    RoleRequest,
    RoleSaid,
    RoleTaken,
    RoutesAsked,
    SendWanted,
    Served,
    Snooped,
    SnoopEnded,
    SnoopWanted,
    TreeBuilt,
    TreeEvicted,
    Unpartitioned,
)
from mesh.model.trees import Address, tree_id
from mesh.trees.applications.early_words import EarlyWords
from mesh.trees.applications.effects import DropLease, Effect, Tell, WriteRole
from mesh.trees.applications.inputs import (
    NodeInput,
    RolesCaughtUp,
    RolesRead,
    SaidWrongly,
    WordsLost,
)
from mesh.trees.applications.known_routes import tell_routes
from mesh.trees.applications.listeners import Listeners, present
from mesh.trees.applications.polite import PoliteRoles, refusal
from mesh.trees.applications.probes import TRIES_MAX, Holder, Probe
from mesh.trees.applications.splits import CALL, SplitCounts
from mesh.trees.inputs import (
    AppGone,
    FrameRead,
    Input,
    LeadResumed,
    LinkClosed,
    LinkOpened,
    MeshFollowed,
    PortOpened,
    RealmChanged,
    RolesAdded,
    RolesRemoved,
    Ticked,
)
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Output, Transmit

APPS_MAX = 10_000
"""Applications that a node serves at a time; what others say is counted and left out."""

PORTS_MAX = 1_000
"""Protocols of one application; each stays open for as long as it lives."""


@dataclass(slots=True)
class _App:
    """One application.

    Attributes:
        until_ms: When its lease ends.
        requests: What stands for it on `roles`.
        keys: ... and in which words; each role once.
        granted: Roles that came by a grant, and for which no request stands yet.
        ports: Protocols that it listens to.
        hello: Its word, until it is said back.
    """

    lease_ms: int = LEASE_MS
    until_ms: int = 0
    requests: dict[RoleKey, RoleRequest] = field(default_factory=dict)
    keys: dict[Address, RoleKey] = field(default_factory=dict)
    granted: dict[Address, None] = field(default_factory=dict)
    ports: dict[str, None] = field(default_factory=dict)
    hello: str = ""

    def forget(self, address: Address) -> RoleKey | None:
        """Forget a role; return the words in which it stood on `roles`, if it did."""
        self.granted.pop(address, None)
        key = self.keys.pop(address, None)
        if key is not None:
            del self.requests[key]
        return key


@dataclass(slots=True)
class Applications:
    """One incarnation of a node's tree layer, and the applications that it serves.

    Attributes:
        node: Decides where messages go.
        uuid, epoch: Of the node, as applications are told.
        refused: How much was refused, by code.
        splits: Who can be reached, and who ever could.
        listeners: Who wants to be told of what.
    """

    node: TreeNode
    uuid: str
    epoch: int
    refused: Counter[str] = field(default_factory=Counter)
    splits: SplitCounts = field(default_factory=SplitCounts)
    listeners: Listeners = field(default_factory=Listeners)
    _apps: dict[str, _App] = field(default_factory=dict)
    _early: EarlyWords = field(default_factory=EarlyWords)
    _polite: PoliteRoles = field(default_factory=PoliteRoles)
    _inputs: deque[Input] = field(default_factory=deque)
    _is_caught_up: bool = False
    _now_ms: int = 0

    @property
    def names(self) -> Collection[str]:
        """Return the applications that live."""
        return self._apps.keys()

    @property
    def wakes_ms(self) -> int | None:
        """Return by when the next `Ticked` is due, None while nothing is awaited."""
        due = [app.until_ms for app in self._apps.values()]
        others = (self._polite.due_ms, self.node.wakes_ms, self.splits.due_ms)
        return min([*due, *(at_ms for at_ms in others if at_ms is not None)], default=None)

    def step(self, input_: NodeInput, now_ms: int) -> list[Effect]:
        """Take one input; return what is to be done, in this order."""
        self._now_ms = max(self._now_ms, now_ms)
        return list(self._take(input_))

    def _take(self, input_: NodeInput) -> Iterator[Effect]:
        match input_:
            case RolesRead(said):
                yield from self._read(said)
            case RolesCaughtUp():
                yield from self._begin()
            case SendWanted() | AnswerGiven() | ExclusiveCleared() | TreeEvicted() | RoutesAsked():
                yield from self._hear(input_)
            case SnoopWanted() | SnoopEnded() | Resumed() | NewsWanted():
                yield from self._hear(input_)
            case SaidWrongly(app, call, text):
                if app in self._apps and self._is_caught_up:
                    yield Tell(app, Refused(app, call, "BAD_RECORD", text))
            case WordsLost():
                yield from self._end_lives(list(self._apps))
            case Ticked():
                yield from self._end_leases()
                for taken in self._polite.settled(self._now_ms):
                    yield Tell(taken.app, taken)
                yield from self._tree(input_)
                yield from self._count(self.splits.tick(self._now_ms))
            case LeadResumed():
                self._renew_leases()
                yield from self._tree(input_)
            case LinkOpened() | LinkClosed() | FrameRead() | RealmChanged() | MeshFollowed():
                yield from self._tree(input_)
            case _:
                assert_never(input_)

    # -- what applications say ------------------------------------------------------------

    def _begin(self) -> Iterator[Effect]:
        """Serve the applications that live, all at once: what is long gone never was there."""
        self._is_caught_up = True
        for name, app in list(self._apps.items()):
            app.until_ms = self._now_ms + app.lease_ms  # nobody could be served until now
            yield from self._adopt(name)
            requests = list(app.requests.values())
            yield from self._add(name, [one for one in requests if not one.is_exclusive])
            for key in [key for key, one in app.requests.items() if one.is_exclusive]:
                yield from self._probe(key)
        for said in self._early.take():
            yield from self._hear(said)

    def _hear(self, said: AppSaid) -> Iterator[Effect]:
        if not self._is_caught_up:
            if not self._early.keep(said):
                self.refused["TOO_EARLY"] += 1
            return
        if said.app:
            if self._refuse_if_full(said.app):
                return
            yield from self._live(said.app)
        if isinstance(said, RoutesAsked):
            yield from self._tell_all([said.app], tell_routes(self.node, said))
        elif isinstance(said, NewsWanted):
            yield from self._listen(said)
        else:
            yield from self._tree(said)

    def _listen(self, wanted: NewsWanted) -> Iterator[Effect]:
        """Notify an application of something from now on, and at once of what is already there."""
        self.listeners.take(wanted)
        if wanted.of is NewsKind.SPLITS and not wanted.ends:
            yield from self._count(self.splits.begin())
        elif wanted.ends:
            self._end_counts()
        else:
            yield from self._tell_all([wanted.app], present(self.node, wanted.of))

    def _end_counts(self) -> None:
        if not self.listeners.of(NewsKind.SPLITS):
            self.splits.end()

    def _tell_all(self, apps: Iterable[str], news: Iterable[AppTold]) -> Iterator[Effect]:
        for one in news:
            for app in apps:
                yield Tell(app, one)

    def _count(self, count: SendWanted | None) -> Iterator[Effect]:
        """Count who can be reached."""
        if count is not None:
            yield from self._tree(count)

    def _counted(self, said: Answered) -> Iterator[Effect]:
        told, count = self.splits.heard(said, self._now_ms)
        yield from self._tell_all(self.listeners.of(NewsKind.SPLITS), told)
        yield from self._count(count)

    def _read(self, said: Sequence[RoleSaid | LeaseSaid]) -> Iterator[Effect]:
        """Take records of `roles`; what one application adds in a row is added at once.

        So is what it gives up. A request that takes the place of one in that row is no part of it:
        the former has to be in force before it can end.
        """
        requests: dict[RoleKey, RoleRequest] = {}
        ends: list[Address] = []
        of = ""
        for one in said:
            if one.by and self._is_caught_up:
                yield from self._hear_node(one)
                continue
            app, key = (one.key.app, one.key) if isinstance(one, RoleSaid) else (one.app, None)
            is_more = isinstance(one, RoleSaid) and self._is_news(one)
            if requests and (app != of or not is_more or key in requests):
                yield from self._add(of, list(requests.values()))
                requests = {}
            if ends and not (app == of and isinstance(one, RoleSaid) and one.request is None):
                yield from self._remove(of, ends)
                ends = []
            of = app
            begins = one.request if isinstance(one, RoleSaid) else one.lease_ms
            if begins is not None and self._refuse_if_full(app):
                continue
            if isinstance(one, LeaseSaid):
                yield from self._lease(one)
            elif one.request is None:
                ends += self._unsay(one.key)
            else:
                yield from self._live(app)
                if not is_more:
                    yield from self._say_again(one.key)
                elif (yield from self._note(one.key, one.request)):
                    requests[one.key] = one.request
        yield from self._add(of, list(requests.values()))
        yield from self._remove(of, ends)

    def _hear_node(self, said: RoleSaid | LeaseSaid) -> Iterator[Effect]:
        """Read what this node wrote, or a former leader of it: no word of an application.

        It crossed with what the application said meanwhile, and stands behind that: what is to be
        found there after a restart is written once more. A later leader knows better.
        """
        if said.by > self.epoch or isinstance(said, LeaseSaid):
            return
        app = self._apps.get(said.key.app)
        request = app.requests.get(said.key) if app is not None else None
        if said.request != request:
            yield WriteRole(said.key, request)

    def _say_again(self, key: RoleKey) -> Iterator[Effect]:
        """Tell an application that asks again what it has: it may be another process by now."""
        held = self.node.held(key.app, address := _address(key))
        is_settling = self._polite.is_settling(key.app, address)
        if held is not None and self._is_caught_up and not is_settling:
            yield Tell(key.app, held)

    def _refuse_if_full(self, name: str) -> bool:
        """Return whether nobody else can be served: each application costs a topic."""
        is_full = name not in self._apps and len(self._apps) >= APPS_MAX
        if is_full:
            self.refused["TOO_MANY_APPLICATIONS"] += 1
        return is_full

    def _is_news(self, said: RoleSaid) -> bool:
        app = self._apps.get(said.key.app)
        known = app.requests.get(said.key) if app is not None else None
        return said.request is not None and said.request != known

    def _lease(self, said: LeaseSaid) -> Iterator[Effect]:
        if said.lease_ms is None:
            if said.app in self._apps:
                yield from self._part(said.app)
                yield Tell(said.app, Expired(said.app))  # another process of this name may live on
            return
        yield from self._live(said.app)
        app = self._apps[said.app]
        app.lease_ms, app.until_ms = said.lease_ms, self._now_ms + said.lease_ms
        if said.hello and self._is_caught_up:
            yield Tell(said.app, Served(said.app, self.uuid, self.epoch, said.hello))
        elif said.hello:
            app.hello = said.hello

    def _live(self, name: str) -> Iterator[Effect]:
        """Renew a lease; a new application is served from now on."""
        app = self._apps.get(name)
        if app is None:
            app = self._apps[name] = _App()
            if self._is_caught_up:
                yield from self._adopt(name)
        app.until_ms = self._now_ms + app.lease_ms

    def _adopt(self, name: str) -> Iterator[Effect]:
        self._apps[name].ports[""] = None
        yield from self._tree(PortOpened(name))
        yield Tell(name, Served(name, self.uuid, self.epoch, self._apps[name].hello))

    def _add(self, name: str, requests: Sequence[RoleRequest]) -> Iterator[Effect]:
        if not self._is_caught_up or not requests:
            return
        ports = self._apps[name].ports
        wanted: list[RoleRequest] = []
        for request in requests:
            if request.protocol not in ports and len(ports) >= PORTS_MAX:
                text = f"an application has {PORTS_MAX} protocols at most; use one that it has"
                place = (request.address.role, "TOO_MANY_PROTOCOLS", text, request.address)
                yield from self._pass_on(Refused(name, *place))
                continue
            if request.protocol not in ports:
                ports[request.protocol] = None
                yield from self._tree(PortOpened(name, request.protocol))
            wanted.append(request)
        yield from self._tree(RolesAdded(name, wanted))

    def _note(self, key: RoleKey, request: RoleRequest) -> Generator[Effect, None, bool]:
        """Keep a request; return whether it must be fulfilled: a granted role is here already."""
        app = self._apps[key.app]
        twin = app.keys.setdefault(request.address, key)
        if twin != key:
            text = f"application {key.app!r} wants it as {twin.tree!r} already; nothing was done"
            yield WriteRole(key, None)
            yield Tell(key.app, Refused(key.app, key.role, "ROLE_HELD", text, request.address))
            return False
        former = app.requests.get(key)
        app.requests[key] = request
        if former is not None:
            yield from self._remove(key.app, self._ended(key))
        is_new = app.granted.pop(request.address, True) is True
        if is_new and request.is_polite and self._is_caught_up:
            yield from self._probe(key)
            return False
        return is_new

    # -- holding a role alone, politely ---------------------------------------------------

    def _probe(
        self, key: RoleKey, tries: int = 0, lost: RoleLost | None = None
    ) -> Iterator[Effect]:
        """Ask whether a role has a holder before taking it: a message to one instance.

        Of a node that comes back too: its roles may have been taken over meanwhile, by somebody
        whose instance is not as new as a fresh one would be. And of one that lost a role: nodes
        far away may know a holder that is no more, perhaps a former instance of this one.
        """
        address = self._apps[key.app].requests[key].address
        yield from self._tree(self._polite.ask(Probe(key, address, tries, lost)))

    def _heard_of_holder(self, answer: Answered) -> Iterator[Effect]:
        """Take a role that nobody holds; with a holder, its request ends."""
        heard = self._polite.heard(answer)
        if heard is None:
            return
        (probe, holder), key = heard, heard[0].key
        request = self._apps[key.app].requests[key]
        if holder is Holder.UNKNOWN and probe.tries < TRIES_MAX:
            yield from self._probe(key, probe.tries + 1, probe.lost)
        elif holder is not Holder.NOBODY and probe.lost is not None:
            yield from self._forget(key.app, request.address)
            yield Tell(key.app, probe.lost)
        elif holder is Holder.SOMEBODY or (holder is Holder.UNKNOWN and request.is_polite):
            yield from self._pass_on(refusal(key, request.address, holder))
        else:
            if request.is_polite:
                self._polite.settle(key.app, request.address)
            yield from self._add(key.app, [request])

    def _answer_probe(self, probe: Delivered) -> Iterator[Effect]:
        """Confirm to a holder that it holds the role, also while others may have taken it too.

        One that asks only then is late, and would take it from all of them.
        """
        yield from self._tree(AnswerGiven(probe.app, probe.mid, b""))

    def _unsay(self, key: RoleKey) -> Sequence[Address]:
        """Take the end of a request; return what the node is to give up for it."""
        app = self._apps.get(key.app)
        address = _address(key)
        if app is None or not (key in app.requests or address in app.granted):
            return ()
        ended = self._ended(key)
        app.forget(address)
        return ended

    def _ended(self, key: RoleKey) -> Sequence[Address]:
        """Stop asking for a role; return it if it is in force already."""
        address = _address(key)
        self._polite.stop_settling(key.app, address)
        is_asking = self._polite.stop_asking(key)
        return () if is_asking or not self._is_caught_up else (address,)

    def _remove(self, app: str, addresses: Sequence[Address]) -> Iterator[Effect]:
        if addresses:
            yield from self._tree(RolesRemoved(app, addresses))

    def _end_leases(self) -> Iterator[Effect]:
        ended = [one for one, app in self._apps.items() if app.until_ms <= self._now_ms]
        yield from self._end_lives(ended)

    def _renew_leases(self) -> None:
        """Begin all leases anew: where no broker answered no application could renew its own."""
        for app in self._apps.values():
            app.until_ms = max(app.until_ms, self._now_ms + app.lease_ms)

    def _end_lives(self, names: Iterable[str]) -> Iterator[Effect]:
        """Let applications go; one that lives hears it, and says again what it wants."""
        for name in names if self._is_caught_up else ():
            yield from self._part(name)
            yield DropLease(name)
            yield Tell(name, Expired(name))

    def _part(self, name: str) -> Iterator[Effect]:
        """Let an application go with all that it holds and waits for."""
        app = self._apps.pop(name)
        self.listeners.part(name)
        self._end_counts()
        for key, request in app.requests.items():
            self._polite.stop_settling(name, request.address)
            self._polite.stop_asking(key)
            yield WriteRole(key, None)
        if self._is_caught_up:
            yield from self._tree(AppGone(name))

    # -- what the tree node says ----------------------------------------------------------

    def _tree(self, input_: Input) -> Iterator[Effect]:
        """Give the node an input; what follows from its outputs waits for the last of them.

        Else frames of the second step would go ahead of the first one's: a gap, a link lost.
        """
        self._inputs.append(input_)
        if len(self._inputs) > 1:
            return
        while self._inputs:
            for output in self.node.step(self._inputs[0], self._now_ms):
                yield from self._pass_on(output)
            self._inputs.popleft()

    def _pass_on(self, output: Output) -> Iterator[Effect]:
        match output:
            case Transmit():
                yield output
            case Delivered(protocol=protocol) if protocol == PROBE:
                yield from self._answer_probe(output)
            case Answered(app="", call=call) if call.startswith(CALL):
                yield from self._counted(output)
            case Answered(app=""):
                yield from self._heard_of_holder(output)
            case Delivered() | Answered() | Snooped():
                yield Tell(output.app, output)
            case RoleTaken():
                yield from self._taken(output)
            case RoleLost():
                yield from self._lost(output)
            case Refused():
                self.refused[output.code] += 1
                if output.address is not None and output.code not in _HELD_ALREADY:
                    self._polite.stop_settling(output.app, output.address)
                    yield from self._forget(output.app, output.address)
                if output.app:
                    yield Tell(output.app, output)
            case PartitionSuspected() | Unpartitioned():
                yield from self._tell_all(list(self._apps), [output])
                yield from self._count(self.splits.changed())
            case ColourChanged(reason=reason):
                yield from self._tell_all(self.listeners.of(NewsKind.COLOURS), [output])
                if reason is not ColourReason.FIRST:  # somewhere a link was lost, or made
                    yield from self._count(self.splits.changed())
            case TreeBuilt():
                yield from self._tell_all(self.listeners.of(NewsKind.TREES), [output])
            case _:
                assert_never(output)

    def _taken(self, taken: RoleTaken) -> Iterator[Effect]:
        app = self._apps.get(taken.app)
        if taken.is_granted and app is not None:
            yield from self._follow_grant(app, taken)
        if not self._polite.keep(taken, self._now_ms):
            yield Tell(taken.app, taken)

    def _follow_grant(self, app: _App, taken: RoleTaken) -> Iterator[Effect]:
        """Write into the request for a role what is held since a grant.

        Without one the application writes it; what it wanted before was something else: another
        instance, politely perhaps, which the one that came takes the place of.
        """
        self._polite.stop_settling(taken.app, taken.address)
        if taken.protocol not in app.ports:
            app.ports[taken.protocol] = None
            yield from self._tree(PortOpened(taken.app, taken.protocol))
        key = app.keys.get(taken.address)
        if key is None:
            app.granted[taken.address] = None
            return
        self._polite.stop_asking(key)
        kept = (taken.is_exclusive, taken.extent, taken.protocol)
        request = RoleRequest(taken.address, *kept)
        if app.requests[key] != request:
            app.requests[key] = request
            yield WriteRole(key, request)

    def _lost(self, lost: RoleLost) -> Iterator[Effect]:
        if (key := self._doubted(lost)) is not None:
            is_known = not self._polite.stop_settling(lost.app, lost.address)
            yield from self._probe(key, lost=lost if is_known else None)
            return
        yield from self._forget(lost.app, lost.address)
        if not self._polite.stop_settling(lost.app, lost.address):
            yield Tell(lost.app, lost)
            return
        text = f"{lost.address.role!r} was taken by another at the same time; ask its holder"
        yield Tell(
            lost.app, Refused(lost.app, lost.address.role, "EXCLUSIVE_HELD", text, lost.address)
        )

    def _doubted(self, lost: RoleLost) -> RoleKey | None:
        """Return the request for a role that a holder has taken who may be no more."""
        app = self._apps.get(lost.app)
        key = None if app is None else app.keys.get(lost.address)
        if app is None or key is None:
            return None
        is_taken = app.requests[key].is_exclusive and lost.why is RoleLoss.HIGHER_HOLDER
        return key if is_taken else None

    def _forget(self, name: str, address: Address) -> Iterator[Effect]:
        """Take out of `roles` what an application does not hold."""
        app = self._apps.get(name)
        if app is None:
            return
        if (key := app.forget(address)) is not None:
            self._polite.stop_asking(key)
            yield WriteRole(key, None)


def _address(key: RoleKey) -> Address:
    return Address(tree_id(key.tree), key.role)


_HELD_ALREADY = ("ROLE_HELD", "NOT_HELD")
"""Refusals that leave what the application holds as it is."""
