"""Roles on trees: take them, send to their holders, answer. Spec: tree_layer 8, 13.

```python
with client.roles("desk") as roles:
    roles.add("trading", "pricing")
    for reply in roles.send("trading", "risk", b"how much?"):
        print(reply.payload, reply.is_last)
    for message in roles.messages(timeout_s=10):
        message.answer(b"42")
```

The application lives as long as its lease is renewed, which `step` does. Waiting for replies or
messages steps; an application that does neither calls `step` at least every few seconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Self
from uuid import uuid4

from mesh.client.awaited import deadline_of
from mesh.client.outbound import check_flags, check_name, check_number
from mesh.client.process_guard import ProcessGuard
from mesh.client.role_connection import FAREWELL_S, RoleConnection
from mesh.client.role_messages import Call, Calls, RoleMessage, RoleReply, message_of, reply_of
from mesh.client.role_news import News, WantedNews
from mesh.client.role_records import address_of, check_request, encoded_said, on_tree
from mesh.client.role_requests import RoleRequests
from mesh.client.watching import Watcher, Watches
from mesh.errors import ClosedError, SubjectError, TransportUnavailableError
from mesh.model import tree_apps
from mesh.model.topology import Topology
from mesh.model.tree_frames import Cause, Options, ReplyKind
from mesh.model.tree_nodes import NODES, NodeSeen, nodes_in
from mesh.model.trees import NO_INSTANCE, Address, Extent, InstanceId
from mesh.transport import clock
from mesh.transport.port import KafkaCluster
from mesh.wire.tree_events import EventRecord

POLL_S = 0.05
OPEN_S = 30.0
"""How long a node may take to serve an application."""

TIMEOUT_S = 30.0
"""How long a send waits for replies, unless it says otherwise."""


class Roles:
    """One application at one node. One thread uses it.

    Args:
        kafka: The node's Kafka cluster.
        topology, node: The mesh, and the node.
        app: Name of the application; two of the same name are one application.
        lease_s: How long it lives without renewing its lease.
        now_ms, pause: Clock, and how to let time pass.
        is_new: End what an earlier application of this name held.
        check_usable: Raises ClosedError once `kafka` must no longer be used.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topology: Topology,
        node: str,
        app: str,
        *,
        lease_s: float = tree_apps.LEASE_MS / 1000,
        now_ms: Callable[[], int] = clock.now_ms,
        pause: Callable[[float], object] = time.sleep,
        is_new: bool = True,
        check_usable: Callable[[], None] = lambda: None,
    ) -> None:
        check_name("application", app)
        check_number("a lease", lease_s, "a number of seconds")
        if not 0 < lease_s <= 86_400:
            raise SubjectError(f"a lease of {lease_s:g} s; write seconds above 0, at most a day")
        self.app = app
        self.listener: Callable[[News], None] | None = None
        self._kafka, self._node = kafka, node
        self._names, self._bytes_max = topology.names, topology.max_message_bytes
        self._lease_ms = max(1, int(lease_s * 1000))
        self._now_ms, self._pause = now_ms, pause
        self._is_new, self._sent = is_new, 0
        self._check_usable, self._process = check_usable, ProcessGuard(f"application {app}")
        self._forget()

    def _forget(self) -> None:
        """Start over with nothing, as a new incarnation of this application."""
        self._word = uuid4().hex[:12]
        self._uuid, self._epoch = "", 0
        self._is_open, self._served = False, 0
        self._requests = RoleRequests(self.app, self._ask)
        self._calls = Calls()
        self._messages: deque[RoleMessage] = deque()
        self._asked_routes: dict[str, list[tree_apps.RoutesTold]] = {}
        self._watches = Watches()
        self._wanted = WantedNews(self.app)
        self._connection: RoleConnection | None = None

    # -- life -----------------------------------------------------------------------------

    def open(self, timeout_s: float = OPEN_S) -> Self:
        """Wait until the node serves this application; does nothing if it is open.

        Raises:
            TransportDeniedError: The node has no topics of the tree layer.
            TransportUnavailableError: It does not do so in time.
            ClosedError: The client is closed, or was made before a fork. All methods raise this.
        """
        self._refuse_unusable()
        if self._is_open:
            return self
        try:
            self._begin(self.deadline(timeout_s))
        except BaseException:
            self.leave()
            raise
        return self

    def _begin(self, deadline: int) -> None:
        connection = self._connection = RoleConnection(
            self._kafka,
            self._kafka.writer("roles", is_prompt=True),
            self._names,
            self._node,
            self.app,
            lease_ms=self._lease_ms,
            now_ms=self._now_ms,
        )
        connection.begin(self._word, is_new=self._is_new)
        while not connection.begin_reading():
            self._refuse_late(deadline)
            self._pause(POLL_S)
        while not self._is_open:
            self._refuse_late(deadline)
            self.step(POLL_S)

    @property
    def unreadable(self) -> int:
        """How many records in its topic meant nothing, and were passed over, since it opened."""
        return 0 if self._connection is None else self._connection.unreadable

    def _refuse_unusable(self) -> None:
        self._process.check()
        self._check_usable()

    def _connected(self) -> RoleConnection:
        self._refuse_unusable()
        if self._connection is None:
            raise TransportUnavailableError(f"application {self.app} is not open; call `open`")
        return self._connection

    def _refuse_late(self, deadline: int) -> None:
        if self._now_ms() > deadline:
            raise TransportUnavailableError(
                f"node {self._node} does not serve application {self.app}; start the node, or see "
                "in `mesh status` what it waits for"
            )

    def close(self) -> None:
        """End the application: its roles are released at once."""
        connection = self._connection
        try:
            if connection is not None and not self._process.is_forked:
                with suppress(ClosedError):  # its client is closing too: the lease runs out
                    connection.end_lease()
                    connection.flush(FAREWELL_S)
        finally:
            self.leave()

    def leave(self) -> None:
        """Release everything without telling the node: the lease runs out.

        After a fork the resources belong to the other process.
        """
        if self._process.is_forked:
            return
        connection = self._connection
        self._forget()
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_raised: object) -> None:
        self.close()

    # -- roles ----------------------------------------------------------------------------

    def add(
        self,
        tree: str,
        role: str,
        *,
        exclusive: bool = False,
        polite: bool = False,
        extent: Extent = Extent.CLOUD,
        protocol: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> InstanceId:
        """Take a role; return the id of the instance once the node has it in force.

        Args:
            tree: Name or UUID of the tree.
            role: Which one.
            exclusive: Hold it alone: all other instances end.
            polite: Hold it alone unless somebody holds it. Takes some seconds.
            extent: How far it is known.
            protocol: It gets messages of this protocol, and those that name none.
            timeout_s: How long to wait.

        Raises:
            SubjectError: A name is not valid, or `polite` is set without `exclusive`.
            RoleRefusedError: For example, somebody else holds it alone.
            TimeoutError: The node has not confirmed it in time.
        """
        request = tree_apps.RoleRequest(
            address_of(tree, role), exclusive, extent, protocol, is_polite=polite
        )
        return self.add_all([(tree, request)], timeout_s=timeout_s)[0]

    def add_all(
        self, requests: Iterable[tuple[str, tree_apps.RoleRequest]], *, timeout_s: float = TIMEOUT_S
    ) -> list[InstanceId]:
        """Take several roles, each on a tree by name or UUID, in one go; raises as `add` does.

        Each request names its tree as well. If one is refused the others are taken all the same:
        `held` shows which.
        """
        wanted = [(tree, on_tree(tree, request)) for tree, request in requests]
        for tree, request in wanted:
            check_request(tree_apps.RoleKey(self.app, tree, request.address.role), request)
        deadline = self.deadline(timeout_s)
        granted: list[InstanceId] = []
        try:
            for tree, request in wanted:
                self._requests.want(tree, request)
            for _, request in wanted:
                while (iid := self._requests.granted(request.address)) is None:
                    self.wait_until(deadline, f"role {request.address.role} is not in force")
                granted.append(iid)
        finally:
            for _, request in wanted:
                self._requests.stop_waiting(request.address)
        return granted

    def remove(self, tree: str, role: str) -> None:
        """Give a role up; raises SubjectError if a name is not valid."""
        self.remove_all([(tree, role)])

    def remove_all(self, roles: Iterable[tuple[str, str]]) -> None:
        """Give several roles up, each by tree and role, in one go; raises as `remove` does."""
        for tree, address in [(tree, address_of(tree, role)) for tree, role in roles]:
            self._requests.give_up(tree, address)

    @property
    def held(self) -> dict[Address, InstanceId]:
        """The roles that this application holds now."""
        return dict(self._requests.held)

    def clear(self, tree: str, role: str) -> None:
        """End the exclusive holder of a role, dead or alive, to take over from one that died."""
        self.say(tree_apps.ExclusiveCleared(self.app, address_of(tree, role)))

    def evict(self, tree: str) -> None:
        """Make the node forget the routes of a tree, as it does when its cache is full."""
        self.say(tree_apps.TreeEvicted(self.app, address_of(tree, "any").tree))

    def routes(self, tree: str, role: str, *, timeout_s: float = TIMEOUT_S) -> tree_apps.RoutesTold:
        """Return what the node knows of the routes to a role.

        Raises:
            SubjectError: A name is not valid.
            TimeoutError: The node has not answered in time.
        """
        deadline = self.deadline(timeout_s)
        self._sent += 1
        call = f"{self._word}-{self._sent}"
        self.say(tree_apps.RoutesAsked(self.app, call, address_of(tree, role)))
        parts = self._asked_routes[call] = []
        try:
            while not parts or parts[-1].has_more:
                self.wait_until(deadline, "no word of routes")
        finally:
            self._asked_routes.pop(call, None)
        return replace(parts[-1], routes=tuple(route for one in parts for route in one.routes))

    # -- the mesh ------------------------------------------------------------------------

    def listen(self, *news: tree_apps.NewsKind | str) -> None:
        """Notify `listener` of more than concerns this application itself. Spec: tree_layer 7.4, 8.

        Args:
            news: `"splits"`: which nodes are lost (`NodesLost`) and found again (`NodesFound`);
                costs a count of all nodes at each lost link, and every half minute. `"colours"`:
                the label of this part of the mesh (`ColourChanged`), at once and whenever it
                changes. `"trees"`: which trees the node knows (`TreeBuilt`), at once and whenever
                it learns of one.

        Raises:
            SubjectError: There is no such news.
        """
        for wanted in self._wanted.begin(news):
            self.say(wanted)

    def stop_listening(self, *news: tree_apps.NewsKind | str) -> None:
        """Stop hearing what `listen` requested; raises as that does."""
        for wanted in self._wanted.end(news):
            self.say(wanted)

    def nodes(self, tree: str = "", *, timeout_s: float = TIMEOUT_S) -> list[NodeSeen]:
        """Return the reachable nodes by name, or those on a tree, with its edges.

        Args:
            tree: Name or UUID of the tree; "" for all nodes.
            timeout_s: How long to wait for all of them.

        Raises:
            SubjectError: A name is not valid.
            TimeoutError: Some node has not answered in time.

        Spec: tree_layer 7.5.
        """
        asked = address_of(tree, "any").tree.encode() if tree else b""
        deadline = self.deadline(timeout_s)
        while True:
            call = self.send(*NODES, asked, one_response=True, timeout_s=timeout_s)
            if all(one.kind is not ReplyKind.NULL for one in call.wait()):
                break
            self.wait_until(deadline, "no word of all nodes")  # a null: a node may be missing
        seen = nodes_in(item for one in call.replies for item in one.items)
        on = (one for one in seen if not tree or one.neighbours is not None)
        return sorted(on, key=lambda one: one.node)

    # -- watching -------------------------------------------------------------------------

    def snoop(
        self, watcher: Watcher, tree: str = "", protocol: str = "", *, holds: bool = True
    ) -> None:
        """Watch the messages and replies that pass the node.

        What several watches hold continues when all of them have released it.

        Args:
            watcher: Called with each while this application steps; says what becomes of it.
            tree: Name or UUID of the only tree to watch; "" for all.
            protocol: The only protocol to watch; "" for all.
            holds: Messages wait for the watcher; otherwise the watcher is only informed.

        Raises:
            SubjectError: A name is not valid.
        """
        check_flags(holds=holds)
        id_ = address_of(tree, "any").tree if tree else None
        wanted = tree_apps.SnoopWanted(self.app, id_, protocol, holds)
        self.say(wanted)
        self._watches.begin(wanted, watcher)

    def unsnoop(self, tree: str = "", protocol: str = "") -> None:
        """End a watch that `snoop` began; held messages continue."""
        id_ = address_of(tree, "any").tree if tree else None
        self._watches.end(id_, protocol)
        self.say(tree_apps.SnoopEnded(self.app, id_, protocol))

    # -- sending and receiving ------------------------------------------------------------

    def send(
        self,
        tree: str,
        role: str,
        payload: bytes = b"",
        *,
        header: bytes = b"",
        one_way: bool = False,
        one_instance: bool = False,
        one_response: bool = False,
        local_realm: bool = False,
        iid: InstanceId = NO_INSTANCE,
        protocol: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> Call:
        """Send to the holders of a role; iterate over the result to get the replies.

        Args:
            tree: Name or UUID of the tree.
            role: The role to send to.
            payload: The content.
            header: More content, for applications that watch messages on their way.
            one_way: Expect no replies: best effort.
            one_instance: Send to one of the holders, the nearest.
            one_response: Request all answers in one reply.
            local_realm: Send only to holders in the node's realm.
            iid: Send to this instance.
            protocol: Send to those that listen to this protocol.
            timeout_s: How long to wait for the last reply.

        Raises:
            SubjectError: A name is not valid, options contradict each other, or it is too large.
            TypeError: Something is text, not bytes, or of another type than stated here.
        """
        check_flags(
            one_way=one_way,
            one_instance=one_instance,
            one_response=one_response,
            local_realm=local_realm,
        )
        self.deadline(timeout_s)  # refuse it before anything is sent
        options = Options(one_way, one_instance, one_response, local_realm)
        if (text := options.fault) is not None:
            raise SubjectError(text)
        address, self._sent = address_of(tree, role), self._sent + 1
        if not one_way:
            self._wake(timeout_s)
        name = f"{self._word}-{self._sent}"
        about = (payload, header, options, iid, protocol)
        self.say(tree_apps.SendWanted(self.app, name, address, *about))
        call = Call(name, timeout_s, self._now_ms(), _roles=self)
        if one_way:
            call.replies.append(RoleReply(ReplyKind.END, None, is_last=True))
        else:
            self._calls.begin(call)
        return call

    def _wake(self, timeout_s: float) -> None:
        """Renew a lease that has ended meanwhile, and wait: else the send would end with a null."""
        connection = self._connected()
        if not connection.has_expired():
            return
        deadline, served = self.deadline(timeout_s), self._served
        connection.renew(self._word)
        while self._served == served and not self.is_past(deadline):
            self.step(POLL_S)

    def say(self, said: tree_apps.AppSaid) -> None:
        """Write a record for the node.

        Raises:
            SubjectError: A name is not valid, or it carries more than a message may have.
            TypeError: Its content is text, not bytes.
        """
        key, value = encoded_said(said, self._bytes_max)
        self._connected().write_said(key, value)

    def check(self, said: tree_apps.AppSaid) -> None:
        """Raise what `say` would raise for it."""
        encoded_said(said, self._bytes_max)

    def flush(self) -> int:
        """Wait until Kafka has acknowledged all records; return how many were lost."""
        return self._connected().flush()

    def messages(self, *, timeout_s: float = TIMEOUT_S) -> Iterator[RoleMessage]:
        """Yield messages for this application's roles until none has come for this long."""
        while True:
            deadline = self.deadline(timeout_s)
            while not self._messages:
                if self._now_ms() > deadline:
                    return
                self.step(POLL_S)
            yield self._messages.popleft()

    def taken(self) -> list[RoleMessage]:
        """Return the messages that have come; each is given once."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def step(self, timeout_s: float = 0.0) -> bool:
        """Read what is there, and renew the lease; return whether anything came.

        Exceptions of a listener or watcher are raised here; the rest waits for the next step.
        """
        self.deadline(timeout_s)  # refuse an invalid time
        connection = self._connected()
        has_come = connection.read(timeout_s)
        # One by one: a listener or watcher may raise, call `step` itself, or close everything.
        while self._connection is connection and connection.told:
            decoded = connection.told.popleft()
            if self._is_current(decoded):
                self._take(decoded.event)
        if self._connection is connection and connection.skip_deleted():
            # Records deleted unread never come again, not even one that said the lease had ended.
            self._calls.end_all(None)
            connection.end_lease()
            self._say_all_again()
        if self._connection is connection:
            self._see_to_lost(connection)
        self._calls.end_old(self._now_ms())
        if not has_come:
            self._pause(0)
        return has_come

    def _see_to_lost(self, connection: RoleConnection) -> None:
        """Write again what Kafka did not accept: an outage may last longer than records wait."""
        connection.note_failures()
        if connection.is_written():
            self._requests.written()
        elif connection.take_lost():
            self._requests.write_again()
            self._watch_again()

    def deadline(self, timeout_s: float) -> int:
        """Return the moment at which a wait of this long ends."""
        return deadline_of(self._now_ms(), timeout_s)

    def is_past(self, deadline: int) -> bool:
        """Return whether this moment has passed."""
        return self._now_ms() > deadline

    def wait_until(self, deadline: int, what: str) -> None:
        """Step once more, or raise TimeoutError if it is too late."""
        if self._now_ms() > deadline:
            raise TimeoutError(f"{what} from node {self._node} in time")
        self.step(POLL_S)

    # -- records --------------------------------------------------------------------------

    def _is_current(self, decoded: EventRecord) -> bool:
        """Return whether a record comes from the node's present leader, not from a former one.

        A leader that was suspended or cut off may go on for a moment after another took over.
        """
        event = decoded.event
        is_other_node = isinstance(event, tree_apps.Served) and event.uuid != self._uuid
        return is_other_node or not 0 < decoded.epoch < self._epoch

    def _take(self, event: tree_apps.AppTold) -> None:
        match event:
            case tree_apps.Delivered():
                self._messages.append(message_of(event, self))
            case tree_apps.Answered():
                self._calls.reply(event.call, reply_of(event))
            case tree_apps.Snooped():
                self._watches.show(event, self)
            case tree_apps.RoleTaken():
                self._requests.take(event)
                if event.is_granted:
                    self._listen(event)
            case tree_apps.RoleLost():
                self._requests.lose(event.address)
                self._listen(event)
            case tree_apps.Refused():
                self._take_refusal(event)
            case tree_apps.Served():
                self._serve(event)
            case tree_apps.Expired():
                self._calls.end_all(Cause.APPLICATION_GONE)
                self._say_all_again()
            case tree_apps.RoutesTold():
                if event.call in self._asked_routes:
                    self._asked_routes[event.call].append(event)
            case _:
                self._listen(event)

    def _take_refusal(self, refused: tree_apps.Refused) -> None:
        if not self._calls.refuse(refused) and self._requests.refuse(refused):
            self._listen(refused)

    def _serve(self, served: tree_apps.Served) -> None:
        """Record which incarnation serves; a new one knows nothing of what was sent before."""
        self._served += served.hello == self._word
        if self._served and not self._is_open:
            self._is_open = True
            if self._is_new:  # earlier reports went to a former life
                self._requests.held.clear()
                self._messages.clear()
        if self._uuid and (self._uuid, self._epoch) != (served.uuid, served.epoch):
            self._calls.end_all(Cause.NODE_RESTARTED)
            self._watch_again()
        self._uuid, self._epoch = served.uuid, served.epoch

    def _watch_again(self) -> None:
        again: list[tree_apps.AppSaid] = [*self._watches.wanted(), *self._wanted.again()]
        for wanted in again:
            self.say(wanted)

    def _say_all_again(self) -> None:
        self._connected().renew()
        self._requests.say_again()
        self._watch_again()

    def _listen(self, news: News) -> None:
        if self.listener is not None:
            self.listener(news)

    def _ask(self, key: tree_apps.RoleKey, request: tree_apps.RoleRequest | None) -> None:
        self._connected().write_role(key, request)
