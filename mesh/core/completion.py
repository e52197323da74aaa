"""How far the rest of the mesh has applied what this node offers. Spec: K24.

An *input* is a scope of a neighbour, or this node's own subscriptions. Once an input's version
is applied here, it is complete when every scope that it feeds is complete at that scope's
readers, at the version which that scope had when the input was applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.control import Acknowledgement, Scope
from mesh.model.interest_inputs import neighbour_of

WAITING_MAX = 64
"""How many versions of one input are awaited individually. While a node is down nothing completes,
and interest may change ten times a second: later versions are awaited as one."""

NOTHING = Acknowledgement(epoch=-1, applied=-1, complete=-1)


@dataclass(frozen=True, slots=True)
class Need:
    """One scope at one version, and the readers that must have completed it."""

    scope: Scope
    number: int
    readers: tuple[str, ...]


@dataclass(slots=True)
class Completion:
    """Combines what readers acknowledge into what this node acknowledges.

    Attributes:
        node: Name of this node, for the `open` links.
        epoch: This node's epoch: acknowledgements of older ones do not count.
        acks: The newest acknowledgement per (reader, scope of this node).
        silent: Readers that are not heard now: down, or behind a disabled link.
    """

    node: str
    epoch: int
    acks: dict[tuple[str, Scope], Acknowledgement] = field(default_factory=dict)
    silent: Mapping[str, None] = field(default_factory=dict)
    _waiting: dict[str, deque[tuple[int, tuple[Need, ...]]]] = field(default_factory=dict)
    _state: dict[str, Acknowledgement] = field(default_factory=dict)
    _reported: dict[str, Acknowledgement] = field(default_factory=dict)

    def acknowledged(self, reader: str, scope: Scope, ack: Acknowledgement) -> None:
        """Take a reader's acknowledgement of one of this node's scopes.

        One that says less is an old record that came again, or from a reader that started over:
        neither takes back what was acknowledged, which might never be repeated.
        """
        known = self._ack_of(reader, scope)
        if known is NOTHING:
            self.acks[reader, scope] = ack
        elif ack.epoch == self.epoch and ack.applied >= known.applied:
            complete = max(ack.complete, known.complete)
            self.acks[reader, scope] = replace(ack, complete=complete)

    def applied(self, input_: str, epoch: int, number: int, needs: Sequence[Need]) -> None:
        """Record that version `number` of an input is in force in every lane here.

        Args:
            input_: Name of the input.
            epoch: Epoch of the input's writer.
            number: The version in force.
            needs: What must be complete elsewhere for it to be complete.
        """
        before = self._state.get(input_, NOTHING)
        if before.epoch != epoch:
            self._waiting[input_] = deque()
            before = Acknowledgement(epoch, -1, -1)
        waiting = self._waiting[input_]
        waiting.append((number, tuple(needs)))
        if len(waiting) > WAITING_MAX:
            newest, older = waiting.pop()[1], waiting.pop()[1]
            waiting.append((number, _both(older, newest)))
        self._state[input_] = Acknowledgement(epoch, number, before.complete, before.open_links)

    def settle(self) -> Mapping[str, Acknowledgement]:
        """Determine what is complete and what is open; return the inputs that changed state."""
        news: dict[str, Acknowledgement] = {}
        for input_ in sorted(self._waiting):
            waiting = self._waiting[input_]
            state = self._state[input_]
            complete = state.complete
            while waiting and all(self._is_complete(need) for need in waiting[0][1]):
                complete = waiting.popleft()[0]
            state = Acknowledgement(state.epoch, state.applied, complete, self._open(waiting))
            self._state[input_] = state
            if self._reported.get(input_) != state:
                self._reported[input_] = news[input_] = state
        return news

    def has(self, reader: str, scope: Scope, number: int) -> bool:
        """Return whether a reader has completed a version of a scope."""
        return self._ack_of(reader, scope).complete >= number

    def open_below(self, wanted: Mapping[tuple[str, Scope], int]) -> tuple[tuple[str, str], ...]:
        """Return the links that have not acknowledged some versions of scopes, each once.

        Args:
            wanted: (reader, scope of this node) -> version.
        """
        needs = [Need(scope, number, (reader,)) for (reader, scope), number in wanted.items()]
        return self._open([(0, tuple(needs))])

    def forget(self, gone: Sequence[str], readers: Mapping[Scope, Sequence[str]]) -> None:
        """Stop waiting for neighbours whose link was removed, and acknowledging their offers.

        Args:
            gone: Neighbours; one whose link was replaced starts over.
            readers: Who reads each scope that is left.
        """
        for input_ in [one for one in self._state if neighbour_of(one) in gone]:
            for known in (self._waiting, self._state, self._reported):
                known.pop(input_, None)
        for reader, scope in [key for key in self.acks if key[0] in gone]:
            del self.acks[reader, scope]
        for input_, waiting in self._waiting.items():
            self._waiting[input_] = deque(
                (number, tuple(_left(needs, gone, readers))) for number, needs in waiting
            )

    def await_more(self, needs: Callable[[str], Sequence[Need]]) -> None:
        """Make incomplete inputs wait for more.

        Args:
            needs: Given an input, returns what else must be complete for it to be.
        """
        for input_, waiting in self._waiting.items():
            if waiting:
                more = tuple(needs(input_))
                self._waiting[input_] = deque((number, (*old, *more)) for number, old in waiting)

    def state(self, input_: str) -> Acknowledgement:
        """Return the state of an input."""
        return self._state.get(input_, NOTHING)

    def _ack_of(self, reader: str, scope: Scope) -> Acknowledgement:
        ack = self.acks.get((reader, scope), NOTHING)
        return ack if ack.epoch == self.epoch else NOTHING

    def _is_complete(self, need: Need) -> bool:
        return all(
            self._ack_of(reader, need.scope).complete >= need.number for reader in need.readers
        )

    def _open(self, waiting: Sequence[tuple[int, tuple[Need, ...]]]) -> tuple[tuple[str, str], ...]:
        """Return the links that the newest version waits for.

        What a reader reported as open behind it counts only for a version that it has applied, and
        while it is heard: otherwise that would stay open for as long as the reader is silent.
        """
        links: dict[tuple[str, str], None] = {}
        for need in waiting[-1][1] if waiting else ():
            for reader in need.readers:
                ack = self._ack_of(reader, need.scope)
                if ack.complete >= need.number:
                    continue
                if ack.applied < need.number or reader in self.silent:
                    links[self.node, reader] = None
                else:
                    links.update(dict.fromkeys(ack.open_links))
        return tuple(sorted(links))


def _both(older: Sequence[Need], newest: Sequence[Need]) -> tuple[Need, ...]:
    """Return what two versions need: for each scope and reader the later number."""
    numbers: dict[tuple[Scope, str], int] = {}
    for need in (*older, *newest):
        for reader in need.readers:
            key = need.scope, reader
            numbers[key] = max(need.number, numbers.get(key, need.number))
    readers: dict[tuple[Scope, int], list[str]] = {}
    for (scope, reader), number in sorted(numbers.items()):
        readers.setdefault((scope, number), []).append(reader)
    return tuple(Need(scope, number, tuple(names)) for (scope, number), names in readers.items())


def _left(
    needs: Sequence[Need], gone: Sequence[str], readers: Mapping[Scope, Sequence[str]]
) -> Iterator[Need]:
    for need in needs:
        left = [
            one for one in need.readers if one not in gone and one in readers.get(need.scope, ())
        ]
        if left:
            yield replace(need, readers=tuple(left))
