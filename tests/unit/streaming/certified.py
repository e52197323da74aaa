"""A certifier without a job, and digests as a batch would have them."""

from __future__ import annotations

import re

import pytest

from mesh.model.control import Subscription
from mesh.model.facts import SourceAt
from mesh.model.frames import TopicPartition as Place
from mesh.model.state import Cut
from streaming.audits.block_judgements import World
from streaming.audits.blocks import Blocks
from streaming.audits.cases import CaseOutcome, Want
from streaming.audits.certificates import Certifier
from streaming.audits.eras import Eras
from streaming.audits.finding_register import Register
from streaming.audits.holds import OpenHolds
from streaming.audits.hop_progress import HopProgress
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.names import Names
from streaming.audits.settlement import settle
from streaming.tables.digest import Digest
from streaming.tables.rows import DeliveryRow, IngressRow, SourceKey, TopicPartition

PLACE = TopicPartition("mesh.a.in.g", 0)
SOURCE = SourceKey("aa", 0)
ENDPOINT = EndpointKey("a", "s1")
TARGET = TopicPartition("mesh.a.ep.s1", 0)
SPY = TopicPartition("mesh.a.ep.spy", 0)


def digest(*offsets: int) -> Digest:
    """Return a digest in which no two sets of small offsets are alike."""
    total = Digest()
    for offset in offsets:
        total += Digest(1, 7**offset, 11**offset, 13**offset)
    return total


def is_wanted(want: Want, subject: str) -> bool:
    """Return what Java would."""
    return re.search(want.pattern.replace("\\z", "\\Z"), subject) is not None


class Table:
    """A certifier, the audits beside it, and a clock."""

    def __init__(self) -> None:
        self.certifier = Certifier(Blocks("mesh."))
        self.at_s = 100.0
        names = Names({"aa": PLACE.topic}, {PLACE.topic: "aa"}, {"a": "u"})
        interest = SubscriptionHistory()
        interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
        self.world = World(
            names=names,
            interest=interest,
            progress=HopProgress("mesh.", OpenHolds("mesh.")),
            heads={},
            carriers=lambda *_: [],
            eras=Eras("mesh."),
            read={},
            register=Register(),
            ends=lambda _: {},
        )

    def cut(self, position: int, offset: int = 0) -> None:
        self.world.interest.lanes.cut(Cut(PLACE.topic, b"", 0, position, "u", offset))

    def publish(self, *offsets: int, subject: str | None = "acme/x") -> None:
        block = offsets[0] // 4096
        row = IngressRow(PLACE, block, subject, digest(*offsets), min(offsets), max(offsets))
        self.certifier.blocks.publish([row], self.at_s)

    def deliver(
        self,
        *offsets: int,
        source: SourceKey = SOURCE,
        generation: int = 0,
        to: TopicPartition = TARGET,
        message_class: str = "guaranteed",
    ) -> None:
        row = DeliveryRow(
            place=to,
            source=source,
            generation=generation,
            path=("a",),
            block=offsets[0] // 4096,
            digest=digest(*offsets),
            first=min(offsets),
            last=max(offsets),
            record_first=0,
            record_last=9,
            late=0,
            message_class=message_class,
        )
        self.certifier.blocks.deliver([row], self.world.names, self.at_s)

    def pass_to(self, offset: int) -> None:
        self.world.progress.read("a", SourceAt(Place(PLACE.topic, 0), b"", offset))

    def judge(self, seconds: float = 3.0, outcome: CaseOutcome | None = None, **more: bool) -> list:
        """Let time pass and judge; return the cases, each settled with the outcome."""
        self.at_s += seconds
        certification = self.certifier.judge(self.world, self.at_s, **more)
        for case in certification.cases:
            assert outcome is not None, f"unexpected {case}"
            settle(certification, case, outcome)
        self.certifier.finish(certification)
        return [case for case in certification.cases if not case.is_rest]

    def issued(self) -> list[tuple[int, int, bool, bool]]:
        found = [
            (one.expected, one.delivered, one.equal, one.partial)
            for one in self.certifier.unpublished.values()
        ]
        self.certifier.unpublished.clear()
        return found


@pytest.fixture
def table() -> Table:
    made = Table()
    made.cut(0)
    return made
