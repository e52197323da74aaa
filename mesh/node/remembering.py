"""Neighbours' interest, kept in this node's own Kafka cluster for starts without them. Spec: K21.

Whole sets may be large, so they are written rarely and only when they have changed; what is about
to be acknowledged is added before that, so that no start ever lacks it. What is withdrawn meanwhile
remains until the next whole set: the worst it can do is keep messages waiting. Each version that is
acknowledged is kept with it, so that whoever finds a later one elsewhere knows what may be missing.
A worker that has read less than the node's lanes route by keeps nothing: what is there is newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.scopes import ScopeReader
from mesh.model.control import NEVER, Interest, Scope, Version, is_address
from mesh.model.effects import WriteLearned
from mesh.model.interest_inputs import VersionByInput, input_name
from mesh.node.neighbour import Neighbour
from mesh.node.rounds import Round

REMEMBER_MS, PER_FILTER_MS = 2_000, 0.1
"""Minimum time between two scans of what neighbours want, and how much longer it is for each filter
that is kept: a scan of many takes longer, and should not take more of a core."""

ScopeKey = tuple[str, Scope]
"""A neighbour, and a scope that it offers."""


def is_kept(filter_: str, interest: Interest | None) -> bool:
    """Return whether guaranteed messages should wait for this interest."""
    return interest is not None and interest.durable and not is_address(filter_)


@dataclass(slots=True)
class Remembering:
    """Keeps the guaranteed interest of neighbours, once per change of it."""

    _due_ms: float = 0.0
    _kept: dict[ScopeKey, tuple[str, ...]] = field(default_factory=dict)
    _added: dict[ScopeKey, None] = field(default_factory=dict)
    _versions: dict[ScopeKey, Version] = field(default_factory=dict)
    _missed: dict[ScopeKey, dict[str, None]] = field(default_factory=dict)

    def look(
        self,
        neighbours: Mapping[str, Neighbour],
        lanes: Sequence[VersionByInput],
        now_ms: int,
        *,
        at_once: bool = False,
    ) -> Iterator[WriteLearned]:
        """Store every proven set that differs from what was last stored.

        Args:
            neighbours: What they offer.
            lanes: The versions that each lane of the node routes by.
            now_ms: The present moment.
            at_once: Whether to do it now although one was stored just now.
        """
        if now_ms < self._due_ms and not at_once:
            return
        for name, neighbour in neighbours.items():
            for scope, reader in neighbour.scopes.items():
                version = _read_to(reader)
                # After a topic has lost its end, an old mark proves less than was stored.
                is_whole = reader.proven and reader.is_settled
                if is_whole and not _is_behind(version, input_name(name, scope), lanes):
                    yield from self._keep((name, scope), version, reader.view.items())
        count = sum(len(filters) for filters in self._kept.values())
        self._due_ms = now_ms + REMEMBER_MS + PER_FILTER_MS * count

    def add(
        self, neighbours: Mapping[str, Neighbour], lanes: Sequence[VersionByInput], round_: Round
    ) -> Iterator[WriteLearned]:
        """Keep what a round has brought into force, and its version, before it is acknowledged.

        Includes scopes that have been re-read since the round began. What cannot be kept with this
        round is kept with the next one that can, since its reader will not report it again.
        """
        for name, neighbour in neighbours.items():
            for scope, reader in neighbour.scopes.items():
                key, heard = (name, scope), input_name(name, scope)
                version = round_.in_force.get(heard, NEVER)
                read_to = _read_to(reader) if reader.proven else version
                new = self._missed.pop(key, {}) | dict.fromkeys(round_.new_filters.get(key, ()))
                if version == NEVER or _is_behind(read_to, heard, lanes):
                    self._missed |= {key: new} if new else {}
                    continue
                if not new and (reader.mark is None or version <= self._versions.get(key, NEVER)):
                    continue
                if key not in self._kept:
                    yield from self._keep(key, read_to, reader.in_force())
                    continue
                self._versions[key] = version
                self._added |= dict.fromkeys([key] if new else [])
                yield WriteLearned(name, scope, *version, tuple(new), is_more=True)

    def _keep(
        self, key: ScopeKey, version: Version, entries: Iterable[tuple[str, Interest]]
    ) -> Iterator[WriteLearned]:
        filters = tuple(
            sorted(filter_ for filter_, interest in entries if is_kept(filter_, interest))
        )
        if key not in self._added and self._kept.get(key) == filters:
            return
        self._kept[key] = filters
        self._added.pop(key, None)
        self._versions[key] = version
        yield WriteLearned(*key, *version, filters)

    def forget(self, gone: Sequence[str]) -> None:
        """Forget what was kept of these neighbours: their links are gone."""
        for key in [one for one in self._kept if one[0] in gone]:
            del self._kept[key]
            self._added.pop(key, None)
            self._versions.pop(key, None)
        for key in [one for one in self._missed if one[0] in gone]:
            del self._missed[key]


def _read_to(reader: ScopeReader) -> Version:
    """Return the version that a reader has reached."""
    return NEVER if reader.mark is None else (reader.mark.epoch, reader.mark.number)


def _is_behind(version: Version, heard: str, lanes: Sequence[VersionByInput]) -> bool:
    """Return whether every lane routes by more of a scope than this version."""
    return version < min((lane.get(heard, NEVER) for lane in lanes), default=NEVER)
