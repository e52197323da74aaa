"""What neighbours want, kept in this node's own Kafka cluster for starts without them. Spec: K21.

Whole sets are kept when they have changed, seldom, for they may be large; what is about to be
acknowledged is added before that, so that no start ever lacks it. What is withdrawn meanwhile
stays in what is kept until the next whole set: too much of it only waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.scopes import ScopeReader
from mesh.model.control import Scope, Wish, is_address
from mesh.model.effects import WriteLearned
from mesh.node.neighbour import Neighbour

REMEMBER_MS, PER_FILTER_MS = 2_000, 0.1
"""Least time between two looks at what neighbours want, and how much longer it is for each filter
that is kept: a look at many takes longer, and is not to take more of a core."""

Source = tuple[str, Scope]
"""A neighbour, and a scope that it offers."""


def is_kept(filter_: str, wish: Wish | None) -> bool:
    """Say whether a wish is one that guaranteed messages are to wait for."""
    return wish is not None and wish.durable and not is_address(filter_)


@dataclass(slots=True)
class Remembering:
    """Keeps the guaranteed interest of neighbours, once per change of it."""

    _due_ms: float = 0.0
    _kept: dict[Source, tuple[str, ...]] = field(default_factory=dict)
    _added: dict[Source, None] = field(default_factory=dict)

    def look(
        self, neighbours: Mapping[str, Neighbour], now_ms: int, *, at_once: bool = False
    ) -> Iterator[WriteLearned]:
        """Keep every proven set that is not what was kept last."""
        if now_ms < self._due_ms and not at_once:
            return
        for name, neighbour in neighbours.items():
            for scope, reader in neighbour.scopes.items():
                if reader.proven:
                    yield from self._keep((name, scope), reader, reader.view.items())
        count = sum(len(filters) for filters in self._kept.values())
        self._due_ms = now_ms + REMEMBER_MS + PER_FILTER_MS * count

    def add(
        self, neighbours: Mapping[str, Neighbour], came: Mapping[Source, Collection[str]]
    ) -> Iterator[WriteLearned]:
        """Keep what a round has brought into force, before it is acknowledged."""
        for source, filters in came.items():
            name, scope = source
            reader = neighbours[name].scopes.get(scope) if name in neighbours else None
            if reader is None or reader.mark is None:
                continue  # its link is gone, or read anew from the beginning
            if source not in self._kept:
                yield from self._keep(source, reader, reader.in_force())
                continue
            self._added[source] = None
            mark = reader.mark
            yield WriteLearned(name, scope, mark.epoch, mark.number, tuple(filters), is_more=True)

    def _keep(
        self, source: Source, reader: ScopeReader, entries: Iterable[tuple[str, Wish]]
    ) -> Iterator[WriteLearned]:
        filters = tuple(sorted(filter_ for filter_, wish in entries if is_kept(filter_, wish)))
        is_news = source in self._added or self._kept.get(source) != filters
        if not is_news or reader.mark is None:
            return
        self._kept[source] = filters
        self._added.pop(source, None)
        yield WriteLearned(*source, reader.mark.epoch, reader.mark.number, filters)

    def forget(self, gone: Sequence[str]) -> None:
        """Know no more what was kept of these neighbours: their links are gone."""
        for source in [one for one in self._kept if one[0] in gone]:
            del self._kept[source]
            self._added.pop(source, None)
