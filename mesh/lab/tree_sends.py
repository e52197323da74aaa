"""Applications of a scenario: they take roles, send, answer, and live while time passes.

They are the client library, each in the thread of the scenario: whenever somebody waits, all of
them read what came and renew their leases. Spec: lab.md 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from mesh.client.role_messages import Call, RoleMessage
from mesh.client.roles import Roles
from mesh.errors import MeshError
from mesh.lab.backend import Backend
from mesh.lab.consuming import ScenarioConsumers
from mesh.lab.faults import StepFailedError
from mesh.lab.steps import (
    TIMEOUT_S,
    Detail,
    Evict,
    Leave,
    Move,
    Role,
    Script,
    Send,
    TreeStep,
    Unrole,
)
from mesh.model.topology import Topology
from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import Address, Extent, tree_id

APP = "lab"
"""The application of a node unless a step names another."""

REPLIES_S = 30.0
MOVE = b"move"
"""Header of the message that asks for a role; names of sends stand there else."""

AppKey = tuple[str, str]


@dataclass(slots=True)
class TrackedSend:
    """A send of the scenario, and what became of it."""

    step: Send
    call: Call | None = None
    reached: dict[str, None] = field(default_factory=dict)
    refusal: str = ""

    def count(self, kind: ReplyKind) -> int:
        """Return how many replies are of a kind."""
        return 0 if self.call is None else sum(one.kind is kind for one in self.call.replies)

    @property
    def lasts(self) -> int:
        """How many replies were marked as the last."""
        if self.call is None or self.step.one_way:
            return 0
        return sum(one.is_last for one in self.call.replies)

    def document(self) -> Mapping[str, object]:
        """Return what the result says of it."""
        return {
            "name": self.step.name,
            "from": self.step.node,
            "tree": self.step.tree,
            "role": self.step.role,
            "reached": sorted(self.reached),
            "replies": self.count(ReplyKind.DATA),
            "nulls": self.count(ReplyKind.NULL),
            "not_found": self.count(ReplyKind.NOT_FOUND),
            "last": self.lasts,
        }


@dataclass(frozen=True, slots=True)
class _Due:
    """An answer that is given later."""

    at_ms: int
    app: AppKey
    message: RoleMessage
    payload: bytes
    is_last: bool


@dataclass(slots=True)
class LabApplications:
    """All applications of a scenario.

    Attributes:
        topology: Where the nodes are.
        backend: Where they run.
        consumers: Others that live while an application waits.
        sends: In order.
        names: Tree and role of an address, as the file writes them.
    """

    topology: Topology
    backend: Backend
    consumers: ScenarioConsumers
    sends: dict[str, TrackedSend] = field(default_factory=dict)
    names: dict[Address, str] = field(default_factory=dict)
    _apps: dict[AppKey, Roles] = field(default_factory=dict)
    _answers: dict[tuple[AppKey, Address], Script | None] = field(default_factory=dict)
    _due: list[_Due] = field(default_factory=list)
    _is_stepping: bool = False

    def run(self, step: TreeStep | Leave, timeout_s: float) -> Detail:
        """Run one step.

        Raises:
            StepFailedError: It was refused, or not done in time.
        """
        try:
            return self._run(step, timeout_s)
        except (MeshError, TimeoutError) as error:
            raise StepFailedError(str(error)) from error

    def _run(self, step: TreeStep | Leave, timeout_s: float) -> Detail:
        match step:
            case Role():
                return self._take(step, timeout_s)
            case Unrole():
                self._give_up(step, timeout_s)
            case Leave():
                left = self._apps.pop((step.node, step.app or APP), None)
                if left is None:
                    there = ", ".join(app for node, app in self._apps if node == step.node)
                    text = f"{step.node} has no application {step.app}; there is {there or 'none'}"
                    raise StepFailedError(text)
                left.leave()
            case Send():
                return self._send(step)
            case Move():
                self._move(step, timeout_s)
            case Evict():
                self._app(step.node, None, timeout_s).evict(step.tree)
            case _:
                assert_never(step)
        return {}

    def _take(self, step: Role, timeout_s: float) -> Detail:
        roles = self._app(step.node, step.app, timeout_s)
        address = self._know(step)
        self._answers[(step.node, step.app or APP), address] = step.answer
        extent = Extent(step.extent)
        iid = roles.add(
            step.tree, step.role, exclusive=step.exclusive, extent=extent, timeout_s=timeout_s
        )
        return {"iid": f"{iid:x}"}

    def _give_up(self, step: Unrole, timeout_s: float) -> None:
        """Give a role up; returns once the node has no such instance of it any more."""
        roles, address = self._app(step.node, step.app, timeout_s), _address(step)
        if (iid := roles.held.get(address)) is None:
            there = ", ".join(self.names[one] for one in roles.held if one in self.names)
            of = f"{step.app or APP} of {step.node}"
            text = f"{of} does not hold {step.tree}/{step.role}; it holds {there or 'nothing'}"
            raise StepFailedError(text)
        roles.remove(step.tree, step.role)
        deadline = roles.deadline(timeout_s)
        while any(
            one.iid == iid and not one.link
            for one in roles.routes(step.tree, step.role, timeout_s=timeout_s).routes
        ):
            roles.wait_until(deadline, f"role {step.role} is still in force")
        self._answers.pop(((step.node, step.app or APP), address), None)

    def _send(self, step: Send) -> Detail:
        timeout_s = float(step.timeout or REPLIES_S)
        sent = self.sends[step.name] = TrackedSend(step)
        self._know(step)
        roles = self._app(step.node, None, TIMEOUT_S)  # the step's own time is for replies
        sent.call = roles.send(
            step.tree,
            step.role,
            step.payload.encode(),
            header=step.name.encode(),
            one_way=step.one_way,
            one_instance=step.one_instance,
            one_response=step.one_response,
            local_realm=step.local_realm,
            timeout_s=timeout_s,
        )
        began = self.backend.now_ms()
        while not self._has_ended(sent.call):
            if self.backend.now_ms() - began > timeout_s * 1000:
                break
            self.pause(0)
        if sent.call.refusal is not None:
            raise StepFailedError(f"{sent.call.refusal.text} [{sent.call.refusal.code}]")
        return {"ms": self.backend.now_ms() - began}

    def _has_ended(self, call: Call) -> bool:
        return call.is_done or call.refusal is not None

    def _move(self, step: Move, timeout_s: float) -> None:
        roles, address = self._app(step.to, None, timeout_s), self._know(step)
        call = roles.send(step.tree, step.role, header=MOVE, timeout_s=timeout_s)
        deadline = self.backend.now_ms() + int(timeout_s * 1000)
        while address not in roles.held:
            is_late = self.backend.now_ms() > deadline
            if is_late or (call.is_done and call.replies[-1].kind is not ReplyKind.DATA):
                raise StepFailedError(f"{step.tree}/{step.role} did not move to {step.to}")
            self.pause(0)
        while self._is_held_elsewhere(address, step.to) and self.backend.now_ms() <= deadline:
            self.pause(0)

    def _is_held_elsewhere(self, address: Address, node: str) -> bool:
        """Return whether an application of another node has not heard yet that a role has moved."""
        return any(
            address in roles.held for (other, _), roles in self._apps.items() if other != node
        )

    def _know(self, step: Role | Send | Move) -> Address:
        address = _address(step)
        self.names.setdefault(address, f"{step.tree}/{step.role}")
        return address

    # -- life -----------------------------------------------------------------------------

    def _app(self, node: str, app: str | None, timeout_s: float) -> Roles:
        """Return an application of a node; it is opened when it is first named."""
        key = (node, app or APP)
        if key not in self._apps:
            kafka = self.topology.home_of(node, self.backend.kafka)
            opened = Roles(
                kafka, self.topology, node, key[1], now_ms=self.backend.now_ms, pause=self.pause
            )
            opened.open(timeout_s)
            self._apps[key] = opened
        return self._apps[key]

    def pause(self, seconds: float) -> None:
        """Let a little time pass; all applications live on."""
        if self._is_stepping:
            return
        self.backend.advance(seconds or 0.01)
        self.consumers.step()
        self.step()

    def step(self) -> None:
        """Have every application read what came, answer, and renew its lease."""
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            for key, roles in list(self._apps.items()):
                roles.step()
                for message in roles.taken():
                    self._hear(key, message)
            self._give_due()
        finally:
            self._is_stepping = False

    def _hear(self, key: AppKey, message: RoleMessage) -> None:
        node, _ = key
        if message.header == MOVE:
            message.grant(node.encode(), give_up=True)
            return
        sent = self.sends.get(message.header.decode("utf-8", "replace"))
        if sent is not None:
            sent.reached[node] = None
        if not message.wants_answer:
            return
        script = self._answers.get((key, message.address)) or Script(replies=[node])
        at_ms = self.backend.now_ms() + int(script.after_s * 1000)
        for number, text in enumerate(script.replies, 1):
            is_last = number == len(script.replies)
            self._due.append(_Due(at_ms, key, message, text.encode(), is_last))

    def _give_due(self) -> None:
        now = self.backend.now_ms()
        due, self._due = self._due, []
        for one in due:
            if one.at_ms > now:
                self._due.append(one)
            elif one.app in self._apps:
                one.message.answer(one.payload, is_last=one.is_last)

    # -- the result -----------------------------------------------------------------------

    def holders(self, running: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return which of the nodes that run have each role."""
        found: dict[str, dict[str, None]] = {name: {} for name in self.names.values()}
        for (node, _), roles in self._apps.items():
            for address in roles.held if node in running else ():
                found.setdefault(self.names.get(address, "/".join(address)), {})[node] = None
        return {name: sorted(nodes) for name, nodes in sorted(found.items())}

    def close(self) -> None:
        """End every application."""
        for roles in self._apps.values():
            roles.close()


def _address(step: Role | Unrole | Send | Move) -> Address:
    return Address(tree_id(step.tree), step.role)
