"""One scope of a neighbour as its reader holds it, and its proof. Spec: K22, K23."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.digest import MODULUS, entry_digest
from mesh.model.control import NEVER, Interest, Mark, Version


@dataclass(slots=True)
class ScopeReader:
    """Follows the adverts and marks of one scope.

    Adverts wait for the mark that ends their transaction. At a mark, additions take effect at
    once; removals only if count and digest prove that the reader holds what the writer offers. An
    entry that is wanted for direct messages alone from now on is a removal too. Spec: K21, K23.

    Attributes:
        view: Exactly what the control topic says, up to the newest mark.
        ghosts: Entries no longer in `view`, or weaker there, that stay in force until the next
            proof.
        pending: Adverts since the newest mark.
        mark: Newest mark, or None.
        proven: Whether `view` agrees with it.
        recalled: Version that the node has acknowledged although this reader has not reached it;
            `NEVER` for none. Nothing that an older mark proves ends what is in force.
    """

    view: dict[str, Interest] = field(default_factory=dict)
    ghosts: dict[str, Interest] = field(default_factory=dict)
    pending: dict[str, Interest | None] = field(default_factory=dict)
    mark: Mark | None = None
    proven: bool = False
    recalled: Version = NEVER
    _digest: int = 0

    def advert(self, filter_: str, interest: Interest | None) -> None:
        """Record an entry, or with None its withdrawal."""
        self.pending[filter_] = interest

    def marked(self, mark: Mark) -> dict[str, Interest | None]:
        """Apply a mark; return what changes in force: filter to interest, or None for gone.

        A mark older than the newest is ignored: replayed old records change nothing.
        """
        if self.mark is not None and (mark.epoch, mark.number) < (
            self.mark.epoch,
            self.mark.number,
        ):
            return {}
        self.mark = mark
        changes: dict[str, Interest | None] = {}
        for filter_, interest in self.pending.items():
            self._replace(filter_, interest, changes)
        self.pending.clear()
        self.proven = (len(self.view), self._digest) == (mark.count, mark.digest % MODULUS)
        if self.proven and self._has_come_as_far():
            for filter_ in self.ghosts:
                changes[filter_] = self.view.get(filter_)
            self.ghosts.clear()
        return changes

    def _replace(
        self, filter_: str, interest: Interest | None, changes: dict[str, Interest | None]
    ) -> None:
        before = self.view.pop(filter_, None)
        if before is not None:
            self._digest = (self._digest - entry_digest(filter_, before)) % MODULUS
        if interest is None:
            if before is not None:
                self.ghosts.setdefault(filter_, before)  # what is in force stays so, or is stronger
            return
        self.view[filter_] = interest
        self._digest = (self._digest + entry_digest(filter_, interest)) % MODULUS
        known = self.ghosts.pop(filter_, before)
        if known is not None and known.durable > interest.durable:
            # For guaranteed messages this is a removal, and waits for the proof like any other.
            interest = self.ghosts[filter_] = replace(interest, durable=True)
        if interest != known:
            changes[filter_] = interest

    def _has_come_as_far(self) -> bool:
        """Return whether the newest mark is at least as new as what the node has acknowledged."""
        return self.mark is not None and (self.mark.epoch, self.mark.number) >= self.recalled

    @property
    def is_settled(self) -> bool:
        """Whether the newest mark is proven, and is not older than what was acknowledged."""
        return self.mark is None or (self.proven and self._has_come_as_far())

    def is_older(self, version: Version) -> bool:
        """Return whether nothing is read yet, or less than was proven at a version."""
        return self.mark is None or (self.mark.epoch, self.mark.number) < version

    def freeze(self, filters: Sequence[str]) -> dict[str, Interest | None]:
        """Put in force what an unreadable neighbour was last proven to want; return it.

        It is wanted by endpoints that may be away: never for direct. The first proof replaces it.
        Spec: K21.
        """
        frozen: dict[str, Interest] = {}
        for filter_ in filters:
            seen = self.view.get(filter_)
            if seen is None:
                frozen[filter_] = Interest(durable=True, live=False)
            elif not seen.durable:  # last read when only direct endpoints wanted it
                frozen[filter_] = replace(seen, durable=True)
        self.ghosts.update(frozen)
        return dict(frozen)

    def recall(self, filters: Sequence[str], version: Version) -> dict[str, Interest | None]:
        """Put in force what the node has acknowledged up to a version; return it. Spec: K21."""
        self.recalled = max(self.recalled, version)
        return self.freeze(filters)

    def begin_again(self, *, has_lost_end: bool = False) -> None:
        """Expect every record again; what is in force stays so until it is proven. Spec: K23.

        Args:
            has_lost_end: Whether records newer than the remaining ones were read: what older marks
                prove was offered long ago, and ends nothing.
        """
        known = NEVER if self.mark is None else (self.mark.epoch, self.mark.number)
        self.ghosts = {**self.view, **self.ghosts}
        self.view.clear()
        self.pending.clear()
        self.mark, self.proven, self._digest = None, False, 0
        # Otherwise what was acknowledged is read as well, or is lost there for good.
        self.recalled = max(self.recalled, known) if has_lost_end else NEVER

    def in_force(self) -> Iterator[tuple[str, Interest]]:
        """Yield every entry in force, unproven removals included."""
        yield from {**self.view, **self.ghosts}.items()


@dataclass(slots=True)
class ScopeWriter:
    """What this node offers in one scope: the numbers of its marks.

    Attributes:
        number: Version written last in this epoch; 0 before the first mark.
        count: Entries offered.
        digest: Their digest.
    """

    number: int = 0
    count: int = 0
    digest: int = 0

    def change(self, filter_: str, before: Interest | None, after: Interest | None) -> None:
        """Account for an entry that changes from `before` to `after`."""
        if before is not None:
            self.count -= 1
            self.digest = (self.digest - entry_digest(filter_, before)) % MODULUS
        if after is not None:
            self.count += 1
            self.digest = (self.digest + entry_digest(filter_, after)) % MODULUS

    def next_mark(self, epoch: int) -> Mark:
        """Return the mark that ends the changes since the previous one."""
        self.number += 1
        return Mark(epoch, self.number, self.count, self.digest)
