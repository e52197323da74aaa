"""Which entries of a scope need not be offered, because another one says as much. Spec: K22.

An entry covers another if its filter matches whatever the other's does, and it wants it at least as
strongly: a reader routes both as if it had read only the wider one. Addresses of the mesh, which
start with `$`, neither cover nor are covered.

No change scans all entries. What covers an entry is found by the wildcard
shapes in use, one look-up each; what a new entry covers, by walking a tree of the offered ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.matcher import Shape
from mesh.model.control import Interest
from mesh.model.subject import ANY_LEVEL, ANY_REST

Flags = tuple[bool, bool, bool]

Difference = tuple[str, Interest | None, Interest | None]
"""Filter, and its offer before and after."""

_END = ""
"""Key at a tree's node where a filter ends; no level is empty."""


class _Tree(dict[str, "_Tree"]):
    """Filters by their levels."""

    def put(self, levels: Sequence[str]) -> None:
        """Add a filter."""
        node = self
        for level in levels:
            node = node.setdefault(level, _Tree())
        node[_END] = _Tree()

    def remove(self, levels: Sequence[str]) -> None:
        """Remove a filter that is in the tree."""
        path = [self]
        for level in levels:
            path.append(path[-1][level])
        del path[-1][_END]
        for node, level in zip(path[-2::-1], reversed(levels), strict=True):
            if node[level]:
                break
            del node[level]

    def covered_by(self, levels: Sequence[str], at: int = 0) -> Iterator[tuple[str, ...]]:
        """Yield the filters that the one with these levels covers, itself included."""
        if at == len(levels):
            if _END in self:
                yield ()
            return
        level = levels[at]
        if level == ANY_REST:
            yield from (rest for rest in self._all() if rest)
            return
        if level == ANY_LEVEL:
            chosen = [one for one in self if one not in (_END, ANY_REST)]
        else:
            chosen = [level] if level in self else []
        for one in chosen:
            for rest in self[one].covered_by(levels, at + 1):
                yield (one, *rest)

    def _all(self) -> Iterator[tuple[str, ...]]:
        for level, node in self.items():
            if level == _END:
                yield ()
                continue
            for rest in node._all():  # noqa: SLF001 - of the same class
                yield (level, *rest)


def _flags(interest: Interest) -> Flags:
    return interest.durable, interest.live, interest.static


def _is_strong(interest: Interest, other: Flags) -> bool:
    """Return whether one interest wants all that these flags want."""
    return all(mine >= its for mine, its in zip(_flags(interest), other, strict=True))


def _is_address(filter_: str) -> bool:
    return filter_.startswith("$")


@dataclass(slots=True)
class Covering:
    """The entries of one scope, and which of them need not be offered.

    Attributes:
        keepers: Covered filter -> one that covers it; that may be covered itself.
    """

    keepers: dict[str, str] = field(default_factory=dict)
    _interests: dict[str, Interest] = field(default_factory=dict)
    _kept: dict[str, dict[str, None]] = field(default_factory=dict)
    _shapes: dict[Shape, int] = field(default_factory=dict)
    _offered: dict[Flags, _Tree] = field(default_factory=dict)

    def apply(self, changes: Mapping[str, Interest | None]) -> Sequence[Difference]:
        """Change entries at once; return the resulting changes of those offered, sorted by filter.

        Args:
            changes: Filter -> its interest, or None for an entry that goes.
        """
        before: dict[str, Interest | None] = {}
        new: dict[str, None] = {}
        loose: dict[str, None] = {}
        for filter_, interest in changes.items():
            before.setdefault(filter_, self._offered_of(filter_))
            let_go = self._take_out(filter_, is_loose=filter_ in loose)
            loose |= let_go
            for other in let_go:
                before.setdefault(other, None)  # it was covered
            if interest is not None:
                self._take_in(filter_, interest)
                new[filter_] = None
        for filter_ in {**loose, **new}:
            if filter_ in self._interests:
                self._place(filter_)
        for filter_ in new:
            for other in self._newly_covered(filter_):
                before.setdefault(other, self._interests[other])
                self._tree_of(other).remove(other.split("/"))
                self._keep(other, filter_)
        found = [(name, was, self._offered_of(name)) for name, was in sorted(before.items())]
        return [one for one in found if one[1] != one[2]]

    def offered_of(self, entries: Mapping[str, Interest]) -> dict[str, Interest]:
        """Return those of the entries that are offered."""
        return {name: interest for name, interest in entries.items() if name not in self.keepers}

    def _offered_of(self, filter_: str) -> Interest | None:
        return None if filter_ in self.keepers else self._interests.get(filter_)

    # -- one entry ------------------------------------------------------------------------

    def _take_in(self, filter_: str, interest: Interest) -> None:
        self._interests[filter_] = interest
        shape = Shape.of(filter_)
        if not (shape.is_literal or _is_address(filter_)):
            self._shapes[shape] = self._shapes.get(shape, 0) + 1

    def _take_out(self, filter_: str, *, is_loose: bool) -> Mapping[str, None]:
        """Forget an entry, if it is there; return those that it kept.

        Args:
            filter_: The entry.
            is_loose: Whether its own keeper was taken out before.
        """
        if filter_ not in self._interests:
            return {}
        keeper = self.keepers.pop(filter_, None)
        if keeper is not None:
            self._let_go(filter_, keeper)
        elif not (is_loose or _is_address(filter_)):
            self._tree_of(filter_).remove(filter_.split("/"))
        del self._interests[filter_]
        shape = Shape.of(filter_)
        if shape in self._shapes and not _is_address(filter_):
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]
        loose = self._kept.pop(filter_, {})
        for other in loose:
            del self.keepers[other]
        return loose

    def _place(self, filter_: str) -> None:
        """Let an entry that is neither be offered, or kept by one that covers it."""
        if _is_address(filter_):
            return
        keeper = self._find_keeper(filter_)
        if keeper is None:
            self._tree_of(filter_).put(filter_.split("/"))
        else:
            self._keep(filter_, keeper)

    def _keep(self, filter_: str, keeper: str) -> None:
        self.keepers[filter_] = keeper
        self._kept.setdefault(keeper, {})[filter_] = None

    def _let_go(self, filter_: str, keeper: str) -> None:
        kept = self._kept.get(keeper)
        if kept is not None:
            kept.pop(filter_, None)
            if not kept:
                del self._kept[keeper]

    def _tree_of(self, filter_: str) -> _Tree:
        return self._offered.setdefault(_flags(self._interests[filter_]), _Tree())

    # -- what covers what -----------------------------------------------------------------

    def _find_keeper(self, filter_: str) -> str | None:
        levels, flags = filter_.split("/"), _flags(self._interests[filter_])
        for shape in self._shapes:
            wider = shape.covers(levels)
            if wider is None or wider == filter_:
                continue
            interest = self._interests.get(wider)
            if interest is not None and _is_strong(interest, flags):
                return wider
        return None

    def _newly_covered(self, filter_: str) -> Sequence[str]:
        """Return the offered entries that an entry covers; none if it is covered itself."""
        if filter_ in self.keepers or _is_address(filter_) or Shape.of(filter_).is_literal:
            return ()
        interest, levels = self._interests[filter_], filter_.split("/")
        trees: Iterable[_Tree] = [
            tree for flags, tree in self._offered.items() if _is_strong(interest, flags)
        ]
        found = ["/".join(path) for tree in trees for path in tree.covered_by(levels)]
        return sorted(name for name in found if name != filter_)
