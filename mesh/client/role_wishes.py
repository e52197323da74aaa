"""The roles that an application wants, and those that it has. Spec: tree_layer 8, 13.

What it wants stands in records of its node, so that a node that comes back knows it; what it has
is what the node says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mesh.errors import RoleRefusedError
from mesh.model.tree_apps import Refused, RoleKey, RoleTaken, RoleWish
from mesh.model.trees import Address, InstanceId

NEWS_ONLY = ("ROLE_HELD", "NOT_HELD")
"""Refusals that change nothing of what the application wants or has."""


@dataclass(slots=True)
class RoleWishes:
    """The roles of one application.

    Attributes:
        app: Its name.
        write: Writes a wish for the node, or for None takes it back.
        held: What it has now.
    """

    app: str
    write: Callable[[RoleKey, RoleWish | None], None]
    held: dict[Address, InstanceId] = field(default_factory=dict)
    _wishes: dict[RoleKey, RoleWish] = field(default_factory=dict)
    _keys: dict[Address, dict[RoleKey, None]] = field(default_factory=dict)
    _refused: dict[Address, Refused] = field(default_factory=dict)

    def want(self, tree: str, wish: RoleWish) -> None:
        """Ask for a role on a tree, by name or UUID."""
        key = RoleKey(self.app, tree, wish.address.role)
        self._refused.pop(wish.address, None)
        if self._wishes.get(key, wish) != wish:
            self.held.pop(wish.address, None)  # the node ends what is here, and takes it anew
        self._wish(key, wish)

    def granted(self, address: Address) -> InstanceId | None:
        """Return the instance of a role, None as long as the node has said nothing of it.

        Raises:
            RoleRefusedError: The node does not give it.
        """
        if address not in self.held and (refused := self._refused.pop(address, None)) is not None:
            raise RoleRefusedError(refused.code, refused.text)
        return self.held.get(address)

    def give_up(self, tree: str, address: Address) -> None:
        """Want a role no more, under whatever name of its tree it was asked for."""
        for key in self._forget(address) or [RoleKey(self.app, tree, address.role)]:
            self.write(key, None)
        self.held.pop(address, None)

    def take(self, taken: RoleTaken) -> None:
        """Follow what the node has given; what was granted is wished for from now on.

        Where the role was wished for already that wish says now what is held, as at the node. What
        was given up meanwhile is gone by the time that its node says so.
        """
        if not (taken.is_granted or taken.address in self._keys):
            return
        self.held[taken.address] = taken.iid
        if taken.is_granted:
            fresh = RoleKey(self.app, taken.address.tree, taken.address.role)
            key = next(iter(self._keys.get(taken.address, ())), fresh)
            kept = (taken.is_exclusive, taken.extent, taken.protocol)
            self._wish(key, RoleWish(taken.address, *kept))

    def lose(self, address: Address) -> None:
        """Follow that a role has gone elsewhere: it is not wanted back."""
        self.held.pop(address, None)
        self._forget(address)

    def refuse(self, refused: Refused) -> None:
        """Follow that a role was not given."""
        if refused.address is not None and refused.code not in NEWS_ONLY:
            self.lose(refused.address)
            self._refused[refused.address] = refused

    def say_again(self) -> None:
        """Ask for everything once more: the node has forgotten it."""
        self.held.clear()
        for key, wish in self._wishes.items():
            self.write(key, wish)

    def _wish(self, key: RoleKey, wish: RoleWish) -> None:
        self._wishes[key] = wish
        self._keys.setdefault(wish.address, {})[key] = None
        self.write(key, wish)

    def _forget(self, address: Address) -> list[RoleKey]:
        """Wish for a role no more; return the words in which it was wished for."""
        keys = list(self._keys.pop(address, ()))
        for key in keys:
            del self._wishes[key]
        return keys
