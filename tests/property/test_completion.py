"""What is complete and open, against all that was ever applied and acknowledged. Spec: K24."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.core.completion import NOTHING, WAITING_MAX, Completion, Need
from mesh.model.control import Acknowledgement, Ownership, Scope
from mesh.model.interest_inputs import CLIENTS, input_name, neighbour_of
from tests.property.effort import examples

NODE = "a"
SHARED, TO_B, TO_C = (Scope(*one, Ownership.OWN) for one in (("Z", ""), ("Y", "b"), ("X", "c")))
READERS = {SHARED: ("b", "c", "d"), TO_B: ("b",), TO_C: ("c",)}
KEYS = [(reader, scope) for scope, readers in READERS.items() for reader in readers]
INPUTS = [CLIENTS, *(input_name(name, SHARED) for name in "bcd")]
LINKS = [("b", "e"), ("c", "d"), ("d", "f")]

Key = tuple[str, Scope]
Links = tuple[tuple[str, str], ...]

neighbours = st.sampled_from("bcd")
steps = st.sampled_from([1, 1, 10**15])
behind = st.sampled_from([0, 0, 1, 2, 4, 10**16])


@dataclass
class Said:
    """What one reader has acknowledged of one scope, every word of it, in order."""

    words: list[Acknowledgement] = field(default_factory=list)

    @property
    def complete(self) -> int:
        return max((word.complete for word in self.words), default=-1)

    @property
    def applied(self) -> int:
        return max((word.applied for word in self.words), default=-1)

    @property
    def open(self) -> Sequence[tuple[str, str]]:
        """What is open behind it, by its last word of the newest version."""
        return [word for word in self.words if word.applied == self.applied][-1].open_links


@dataclass
class Applied:
    """Versions of one input in force here, of one epoch: those that are not complete, in order."""

    epoch: int
    number: int
    complete: int = -1
    waiting: list[tuple[int, dict[Key, int]]] = field(default_factory=list)
    links: Links = ()


class CompletionAgainstHistory(RuleBasedStateMachine):
    """Scopes get versions, inputs are applied, readers answer, fall silent, go and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.gone: set[str] = set()
        self._begin()

    @precondition(lambda self: len(self.told) > 1)
    @rule(later=st.integers(1, 9))
    def begin_again(self, later: int) -> None:
        """The next leader knows nothing, and what was said to the one before does not count."""
        self.epoch += later
        self._begin()

    def _begin(self) -> None:
        self.completion = Completion(NODE, self.epoch)
        self.numbers = dict.fromkeys(READERS, 0)
        self.inputs: dict[str, Applied] = {}
        self.said = {key: Said() for key in KEYS}
        self.told: dict[str, Acknowledgement] = {}
        self.silent: set[str] = set()

    def _readers(self, scope: Scope) -> tuple[str, ...]:
        return tuple(one for one in READERS[scope] if one not in self.gone)

    def _needs(self, input_: str) -> list[Need]:
        """All that is offered, to all but whoever it comes from."""
        but = neighbour_of(input_)
        readers = {s: tuple(r for r in self._readers(s) if r != but) for s in READERS}
        return [Need(s, self.numbers[s], names) for s, names in readers.items() if names]

    # -- here ---------------------------------------------------------------------------------

    @rule(scope=st.sampled_from(list(READERS)), step=steps)
    def offer(self, scope: Scope, step: int) -> None:
        self.numbers[scope] += step

    @rule(
        input_=st.sampled_from(INPUTS),
        step=steps,
        is_new=st.sampled_from([False, False, True]),
        times=st.sampled_from([1, 1, 1, 2, 3, WAITING_MAX + 3]),
    )
    def apply(self, input_: str, step: int, is_new: bool, times: int) -> None:
        """Versions come into force here, perhaps the first ones of a new epoch of their writer."""
        if neighbour_of(input_) in self.gone:
            return
        known = self.inputs.get(input_, Applied(7, 0))
        if is_new:
            known = Applied(known.epoch + 1, 0)
        self.inputs[input_] = known
        for _ in range(times):
            known.number += step
            needs = self._needs(input_)
            self.completion.applied(input_, known.epoch, known.number, needs)
            awaited = {(r, need.scope): need.number for need in needs for r in need.readers}
            known.waiting.append((known.number, awaited))
            if len(known.waiting) > WAITING_MAX:
                (_, older), (number, newest) = known.waiting[-2:]
                known.waiting[-2:] = [(number, {**older, **newest})]
            for scope in READERS if times > 1 else ():
                self.numbers[scope] += 1

    # -- there --------------------------------------------------------------------------------

    @rule(
        readers=st.sampled_from(["b", "c", "d", "bcd", "bcd"]),
        applied_behind=behind,
        complete_behind=behind,
        has_begun_again=st.booleans(),
        links=st.lists(st.sampled_from(LINKS), unique=True, max_size=2),
    )
    def acknowledge(
        self,
        readers: str,
        applied_behind: int,
        complete_behind: int,
        has_begun_again: bool,
        links: list[tuple[str, str]],
    ) -> None:
        """Readers go on; what is complete one knows no more where it has begun again."""
        for key in [key for key in KEYS if key[0] in readers and key[0] not in self.gone]:
            said = self.said[key]
            applied = max(0, said.applied, self.numbers[key[1]] - applied_behind)
            complete = max(-1, applied - complete_behind)
            if not has_begun_again and said.words:
                complete = max(complete, said.words[-1].complete)
            self._say(key, Acknowledgement(self.epoch, applied, complete, tuple(links)))

    @precondition(lambda self: any(said.words for said in self.said.values()))
    @rule(data=st.data())
    def say_again(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([key for key in KEYS if self.said[key].words]))
        self._say(key, data.draw(st.sampled_from(self.said[key].words)))

    def _say(self, key: Key, word: Acknowledgement) -> None:
        self.said[key].words.append(word)
        self.completion.acknowledged(*key, word)

    @rule(
        key=st.sampled_from(KEYS),
        epoch=st.integers(-9, 9).filter(bool),
        number=st.sampled_from([0, 10**18]),
    )
    def acknowledge_another_epoch(self, key: Key, epoch: int, number: int) -> None:
        word = Acknowledgement(self.epoch + epoch, number, number, tuple(LINKS))
        self.completion.acknowledged(*key, word)

    @rule(silent=st.sets(neighbours, max_size=2))
    def fall_silent(self, silent: set[str]) -> None:
        self.silent = silent
        self.completion.silent = dict.fromkeys(sorted(silent))

    # -- links --------------------------------------------------------------------------------

    @rule(name=neighbours, is_back=st.sampled_from([True, True, False]))
    def relink(self, name: str, is_back: bool) -> None:
        """A link goes; where another takes its place, all that is offered is awaited over it."""
        self.gone.add(name)
        if is_back:
            self.gone.remove(name)
        self.completion.forget([name], {scope: self._readers(scope) for scope in READERS})
        self.inputs = {one: of for one, of in self.inputs.items() if neighbour_of(one) != name}
        self.told = {one: of for one, of in self.told.items() if neighbour_of(one) != name}
        self.said |= {key: Said() for key in KEYS if key[0] == name}
        for of in self.inputs.values():
            for _, awaited in of.waiting:
                for key in [key for key in awaited if key[0] == name]:
                    del awaited[key]
        if not is_back:
            return
        for scope in READERS:
            self.numbers[scope] += 1
        added = [Need(s, n, (name,)) for s, n in self.numbers.items() if name in READERS[s]]
        self.completion.await_more(lambda _: added)
        for of in self.inputs.values():
            for _, awaited in of.waiting:
                awaited |= {(name, need.scope): need.number for need in added}

    # -- what follows -------------------------------------------------------------------------

    @rule()
    def settle(self) -> None:
        """Only what has changed is told, and all of it. Spec: K24."""
        news: dict[str, Acknowledgement] = {}
        for input_, of in self.inputs.items():
            while of.waiting and not self._lacking(of.waiting[0][1]):
                of.complete = of.waiting.pop(0)[0]
            of.links = self._open(of.waiting[-1][1] if of.waiting else {})
            state = Acknowledgement(of.epoch, of.number, of.complete, of.links)
            if self.told.get(input_) != state:
                self.told[input_] = news[input_] = state
        assert self.completion.settle() == news
        for input_ in INPUTS:
            assert self.completion.state(input_) == self.told.get(input_, NOTHING)

    @invariant()
    def who_has_completed_what_is_known(self) -> None:
        for key in KEYS:
            for number in range(self.numbers[key[1]], self.numbers[key[1]] - 6, -1):
                assert self.completion.has(*key, number) == (self.said[key].complete >= number)
        wanted = {one: self.numbers[one[1]] for one in KEYS}
        assert self.completion.open_below(wanted) == self._open(wanted)

    def teardown(self) -> None:
        self.settle()

    def _lacking(self, awaited: dict[Key, int]) -> list[Key]:
        return [key for key, number in awaited.items() if self.said[key].complete < number]

    def _open(self, awaited: dict[Key, int]) -> Links:
        """The links on which somebody is still behind: one's own, or as readers report."""
        links: set[tuple[str, str]] = set()
        for key in self._lacking(awaited):
            said = self.said[key]
            is_behind = key[0] in self.silent or said.applied < awaited[key]
            links |= {(NODE, key[0])} if is_behind else {*said.open}
        return tuple(sorted(links))


TestCompletionAgainstHistory = CompletionAgainstHistory.TestCase
TestCompletionAgainstHistory.settings = examples(120)
