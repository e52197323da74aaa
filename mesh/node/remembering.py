"""What neighbours want, kept in this node's own Kafka cluster for starts without them. Spec: K21.

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
from mesh.model.control import Interest, Scope, is_address
from mesh.model.effects import WriteLearned
from mesh.node.neighbour import Neighbour
from mesh.node.rounds import Round, input_name

REMEMBER_MS, PER_FILTER_MS = 2_000, 0.1
"""Least time between two scans of what neighbours want, and how much longer it is for each filter
that is kept: a scan of many takes longer, and is not to take more of a core."""

Source = tuple[str, Scope]
"""A neighbour, and a scope that it offers."""

Versions = Mapping[str, tuple[int, int]]
"""By input of interest, as lanes have routed by it."""

_NEVER = (-1, -1)


def is_kept(filter_: str, interest: Interest | None) -> bool:
    """Return whether it is interest that guaranteed messages are to wait for."""
    return interest is not None and interest.durable and not is_address(filter_)


@dataclass(slots=True)
class Remembering:
    """Keeps the guaranteed interest of neighbours, once per change of it."""

    _due_ms: float = 0.0
    _kept: dict[Source, tuple[str, ...]] = field(default_factory=dict)
    _added: dict[Source, None] = field(default_factory=dict)
    _versions: dict[Source, tuple[int, int]] = field(default_factory=dict)
    _missed: dict[Source, dict[str, None]] = field(default_factory=dict)

    def look(
        self,
        neighbours: Mapping[str, Neighbour],
        lanes: Sequence[Versions],
        now_ms: int,
        *,
        at_once: bool = False,
    ) -> Iterator[WriteLearned]:
        """Keep every proven set that is not what was kept last.

        Args:
            neighbours: What they offer.
            lanes: What each lane of the node routes by.
            now_ms: The present moment.
            at_once: Whether it is time although one was kept just now.
        """
        if now_ms < self._due_ms and not at_once:
            return
        for name, neighbour in neighbours.items():
            for scope, reader in neighbour.scopes.items():
                version = _read_to(reader)
                if reader.proven and not _is_behind(version, input_name(name, scope), lanes):
                    yield from self._keep((name, scope), version, reader.view.items())
        count = sum(len(filters) for filters in self._kept.values())
        self._due_ms = now_ms + REMEMBER_MS + PER_FILTER_MS * count

    def add(
        self, neighbours: Mapping[str, Neighbour], lanes: Sequence[Versions], round_: Round
    ) -> Iterator[WriteLearned]:
        """Keep what a round has brought into force, and its version, before it is acknowledged.

        Includes scopes that have been re-read since the round began. What cannot be kept with this
        round is kept with the next one that can, since its reader will not report it again.
        """
        for name, neighbour in neighbours.items():
            for scope, reader in neighbour.scopes.items():
                source, heard = (name, scope), input_name(name, scope)
                version = round_.in_force.get(heard, _NEVER)
                read_to = version if reader.mark is None else _read_to(reader)
                new = self._missed.pop(source, {}) | dict.fromkeys(
                    round_.new_filters.get(source, ())
                )
                if version == _NEVER or _is_behind(read_to, heard, lanes):
                    self._missed |= {source: new} if new else {}
                    continue
                if not new and (
                    reader.mark is None or version <= self._versions.get(source, _NEVER)
                ):
                    continue
                if source not in self._kept:
                    yield from self._keep(source, read_to, reader.in_force())
                    continue
                self._versions[source] = version
                self._added |= dict.fromkeys([source] if new else [])
                yield WriteLearned(name, scope, *version, tuple(new), is_more=True)

    def _keep(
        self, source: Source, version: tuple[int, int], entries: Iterable[tuple[str, Interest]]
    ) -> Iterator[WriteLearned]:
        filters = tuple(
            sorted(filter_ for filter_, interest in entries if is_kept(filter_, interest))
        )
        if source not in self._added and self._kept.get(source) == filters:
            return
        self._kept[source] = filters
        self._added.pop(source, None)
        self._versions[source] = version
        yield WriteLearned(*source, *version, filters)

    def forget(self, gone: Sequence[str]) -> None:
        """Forget what was kept of these neighbours: their links are gone."""
        for source in [one for one in self._kept if one[0] in gone]:
            del self._kept[source]
            self._added.pop(source, None)
            self._versions.pop(source, None)
        for source in [one for one in self._missed if one[0] in gone]:
            del self._missed[source]


def _read_to(reader: ScopeReader) -> tuple[int, int]:
    """Return the version that a reader has reached."""
    return _NEVER if reader.mark is None else (reader.mark.epoch, reader.mark.number)


def _is_behind(version: tuple[int, int], heard: str, lanes: Sequence[Versions]) -> bool:
    """Return whether every lane routes by more of a scope than this version."""
    return version < min((lane.get(heard, _NEVER) for lane in lanes), default=_NEVER)
