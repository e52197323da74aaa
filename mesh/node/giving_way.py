"""How an open link that loses gives way: a small agreement of connected nodes.

Walks of messages move with it, so nothing may be on its way in that moment. One end of such a
link asks all nodes, by a word in its `links` record, which everybody hands on; each answers in
its own. When all are there they hold their sources. Then they look, again and again, until
nothing has arrived between two looks at any node. Then all shut the loser, then open what waited
for that, and when what the new links offer is known everywhere sources go on. Up to the switch
whoever asks may take it back, and the link stays open as it was; so a node that does not answer
never costs a message. Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.effects import Note
from mesh.model.links import ABORT, ASK, HOLD, JOIN, RUN, SWITCH, Answer, NodeLinks, Word

CALM_MS = 500
"""How long the facts must have been the same before an attempt: each that changes ends it."""

FIRST_LOOK = HOLD + 1

STEP_MS = 10_000
"""How long whoever asks waits for all answers to a step before the switch."""

SWITCH_MS = 30_000
"""The same behind the switch: then sources go on although somebody has not followed yet."""

PATIENCE_MS = 60_000
"""How long a node holds its sources for a word that does not go on: who spoke may be gone."""

AGAIN_MS, AGAIN_MS_MAX = 5_000, 40_000
"""When an attempt that failed is repeated; the time doubles as long as the facts are the same."""

Records = Mapping[str, NodeLinks]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a node knows as it judges.

    Attributes:
        now_ms: Time.
        near: uuids of all nodes connected with this one.
        facts: Digest of their facts.
        asks: Whether it is this node that has to ask.
        why: What gives way to what, in words.
        still: What every lane has committed under the name `$still`.
        is_shut: What loses is shut, in every lane.
        is_set: What waited for that is open as well.
        is_joined: All that its open links offer is acknowledged completely.
    """

    now_ms: int
    near: Sequence[str]
    facts: str
    asks: bool
    why: str
    still: tuple[int, int]
    is_shut: bool
    is_set: bool
    is_joined: bool


@dataclass(slots=True)
class GivingWay:
    """Asks and answers for one node, in its record.

    Attributes:
        uuid: The node's.
        notes: What people should know of it.
    """

    uuid: str
    notes: list[Note] = field(default_factory=list)
    _calm: tuple[str, int] = ("", 0)
    _asked: tuple[Word | None, int] = (None, 0)
    _heard: tuple[str, Word | None, int] = ("", None, 0)
    _failed: str = ""
    _pause_ms: int = AGAIN_MS
    _again_ms: int = 0

    def step(self, own: NodeLinks, records: Records, now: Situation) -> NodeLinks:
        """Return the own record with what is to be asked and answered now."""
        if self._calm[0] != now.facts:
            self._calm = now.facts, now.now_ms
        own = replace(own, word=self._word(own, records, now))
        return replace(own, answer=self._answer(own, records, now))

    # -- asking ---------------------------------------------------------------------------

    def _word(self, own: NodeLinks, records: Records, now: Situation) -> Word | None:
        word = own.word
        if word is None or not word.is_active:
            is_calm = now.now_ms - self._calm[1] >= CALM_MS
            if self._failed != now.facts:
                self._pause_ms, self._again_ms = AGAIN_MS, 0
            is_free = is_calm and not _words(records, now.near)
            if now.asks and is_free and now.now_ms >= self._again_ms:
                return Word(own.sequence + 1, now.facts, ASK)
            return word
        if self._asked[0] != word:
            self._asked = word, now.now_ms
        waited_ms = now.now_ms - self._asked[1]
        left = [uuid for uuid in now.near if not _has_done(records[uuid], self.uuid, word)]
        names = ", ".join(sorted(records[uuid].node for uuid in left))
        if word.has_switched:
            if not left:
                return replace(word, step=word.step + 1)
            if waited_ms < SWITCH_MS:
                return word
            self.notes.append(
                Note("link.late", f"sources go on, although links are not yet changed by {names}")
            )
            return replace(word, step=RUN)
        others = _words(records, now.near)
        is_off = word.facts != now.facts or not now.asks or min(others) < self.uuid
        if is_off or waited_ms >= STEP_MS:
            if not is_off:
                self.notes.append(
                    Note("link.stays", f"no link gives way as yet: no answer of {names}")
                )
                self._failed, self._again_ms = now.facts, now.now_ms + self._pause_ms
                self._pause_ms = min(AGAIN_MS_MAX, 2 * self._pause_ms)
            return replace(word, step=ABORT)
        if left:
            return word
        if word.step == ASK:
            self.notes.append(Note("link.gives_way", f"sources hold: what is new {now.why}"))
        are_idle = all(records[uuid].answer.is_idle for uuid in now.near)
        # No walk has more links than there are nodes.
        is_drained = word.step > FIRST_LOOK and (are_idle or word.step > len(now.near))
        return replace(word, step=SWITCH if is_drained else word.step + 1)

    # -- answering ------------------------------------------------------------------------

    def _answer(self, own: NodeLinks, records: Records, now: Situation) -> Answer:
        answer = own.answer
        words = _words({**records, self.uuid: own}, now.near)
        words = {to: word for to, word in words.items() if not _is_left(answer, to, word)}
        if not words:
            return self._released(answer, records, now) if answer.is_following else answer
        to = min(words)
        word = words[to]
        if self._heard[:2] != (to, word):
            self._heard = to, word, now.now_ms
        if now.now_ms - self._heard[2] >= PATIENCE_MS:
            self.notes.append(
                Note(
                    "link.late", f"sources go on: {records[to].node} says no more how links change"
                )
            )
            return replace(answer, asked=ABORT)
        if (answer.to, answer.attempt) != (to, word.attempt):
            answer = Answer(to, word.attempt, answer.number + 1, word.step)
        answer = replace(answer, asked=word.step)
        return _done(answer, word, now)

    def _released(self, answer: Answer, records: Records, now: Situation) -> Answer:
        """Go on; behind a switch not before the own gates are what it demands."""
        word = records[answer.to].word if answer.to in records else None
        must_follow = word is not None and word.has_switched and answer.to in now.near
        if must_follow and not now.is_shut and now.now_ms - self._heard[2] < PATIENCE_MS:
            return answer
        return replace(answer, asked=ABORT)


def _words(records: Records, near: Sequence[str]) -> dict[str, Word]:
    """Return the words that sources hold for, by who spoke."""
    words = {uuid: records[uuid].word for uuid in near}
    return {uuid: word for uuid, word in words.items() if word is not None and word.is_active}


def _is_left(answer: Answer, to: str, word: Word) -> bool:
    """Return whether a node went on although whoever asks has not said so."""
    return (answer.to, answer.attempt) == (to, word.attempt) and not answer.is_following


def _has_done(record: NodeLinks, to: str, word: Word) -> bool:
    answer = record.answer
    is_ours = (answer.to, answer.attempt) == (to, word.attempt) and answer.is_following
    return is_ours and answer.done >= word.step


def _done(answer: Answer, word: Word, now: Situation) -> Answer:
    """Return an answer that says what is done of a step."""
    if word.has_switched:
        is_set = now.is_shut and (now.is_set or word.step == SWITCH)
        is_done = is_set and (now.is_joined or word.step != JOIN)
        return replace(answer, done=word.step) if is_done else answer
    if word.step == ASK and word.facts == now.facts:
        return replace(answer, done=ASK)
    number, step = now.still
    if word.facts != now.facts or (number, step // 2) != (answer.number, word.step):
        return answer
    return replace(answer, done=word.step, is_idle=step % 2 == 1)
