"""What a node hosts: instances of roles, and at which ports their applications listen.

Eviction of a tree leaves all of it. Spec: tree_layer 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.model.trees import Address, InstanceId, TreeId
from mesh.trees.records import LocalRole

NOBODY: Mapping[InstanceId, LocalRole] = {}


@dataclass(slots=True)
class Hosts:
    """Instances that are hosted here, found by role and by application.

    Attributes:
        by_tree: Tree -> role -> instances.
        by_app: Application -> its instances, and where.
        ports: Application -> protocols that it listens to.
    """

    by_tree: dict[TreeId, dict[str, dict[InstanceId, LocalRole]]] = field(default_factory=dict)
    by_app: dict[str, dict[tuple[Address, InstanceId], None]] = field(default_factory=dict)
    ports: dict[str, dict[str, None]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[LocalRole]:
        """Yield every instance, tree by tree and role by role."""
        for roles in self.by_tree.values():
            for instances in roles.values():
                yield from instances.values()

    def instances(self, address: Address) -> Mapping[InstanceId, LocalRole]:
        """Return the instances of a role."""
        roles = self.by_tree.get(address.tree)
        return NOBODY if roles is None else roles.get(address.role, NOBODY)

    def keep(self, one: LocalRole) -> None:
        """Host an instance."""
        roles = self.by_tree.setdefault(one.address.tree, {})
        roles.setdefault(one.address.role, {})[one.iid] = one
        self.by_app.setdefault(one.app, {})[one.address, one.iid] = None

    def drop(self, one: LocalRole) -> None:
        """Stop hosting an instance."""
        roles = self.by_tree[one.address.tree]
        del roles[one.address.role][one.iid]
        if not roles[one.address.role]:
            del roles[one.address.role]
        if not roles:
            del self.by_tree[one.address.tree]
        del self.by_app[one.app][one.address, one.iid]
        if not self.by_app[one.app]:
            del self.by_app[one.app]

    def open_port(self, app: str, protocol: str) -> None:
        """Let an application be given messages of a protocol, "" for those that name none."""
        self.ports.setdefault(app, {})[protocol] = None

    def close_port(self, app: str, protocol: str) -> None:
        """Let it be given no more of them."""
        self.ports.get(app, {}).pop(protocol, None)

    def close_ports(self, app: str) -> None:
        """An application is gone."""
        self.ports.pop(app, None)
