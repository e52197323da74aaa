"""The roles that an application wants, and those that it has. Spec: tree_layer 8, 13.

What it wants stands in records of its node, so that a node that comes back knows it; what it has
is what the node says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mesh.errors import RoleRefusedError
from mesh.model.tree_apps import Refused, RoleKey, RoleRequest, RoleTaken
from mesh.model.trees import Address, InstanceId

NEWS_ONLY = ("ROLE_HELD", "NOT_HELD")
"""Refusals that change nothing of what the application wants or has."""


@dataclass(slots=True)
class RoleRequests:
    """The roles of one application.

    Attributes:
        app: Its name.
        write: Writes a request for the node, or for None takes it back.
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
        """Ask for a role on a tree, by name or UUID."""
        key = RoleKey(self.app, tree, request.address.role)
        self._awaited[request.address] = None
        self._refused.pop(request.address, None)
        if self._requests.get(key, request) != request:
            self.held.pop(request.address, None)  # the node ends what is here, and takes it again
        self._request(key, request)

    def granted(self, address: Address) -> InstanceId | None:
        """Return the instance of a role, None as long as the node has said nothing of it.

        Raises:
            RoleRefusedError: The node does not give it.
        """
        if address not in self.held and (refused := self._refused.pop(address, None)) is not None:
            raise RoleRefusedError(refused.code, refused.text)
        return self.held.get(address)

    def stop_waiting(self, address: Address) -> None:
        """Record that nobody waits for a role any more: it is here, or it was refused or late."""
        self._awaited.pop(address, None)
        self._refused.pop(address, None)

    def give_up(self, tree: str, address: Address) -> None:
        """Give a role up, by whatever name of its tree it was asked for."""
        for key in self._forget(address) or [RoleKey(self.app, tree, address.role)]:
            self._given_up[key] = None
            self.write(key, None)
        self.held.pop(address, None)

    def take(self, taken: RoleTaken) -> None:
        """Take a role that the node has given; one that was granted is asked for from now on.

        Where the role was asked for already that request says now what is held, as at the node.
        What was given up meanwhile is gone by the time that its node says so.
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
        """Record that a role was not given; return whether nobody waits who would be told so.

        Of a role that the application had: somebody took it while its node was away, for one.
        """
        if refused.address is None or refused.code in NEWS_ONLY:
            return refused.address is None
        self.lose(refused.address)
        if refused.address not in self._awaited:
            return True
        self._refused[refused.address] = refused
        return False

    def say_again(self) -> None:
        """Ask for everything once more: the node has forgotten it."""
        self.held.clear()
        self.write_again()

    def write_again(self) -> None:
        """Write once more what Kafka may not have taken; what was given up first."""
        for key in self._given_up:
            self.write(key, None)
        for key, request in self._requests.items():
            self.write(key, request)

    def written(self) -> None:
        """Record that Kafka has taken all that was written until now."""
        self._given_up.clear()

    def _request(self, key: RoleKey, request: RoleRequest) -> None:
        self.write(key, request)  # before all else: what cannot be asked for is not asked for later
        self._given_up.pop(key, None)
        self._requests[key] = request
        self._keys.setdefault(request.address, {})[key] = None

    def _forget(self, address: Address) -> list[RoleKey]:
        """Stop asking for a role; return the names by which it was asked for."""
        keys = list(self._keys.pop(address, ()))
        for key in keys:
            del self._requests[key]
        return keys
