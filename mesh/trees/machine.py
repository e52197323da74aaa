"""The tree layer of one node as a state machine: `step(input, now_ms) -> outputs`.

The caller's duties, in this order:

1. Write the frames of one step in the order given, each into the topic of its link, whose frames
   the neighbour reads in order and from the end on.
2. Feed `LinkOpened` once frames of a neighbour can be read and written, `LinkClosed` when not.
3. Feed `Ticked` every 100 ms, or a little later, while `wakes_ms` is not None.
4. Give each incarnation of a node an epoch above all before; nothing of an earlier one is kept.

Spec: tree_layer 2; DESIGN 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mesh.model.tree_apps import (
    AnswerGiven,
    Delivered,
    ExclusiveCleared,
    KnownRoute,
    Resumed,
    RoleTaken,
    SendWanted,
    SnoopEnded,
    SnoopWanted,
    TreeEvicted,
)
from mesh.model.tree_frames import (
    Body,
    Bulk,
    Bye,
    ColourSpread,
    Edge,
    GetTrees,
    Heal,
    HealNotice,
    Hello,
    Ping,
    Pong,
    Publish,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRequest,
    Reopen,
    Reply,
    RouteBreak,
    Send,
    Trees,
)
from mesh.model.tree_nodes import MESH_APP, SILENT
from mesh.model.trees import Address, Colour, Extent, Ids, TreeId
from mesh.trees.colours import read_colour
from mesh.trees.edges import read_edge
from mesh.trees.evicting import evict, forget_unused, make_room
from mesh.trees.heals import compare, meet, read_heal, read_notice
from mesh.trees.holders import reach
from mesh.trees.inputs import (
    AppGone,
    FrameRead,
    Input,
    LeadResumed,
    LinkClosed,
    LinkOpened,
    MeshFollowed,
    PortClosed,
    PortOpened,
    RealmChanged,
    RolesAdded,
    RolesRemoved,
    Ticked,
)
from mesh.trees.joining import ask_for_trees, read_question, read_trees
from mesh.trees.late_routes import read_reopen
from mesh.trees.links import (
    REFUSED,
    close_link,
    excuse,
    follow_mesh,
    open_link,
    read_frame,
    restart,
    say_hello,
    tick_links,
)
from mesh.trees.losing import link_lost
from mesh.trees.node import TreeState
from mesh.trees.outputs import Output
from mesh.trees.publishing import (
    add_roles,
    clear_exclusive,
    read_publishes,
    remove_roles,
    taken,
    unpublish_beaten,
)
from mesh.trees.realms import change_realm
from mesh.trees.recovery import expire_recoveries, is_built, read_answer, read_done, read_request
from mesh.trees.replying import (
    answer,
    end_oldest,
    forget_closed,
    lose_application,
    read_reply,
    sweep_sessions,
)
from mesh.trees.resuming import begin_watch, end_watch, lose_watcher, sweep_held, take_word
from mesh.trees.sending import read_break, read_send, resume, send
from mesh.trees.settings import Settings
from mesh.trees.utility import describe, host_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much a tree node keeps.

    Attributes:
        roles: Instances that applications have here.
        trees: Trees of which routes are known.
        sessions: Messages that wait for a last reply, of this node and passing.
        recoveries: Floods begun here that have not ended.
        held: Messages and replies that wait for an application that watches.
    """

    roles: int = 0
    trees: int = 0
    sessions: int = 0
    recoveries: int = 0
    held: int = 0


class TreeNode:
    """One incarnation of a node's tree layer."""

    def __init__(
        self, name: str, uuid: str, epoch: int, incarnation: int, realm: str, settings: Settings
    ) -> None:
        """Begin with no links, no roles and no colour.

        Args:
            name: Of the node; its neighbours call the link by it.
            uuid: Its identity.
            epoch: Of this incarnation, above all before.
            incarnation: 64 bits that no other incarnation of any node has.
            realm: Its locality group, "" for none.
            settings: What may be set.
        """
        self._node = TreeState(name, uuid, epoch, realm, settings, Ids(incarnation))
        host_own(self._node)

    def step(self, input_: Input, now_ms: int) -> list[Output]:
        """Take one input; return what is to be done, in this order."""
        node = self._node
        node.now_ms = max(node.now_ms, now_ms)
        node.outputs = []
        _act(node, input_)
        while node.ready or node.questions:
            if node.ready:
                resume(node, node.ready.popleft())
            else:
                _answer_for_node(node, node.questions.popleft())
        if node.beaten:
            unpublish_beaten(node)
        end_oldest(node)
        make_room(node)
        return node.outputs

    @property
    def wakes_ms(self) -> int | None:
        """Return by when the next `Ticked` is due, None while nothing is awaited."""
        node = self._node
        due = [own.deadline_ms for own in node.recoveries.values()]
        for end in node.links.values():
            if not end.is_up:
                due.append(end.hello_ms)
            elif node.settings.ping_ms:
                due.append(end.ping_ms)
        if closed := node.sessions.closed:
            due.append(next(iter(closed.values())).closed_ms + node.settings.reopen_ms)
        if node.sessions.open or node.watching.held:
            due.append(node.swept_ms + node.settings.sweep_ms)
        return min(due, default=None)

    @property
    def colour(self) -> Colour | None:
        """Return the colour of the node's part."""
        return self._node.colour

    @property
    def realm_colour(self) -> Colour | None:
        """Return the colour of its part of the realm, None for a node in no realm."""
        return self._node.realm_colour

    @property
    def trees(self) -> Sequence[TreeId]:
        """Return the trees that it knows, the least recently used first."""
        return list(self._node.trees)

    @property
    def addresses(self) -> Iterator[Address]:
        """Yield the roles to which it knows a way, those of trees that were used last first.

        Left out is what every node hosts by itself.
        """
        node = self._node
        for tree_id in dict.fromkeys((*reversed(node.trees), *node.hosts.by_tree)):
            tree, hosted = node.trees.get(tree_id), node.hosts.by_tree.get(tree_id, {})
            known = {} if tree is None else tree.roles
            for name in dict.fromkeys((*known, *hosted)):
                holders = hosted.get(name, {}).values()
                maps = known[name].maps() if name in known else ()
                if any(one.app != MESH_APP for one in holders) or (
                    tree_id not in SILENT and any(one.routes for one in maps)
                ):
                    yield Address(tree_id, name)

    def routes(self, address: Address) -> tuple[bool, tuple[KnownRoute, ...]]:
        """Return whether the map of a role is certain, and the ways to its instances."""
        node = self._node
        tree = node.trees.get(address.tree)
        role = tree.roles.get(address.role) if tree is not None else None
        here = [KnownRoute(Extent.CLOUD, iid, "", one.seq, 0)
                for iid, one in node.instances(address).items()]  # fmt: skip
        ways = [
            KnownRoute(
                scope,
                iid,
                route.link,
                route.seq,
                route.hops,
                route.reason,
                node.now_ms - route.since_ms,
            )
            for scope in (Extent.CLOUD, Extent.REALM)
            for iid, route in (role.map(scope).routes if role is not None else {}).items()
        ]
        scope = reach(node, address, is_from_here=True, left_realm=False)
        return is_built(node, address, scope), (*here, *ways)

    def held(self, app: str, address: Address) -> RoleTaken | None:
        """Return what an application has of a role here, as it was told."""
        own = [one for one in self._node.instances(address).values() if one.app == app]
        return taken(own[0], is_granted=False) if own else None

    @property
    def links_up(self) -> Sequence[str]:
        """Return the neighbours with whom frames are exchanged."""
        return [link for link, end in self._node.links.items() if end.is_up]

    @property
    def refused(self) -> int:
        """Return how many frames came that no neighbour of a link can have meant."""
        return sum(self._node.counts[why] for why in REFUSED)

    @property
    def size(self) -> Size:
        """Return how much the node keeps, and what is under way."""
        node = self._node
        return Size(
            roles=sum(one.app != MESH_APP for one in node.hosts),
            trees=len(node.trees),
            sessions=len(node.sessions.open),
            recoveries=len(node.joins),
            held=len(node.watching.held),
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Return what was dropped or refused, by reason."""
        return self._node.counts


def _act(node: TreeState, input_: Input) -> None:
    """Hand an input to the part of the tree layer that it concerns."""
    match input_:
        case FrameRead():
            _read(node, input_)
        case SendWanted():
            send(node, input_)
        case AnswerGiven():
            answer(node, input_)
        case Ticked():
            _tick(node)
        case LinkOpened():
            open_link(node, input_.link)
        case LinkClosed():
            _close(node, input_.link)
        case RealmChanged():
            change_realm(node, input_.realm)
        case MeshFollowed():
            follow_mesh(node, input_)
        case LeadResumed():
            excuse(node, input_.links, input_.until_ms)
        case PortOpened():
            node.hosts.open_port(input_.app, input_.protocol)
        case PortClosed():
            node.hosts.close_port(input_.app, input_.protocol)
        case RolesAdded():
            add_roles(node, input_)
        case RolesRemoved():
            remove_roles(node, input_)
        case AppGone():
            _lose_app(node, input_.app)
        case ExclusiveCleared():
            clear_exclusive(node, input_)
        case TreeEvicted():
            evict(node, input_.tree)
        case SnoopWanted():
            begin_watch(node, input_)
        case SnoopEnded():
            end_watch(node, input_)
        case Resumed():
            take_word(node, input_)
        case _:
            assert_never(input_)


def _read(node: TreeState, input_: FrameRead) -> None:
    reading = read_frame(node, input_.link, input_.frame)
    if reading.is_lost:
        link_lost(node, node.links[input_.link])
        say_hello(node, node.links[input_.link])
    if reading.gained is not None:
        meet(node, input_.link, reading.gained)
        ask_for_trees(node, input_.link)
    if reading.body is not None:
        _obey(node, input_.link, reading.body)


def _obey(node: TreeState, link: str, body: Body) -> None:
    """Hand a frame's body to the part that it concerns; what is of the link itself is read."""
    match body:
        case Send():
            read_send(node, link, body)
        case Reply():
            read_reply(node, link, body)
        case RecoveryAnswer():
            read_answer(node, link, body)
        case RecoveryRequest():
            read_request(node, link, body)
        case RecoveryDone():
            read_done(node, link, body)
        case Publish():
            read_publishes(node, link, (body,))
        case Bulk():
            read_publishes(node, link, body.publishes)
        case Edge():
            read_edge(node, link, body)
        case RouteBreak():
            read_break(node, link, body)
        case Reopen():
            read_reopen(node, link, body)
        case ColourSpread():
            read_colour(node, link, body)
        case Heal():
            read_heal(node, link, body)
        case HealNotice():
            read_notice(node, link, body)
        case GetTrees():
            read_question(node, link, body)
        case Trees():
            read_trees(node, link, body)
        case Hello():
            compare(node, link, body)
        case Bye() | Ping() | Pong():
            pass
        case _:
            assert_never(body)


def _answer_for_node(node: TreeState, asked: Delivered) -> None:
    if asked.wants_answer:
        answer(node, AnswerGiven(MESH_APP, asked.mid, describe(node, asked.payload)))


def _close(node: TreeState, link: str) -> None:
    end = node.links.get(link)
    if end is not None and close_link(node, link):
        link_lost(node, end)


def _lose_app(node: TreeState, app: str) -> None:
    if held := node.hosts.by_app.get(app):
        remove_roles(node, RolesRemoved(app, list(dict.fromkeys(address for address, _ in held))))
    lose_application(node, app)
    lose_watcher(node, app)
    node.hosts.close_ports(app)


def _tick(node: TreeState) -> None:
    for link in tick_links(node):
        end = node.links[link]
        restart(node, end)
        link_lost(node, end)
        say_hello(node, end)
    expire_recoveries(node)
    forget_closed(node)
    if node.now_ms - node.swept_ms >= node.settings.sweep_ms:
        node.swept_ms = node.now_ms
        sweep_sessions(node)
        sweep_held(node)
        forget_unused(node)
