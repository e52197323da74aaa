"""Roles that are held alone unless somebody holds them: asked for before they are taken.

Several may ask at one moment, hear of nobody, and take the role; all but one lose it. So who has
it is told only once that would have shown. Spec: tree_layer 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.tree_apps import Answered, Refused, RoleKey, RoleTaken, SendWanted
from mesh.model.trees import Address
from mesh.trees.applications.probes import Holder, Probe, Probes

SETTLE_MS = 3_000
"""How late another application may be heard of that took the same role politely at that moment."""


@dataclass(slots=True)
class PoliteRoles:
    """Roles of one node's applications of which it is not known yet whether they can be had."""

    _probes: Probes = field(default_factory=Probes)
    _asking: dict[RoleKey, str] = field(default_factory=dict)
    _settling: dict[tuple[str, Address], tuple[int, RoleTaken] | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._probes) + len(self._asking) + len(self._settling)

    @property
    def due_ms(self) -> int | None:
        """When the next one is settled, None while none is to be."""
        due = (kept[0] for kept in self._settling.values() if kept is not None)
        return min(due, default=None)

    def ask(self, probe: Probe) -> SendWanted:
        """Return a message to one instance: who gets it holds the role."""
        asked = self._probes.ask(probe)
        self._asking[probe.key] = asked.call
        return asked

    def heard(self, answer: Answered) -> tuple[Probe, Holder] | None:
        """Take an answer; return what it says for certain of a role that is still wanted so."""
        heard = self._probes.heard(answer)
        if heard is None or self._asking.get(heard[0].key) != answer.call:
            return None
        del self._asking[heard[0].key]
        return heard

    def stop_asking(self, key: RoleKey) -> bool:
        """Want it no more, or otherwise; return whether an answer was awaited."""
        return self._asking.pop(key, None) is not None

    def settle(self, app: str, address: Address) -> None:
        """Let a role that is taken now settle."""
        self._settling[app, address] = None

    def is_settling(self, app: str, address: Address) -> bool:
        """Return whether it may yet turn out to be somebody else's."""
        return (app, address) in self._settling

    def keep(self, taken: RoleTaken, now_ms: int) -> bool:
        """Keep back that a role is held if it is to settle; return whether it is."""
        is_settling = self.is_settling(taken.app, taken.address)
        if is_settling:
            self._settling[taken.app, taken.address] = (now_ms + SETTLE_MS, taken)
        return is_settling

    def settled(self, now_ms: int) -> list[RoleTaken]:
        """Return what was kept back, and is certain now."""
        kept = [one for one in self._settling.values() if one is not None and one[0] <= now_ms]
        for _, taken in kept:
            del self._settling[taken.app, taken.address]
        return [taken for _, taken in kept]

    def stop_settling(self, app: str, address: Address) -> bool:
        """It is held no more, or otherwise; return whether that it was held was kept back."""
        return self._settling.pop((app, address), None) is not None


def refusal(key: RoleKey, address: Address, holder: Holder) -> Refused:
    """Return what an application is told that does not get a role."""
    if holder is Holder.UNKNOWN:
        text = f"it is not known now whether {key.role!r} is held elsewhere; ask for it again"
        return Refused(key.app, key.role, "HOLDER_UNKNOWN", text, address)
    text = f"{key.role!r} is exclusive and held elsewhere; ask its holder"
    return Refused(key.app, key.role, "EXCLUSIVE_HELD", text, address)
