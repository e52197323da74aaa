"""The roles that an application wants, and those that it has. Spec: tree_layer 8, 13.

What it wants is stored in records of its node, so that a returning node knows it; what it has is
what the node says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mesh.errors import RoleRefusedError
from mesh.model.tree_apps import Refused, RoleKey, RoleRequest, RoleTaken
from mesh.model.trees import Address, InstanceId

NEWS_ONLY = ("ROLE_HELD", "NOT_HELD")
"""Refusals that change nothing about what the application wants or has."""


@dataclass(slots=True)
class RoleRequests:
    """The roles of one application.

    Attributes:
        app: Its name.
        write: Writes a request for the node; None withdraws it.
        held: What it has now.
    """

    app: str
    write: Callable[[RoleKey, RoleRequest | None], None]
    held: dict[Address, InstanceId] = field(default_factory=dict)
    _awaited: dict[Address, None] = field(default_factory=dict)
    _requests: dict[RoleKey, RoleRequest] = field(default_factory=dict)
    _keys: dict[Address, dict[RoleKey, None]] = field(default_factory=dict)
    _refused: dict[Address, Refused] = field(default_factory=dict)
    _given_up: dict[RoleKey, None] = field(default_factory=dict)

    def want(self, tree: str, request: RoleRequest) -> None:
        """Request a role on a tree, by name or UUID."""
        key = RoleKey(self.app, tree, request.address.role)
        self._awaited[request.address] = None
        self._refused.pop(request.address, None)
        if self._requests.get(key, request) != request:
            self.held.pop(request.address, None)  # the node ends it, and takes it again
        self._request(key, request)

    def granted(self, address: Address) -> InstanceId | None:
        """Return the instance of a role; None as long as the node has not answered.

        Raises:
            RoleRefusedError: The node does not grant it.
        """
        if address not in self.held and (refused := self._refused.pop(address, None)) is not None:
            raise RoleRefusedError(refused.code, refused.text)
        return self.held.get(address)

    def stop_waiting(self, address: Address) -> None:
        """Record that nobody waits for a role any more: it is here, was refused, or is late."""
        self._awaited.pop(address, None)
        self._refused.pop(address, None)

    def give_up(self, tree: str, address: Address) -> None:
        """Give a role up, under every name of its tree that was used to request it."""
        for key in self._forget(address) or [RoleKey(self.app, tree, address.role)]:
            self._given_up[key] = None
            self.write(key, None)
        self.held.pop(address, None)

    def take(self, taken: RoleTaken) -> None:
        """Take a role that the node has given; a granted role is requested from now on.

        If the role was already requested, that request now says what is held, as at the node. A
        role that was given up meanwhile is released by the time its node says so.
        """
        if not (taken.is_granted or taken.address in self._keys):
            return
        self.held[taken.address] = taken.iid
        if taken.is_granted:
            fresh = RoleKey(self.app, taken.address.tree, taken.address.role)
            key = next(iter(self._keys.get(taken.address, ())), fresh)
            kept = (taken.is_exclusive, taken.extent, taken.protocol)
            self._request(key, RoleRequest(taken.address, *kept))

    def lose(self, address: Address) -> None:
        """Record that a role has gone elsewhere: it is not wanted back."""
        self.held.pop(address, None)
        self._forget(address)

    def refuse(self, refused: Refused) -> bool:
        """Record that a role was refused; return whether nobody is waiting to be notified.

        That may concern a role that the application had: another took it while its node was away.
        """
        if refused.address is None or refused.code in NEWS_ONLY:
            return refused.address is None
        self.lose(refused.address)
        if refused.address not in self._awaited:
            return True
        self._refused[refused.address] = refused
        return False

    def say_again(self) -> None:
        """Request everything again: the node has forgotten it."""
        self.held.clear()
        self.write_again()

    def write_again(self) -> None:
        """Write again what Kafka may not have accepted; given up roles first."""
        for key in self._given_up:
            self.write(key, None)
        for key, request in self._requests.items():
            self.write(key, request)

    def written(self) -> None:
        """Record that Kafka has accepted everything written so far."""
        self._given_up.clear()

    def _request(self, key: RoleKey, request: RoleRequest) -> None:
        self.write(key, request)  # first: what cannot be requested is not requested later
        self._given_up.pop(key, None)
        self._requests[key] = request
        self._keys.setdefault(request.address, {})[key] = None

    def _forget(self, address: Address) -> list[RoleKey]:
        """Stop requesting a role; return the names by which it was requested."""
        keys = list(self._keys.pop(address, ()))
        for key in keys:
            del self._requests[key]
        return keys
