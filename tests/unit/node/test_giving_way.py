"""Proposals and replies by which an open link gives way, of nodes that hear each other at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mesh.model.links import (
    ABORT,
    ASK,
    HOLD,
    JOIN,
    OPEN,
    RUN,
    SWITCH,
    NodeLinks,
    YieldProposal,
    YieldReply,
)
from mesh.node.giving_way import (
    AGAIN_MS,
    CALM_MS,
    PATIENCE_MS,
    STEP_MS,
    SWITCH_MS,
    GivingWay,
    Situation,
)
from tests.said import Said, noted

ALL = ("u1", "u2", "u3")


@dataclass
class Talk:
    """Three nodes; `u1` is an end of the link that loses.

    Attributes:
        deaf: Who takes no turns.
        idle: Whether probes find nothing new.
    """

    now_ms: int = 0
    settled: str = "facts"
    asking: tuple[str, ...] = ("u1",)
    deaf: tuple[str, ...] = ()
    idle: bool = True
    is_shut: bool = True
    records: dict[str, NodeLinks] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for uuid in ALL:
            name = uuid.replace("u", "n")
            self.records[uuid] = NodeLinks(node=name, uuid=uuid, cluster_id="k", digest=uuid)
        self.ways = {uuid: GivingWay(uuid) for uuid in ALL}

    def turn(self, after_ms: int = 20) -> None:
        """Have each node judge once; its lanes commit at once what it is asked."""
        self.now_ms += after_ms
        for uuid, way in self.ways.items():
            if uuid in self.deaf:
                continue
            own = self.records[uuid]
            still = (own.reply.number, 2 * own.reply.asked + self.idle)
            now = Situation(
                now_ms=self.now_ms,
                near=ALL,
                facts=self.settled,
                asks=uuid in self.asking and not self.has_switched,
                why="waits until n1-n2 gives way",
                still=still,
                is_shut=self.is_shut,
                is_set=True,
                is_joined=True,
            )
            record = way.step(own, self.records, now)
            if record != own:
                record = replace(record, sequence=own.sequence + 1)
            self.records[uuid] = record

    def begin(self) -> None:
        self.turn()
        self.turn(CALM_MS)

    def turn_to(self, step: int) -> None:
        for _ in range(50):
            if self.step == step:
                return
            self.turn()
        raise AssertionError(f"never at {step}")

    @property
    def step(self) -> int:
        proposal = self.records["u1"].proposal
        assert proposal is not None
        return proposal.step

    @property
    def has_switched(self) -> bool:
        proposal = self.records["u1"].proposal
        return proposal is not None and proposal.has_switched

    def holding(self) -> list[str]:
        return [uuid for uuid in ALL if self.records[uuid].reply.is_holding]

    def said(self, uuid: str) -> Said:
        return noted(self.ways[uuid].notes)


def test_all_hold_probe_twice_switch_and_go_on() -> None:
    """Spec: K27, K28."""
    talk = Talk()
    talk.turn()
    assert talk.records["u1"].proposal is None  # the facts may still change
    talk.turn(CALM_MS)
    assert talk.records["u1"].proposal == YieldProposal(1, "facts", ASK)
    seen = []
    for _ in range(30):
        talk.turn()
        if talk.step not in seen:
            seen.append(talk.step)
    assert seen == [HOLD, 2, 3, SWITCH, OPEN, JOIN, RUN]
    assert not talk.holding()
    assert talk.said("u1").of("link.gives_way") == [
        {"log_level": "warning", "text": "what is new waits until n1-n2 gives way"}
    ]


def test_what_comes_between_two_probes_brings_another() -> None:
    """As long as a walk may be: no walk has more links than there are nodes. Spec: K28."""
    talk = Talk(idle=False)
    talk.begin()
    talk.turn_to(1 + len(ALL))
    talk.turn_to(SWITCH)


def test_until_the_switch_it_can_be_taken_back() -> None:
    """What is heard meanwhile may change who loses. Spec: K27."""
    talk = Talk()
    talk.begin()
    talk.turn_to(2)
    talk.settled = "others"
    talk.turn()
    assert talk.step == ABORT
    talk.turn()
    assert not talk.holding()
    talk.turn(CALM_MS)
    talk.turn_to(SWITCH)
    talk.settled = "again others"
    talk.turn_to(RUN)


def test_who_does_not_answer_keeps_the_link_open() -> None:
    """It is named, and it is tried again, ever later. Spec: K27."""
    talk = Talk(deaf=("u3",))
    talk.begin()
    talk.turn()
    assert not talk.holding()
    talk.turn(STEP_MS)
    assert talk.step == ABORT
    assert talk.said("u1").of("link.stays") == [
        {"log_level": "warning", "nodes": "n3", "text": "what is new waits until n1-n2 gives way"}
    ]
    talk.turn(AGAIN_MS.first)
    assert talk.step == ASK
    talk.turn()
    talk.turn(STEP_MS)
    talk.turn(AGAIN_MS.first)
    assert talk.step == ABORT
    talk.turn(AGAIN_MS.first)
    assert talk.step == ASK


def test_behind_the_switch_sources_go_on_without_who_is_lost() -> None:
    """When it is back it goes on only once it has shut what loses. Spec: K27."""
    talk = Talk()
    talk.begin()
    talk.turn_to(SWITCH)
    talk.deaf = ("u3",)
    talk.turn_to(OPEN)
    talk.turn()
    talk.turn(SWITCH_MS)
    assert talk.step == RUN
    late = {"log_level": "warning", "nodes": "n3", "text": "links not yet changed"}
    assert talk.said("u1").of("link.late") == [late]
    talk.turn()
    talk.deaf, talk.is_shut = (), False
    talk.turn()
    assert talk.holding() == ["u3"]
    talk.is_shut = True
    talk.turn()
    assert not talk.holding()


def test_nobody_holds_for_ever_for_one_that_is_gone() -> None:
    """Who went on does not hold for the same proposal again, but for the next. Spec: K27."""
    talk = Talk()
    talk.begin()
    talk.turn_to(HOLD)
    talk.turn()
    talk.deaf = ("u1",)
    talk.turn()
    talk.turn(PATIENCE_MS)
    assert talk.holding() == ["u1"]
    not_heard = {"log_level": "warning", "nodes": "n1", "text": "not heard"}
    assert talk.said("u2").of("link.late") == [not_heard]
    talk.turn()
    assert talk.holding() == ["u1"]
    talk.deaf = ()
    talk.turn(STEP_MS)
    assert talk.step == ABORT
    talk.turn(AGAIN_MS.first)
    talk.turn_to(RUN)


def test_of_two_that_ask_the_smaller_goes_on() -> None:
    """They may know of different losers for a moment. Spec: K27."""
    talk = Talk(asking=("u1", "u2"))
    talk.begin()
    talk.records["u2"] = replace(talk.records["u2"], proposal=YieldProposal(9, "facts", HOLD))
    talk.turn()
    assert talk.records["u2"].proposal == YieldProposal(9, "facts", ABORT)
    talk.turn_to(OPEN)
    assert {talk.records[uuid].reply.to for uuid in ALL} == {"u1"}


def test_a_speaker_that_comes_back_goes_on_with_its_word() -> None:
    """All of it stands in its record. Spec: K16."""
    talk = Talk()
    talk.begin()
    talk.turn_to(2)
    talk.ways = {uuid: GivingWay(uuid) for uuid in ALL}
    talk.turn_to(RUN)
    talk.turn()
    assert talk.records["u2"].reply == YieldReply("u1", 1, 1, ABORT, JOIN, is_idle=True)
