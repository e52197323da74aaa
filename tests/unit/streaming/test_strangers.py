"""Records that name what is no topic of the mesh: told once, and of no effect. Spec: DESIGN 4.6."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from mesh.model.control import Identity, Stop, StopReason, TopicIdentity
from mesh.model.facts import Accepted, Fact, Gap, Held, SourceAt
from mesh.model.findings import FindingKind
from mesh.model.frames import SourcePartition
from mesh.model.frames import TopicPartition as Place
from mesh.model.state import Cut, Ledger
from mesh.wire.control import encode_identity, encode_stop
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.audits.strangers import StrangeFrames
from streaming.job.intake import take_batch
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    DeliveryRow,
    FramePlace,
    MicroBatch,
    SmallRow,
    SourceKey,
    TopicPartition,
)
from streaming.tables.topics import OUTBOX, place_of
from tests.streaming.planted import chain_topology
from tests.unit.streaming.test_eras import frame

ID = bytes(15) + b"\1"


def small(topic: str, key: str, value: bytes | None, offset: int = 7) -> SmallRow:
    return SmallRow(TopicPartition(topic, 0), offset, key, value, 0)


def held(topic: str) -> bytes:
    return encode_fact(Held(Place(topic, 0), SourcePartition(ID, 0), 1, 5))


SOURCE = SourcePartition(ID, 0)


def identity(topic: str) -> bytes:
    topics = [TopicIdentity(topic, ID, 1)]
    return encode_identity(
        Identity(node="a", uuid="u", epoch=1, cluster_id="x", lanes=1, topics=topics)
    )


def ledger(topic: str) -> bytes:
    cut = Cut(topic, ID, 0, 3, "u", 4)
    return encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=[cut]))


STOP = small("mesh.a.control", "stop x 0", encode_stop(Stop("orders", 0, ID, "truncated", 3)))
HELD = small("mesh.a.progress", "held x", held("orders"))
IDENTITY = small("mesh.a.control", "identity", identity("orders"))
CUT = small("mesh.a.ledger", "0", ledger("orders"))


def batch_of(row: SmallRow) -> MicroBatch:
    if row.place.topic.endswith("ledger"):
        return MicroBatch(ledgers=[row])
    return MicroBatch(small=[row])


def delivery() -> DeliveryRow:
    """Of the topic that the identity names."""
    return DeliveryRow(
        place=TopicPartition("mesh.a.ep.s", 0),
        source=SourceKey(ID.hex(), 0),
        generation=0,
        path=("a",),
        block=0,
        digest=Digest(count=1),
        first=0,
        last=0,
        record_first=0,
        record_last=0,
        late=0,
    )


@pytest.mark.parametrize(
    "row", [STOP, HELD, IDENTITY, CUT], ids=["stop", "held", "identity", "cut"]
)
def test_a_record_about_a_foreign_topic_is_told_once_and_counts_for_nothing(row: SmallRow) -> None:
    state = State.of(chain_topology())
    for _ in range(2):
        take_batch(state, batch_of(row), 1.0)
    take_batch(state, MicroBatch(deliveries=[delivery()]), 2.0)
    (finding,) = state.register.findings.values()
    assert finding.kind is FindingKind.UNEXPECTED
    assert (finding.ids, finding.count) == ((f"{row.place}@7",), 1)
    assert "'orders'" in finding.text
    # What looks at all that is known goes on.
    assert state.progress.holds.open == {}
    state.interest.lanes.unknown_ends({}, {}, lambda topic: place_of("mesh.", topic).other)
    assert not state.interest.lanes.cuts
    assert not state.names.topics
    assert not state.eras.begins


def fact_of(topic: str, fact: Fact) -> SmallRow:
    return small(topic, fact_key(fact.key).decode(), encode_fact(fact))


@pytest.mark.parametrize(
    "row",
    [
        fact_of("mesh.c.progress", SourceAt(Place("mesh.a.in.g", 0), ID, 0, generation=1)),
        fact_of("mesh.c.progress", SourceAt(Place("mesh.a.to.b.g", 0), ID, 10**9)),
        fact_of("mesh.a.progress", SourceAt(Place("mesh.a.to.b.g", 0), ID, 10**9)),
        fact_of("mesh.c.progress", Accepted(Place("mesh.a.to.b.g", 0), SOURCE, 10**9)),
        fact_of("mesh.c.progress", Gap(Place("mesh.a.to.b.g", 0), SOURCE, 1, 1, is_open=True)),
        fact_of("mesh.c.progress", Held(Place("mesh.b.ep.s", 0), SOURCE, 1, 5)),
        small(
            "mesh.c.control",
            "stop x 0",
            encode_stop(Stop("mesh.a.in.g", 0, ID, StopReason.TRUNCATED, 3)),
        ),
    ],
    ids=["generation", "reader", "sender", "accepted", "gap", "held", "stop"],
)
def test_what_a_node_says_of_another_ones_topics_counts_for_nothing(row: SmallRow) -> None:
    """One node could excuse second copies in all the mesh, or have nothing be missing anywhere."""
    state = State.of(chain_topology())
    take_batch(state, batch_of(row), 1.0)
    progress, fresh = state.progress, State.of(chain_topology()).progress
    assert progress == fresh
    (finding,) = state.register.findings.values()
    assert (finding.kind, finding.node) == (FindingKind.UNEXPECTED, row.place.topic.split(".")[1])


def test_a_subscription_that_no_node_reads_is_owed_nothing() -> None:
    """Only the first partition of `clients` counts. Spec: K13."""
    state = State.of(chain_topology())
    row = SmallRow(TopicPartition("mesh.a.clients", 1), 0, "s x/>", b"{}", 0)
    take_batch(state, MicroBatch(small=[row]), 1.0)
    assert not state.interest.subscriptions
    take_batch(
        state, MicroBatch(small=[replace(row, place=TopicPartition("mesh.a.clients", 0))]), 1.0
    )
    assert state.interest.subscriptions


def test_others_like_it_are_counted_and_the_name_is_cut_short() -> None:
    state = State.of(chain_topology())
    for offset in (7, 8):
        long = small("mesh.a.progress", "held x", held("x" * 5_000), offset)
        take_batch(state, batch_of(long), 1.0)
    (finding,) = state.register.findings.values()
    assert (finding.count, finding.first, finding.last) == (2, 7, 8)
    assert len(finding.text) < 300


def test_the_same_records_about_topics_of_the_mesh_are_taken() -> None:
    state = State.of(chain_topology())
    take_batch(state, batch_of(small("mesh.a.progress", "held x", held("mesh.a.to.b.g"))), 1.0)
    take_batch(state, batch_of(small("mesh.a.control", "identity", identity("mesh.a.in.g"))), 1.0)
    take_batch(state, batch_of(small("mesh.a.ledger", "0", ledger("mesh.a.in.g"))), 1.0)
    assert not state.register.findings
    assert state.progress.holds.open
    assert state.names.topics == {ID.hex(): "mesh.a.in.g"}
    assert state.interest.lanes.cuts


def test_a_generation_that_no_reader_can_have_reached_is_none() -> None:
    """All below it count as told: two thousand million of them would fill the memory."""
    state = State.of(chain_topology())
    stop = Stop("mesh.a.in.g", 0, ID, "truncated", 3, generation=2**31 - 1)
    progress = SourceAt(Place("mesh.a.in.g", 0), ID, 5, generation=2**31 - 1)
    rows = [
        small("mesh.a.control", "stop x 0", encode_stop(stop)),
        small("mesh.a.progress", "source x", encode_fact(progress)),
    ]
    take_batch(state, MicroBatch(small=rows), 1.0)
    assert state.progress.generations.known == {}


TOPIC_ID = "aa" * 16


@pytest.mark.parametrize("number", ["9" * 5_000, "-1", "x", "", "1 0"])
def test_a_request_for_a_repair_of_no_partition_is_none(number: str) -> None:
    state = State.of(chain_topology())
    key = f"repair {TOPIC_ID} {number} 0 guaranteed"
    take_batch(state, MicroBatch(small=[small("mesh.b.to.a.c", key, b"")]), 1.0)
    assert place_of("mesh.", "mesh.b.to.a.c").kind == OUTBOX
    assert not state.excuses.asked
    key = f"repair {TOPIC_ID} 1 0 guaranteed"
    take_batch(state, MicroBatch(small=[small("mesh.b.to.a.c", key, b"")]), 1.0)
    assert state.excuses.asked, "a request that is one counts"


@pytest.mark.parametrize(("is_moved", "count"), [(True, 0), (False, 1)])
def test_who_moves_on_what_was_moved_names_the_node_where_it_came_from(
    is_moved: bool, count: int
) -> None:
    """How far a message of a queue has come before that no delivery tells."""
    names = Names({"aa": "mesh.a.in.g"})
    row = replace(frame("b->c", ("b",), None), node="d", is_moved=is_moved)
    assert len([*StrangeFrames("mesh.").absorb([row], names, 0.0)]) == count


def test_frames_of_unnamed_sources_are_held_up_to_a_number_and_others_are_reported(
    monkeypatch,
) -> None:
    """While a Kafka cluster is not read it names none of its topics, and nothing is judged."""
    monkeypatch.setattr("streaming.audits.strangers.UNNAMED_MAX", 5)
    frames = StrangeFrames("mesh.")
    rows = [
        replace(frame("a>b", ("a",), None), source=SourceKey("ee", number)) for number in range(20)
    ]
    findings = [*frames.absorb(rows, Names(), 100.0), *frames.absorb(rows, Names(), 101.0)]
    assert len(frames.unnamed) == 5
    assert {(one.kind, one.link, one.node) for one in findings} == {
        (FindingKind.UNPROVEN, "a->b", "a")
    }
    assert (len(findings), len({one.id for one in findings})) == (30, 1)
    assert not [*frames.judge(Names(), 102.0)], "many are no reason to judge early"
    kinds = [one.kind for one in frames.judge(Names(), 161.0)]
    assert kinds == [FindingKind.FORGED_ORIGIN] * 5


def test_frames_whose_source_has_been_named_make_room_before_all_is_read(monkeypatch) -> None:
    """Nothing is judged as long as the auditor lags; a fault of theirs is none of too many."""
    monkeypatch.setattr("streaming.audits.strangers.UNNAMED_MAX", 1)
    frames, names = StrangeFrames("mesh."), Names()
    rows = [replace(frame("a>b", ("a",), None), source=SourceKey(one, 0)) for one in ("ee", "ff")]
    assert not [*frames.absorb(rows[:1], names, 100.0)]
    names.tell("mesh.c.in.g", "ee")
    (finding,) = frames.absorb(rows[1:], names, 101.0)
    assert (finding.kind, finding.source) == (FindingKind.FORGED_ORIGIN, "mesh.c.in.g/0")
    assert [key.source.topic_id for key in frames.unnamed] == ["ff"]


def test_each_loss_of_an_endpoint_is_told_while_a_kafka_cluster_does_not_say_where_it_ends() -> (
    None
):
    """A later one of the same partition takes the place of none before."""
    state, place = State.of(chain_topology()), TopicPartition("mesh.a.ep.s", 0)
    for first, last in [(0, 9), (20, 29)]:
        state.consumed.lose(place, first, last)
    told = state.consumed.bound({TopicPartition("mesh.a.in.g", 0): 5}, ())
    assert [(one.first, one.last) for one in told] == [(0, 9), (20, 29)]


def test_deliveries_of_unnamed_sources_beyond_a_number_prove_nothing_and_are_not_missing(
    monkeypatch,
) -> None:
    monkeypatch.setattr("streaming.audits.unplaced_deliveries.PARKED_MAX", 2)
    state, endpoint = State.of(chain_topology()), EndpointKey("a", "s")
    place = TopicPartition("mesh.a.in.g", 0)
    for block in range(6):
        first = block * 4096
        row = delivery()._replace(block=block, first=first, last=first)
        for _ in range(2):
            take_batch(state, MicroBatch(deliveries=[row]), 1.0)
    parked = state.certifier.blocks.unplaced.parked
    assert [len(rows) for _, rows in parked.values()] == [2]
    (finding,) = state.register.findings.values()
    assert (finding.kind, finding.endpoint, finding.count) == (FindingKind.UNPROVEN, "a/s", 8)
    take_batch(state, batch_of(small("mesh.a.control", "identity", identity(place.topic))), 2.0)
    assert state.consumed.below(endpoint, place) == inf
    assert not [*state.consumed.bound({place: 5 * 4096 + 1}, ())]
    assert state.consumed.below(endpoint, place) == 5 * 4096 + 1
    assert state.consumed.below(EndpointKey("a", "other"), place) == 0
    assert len(state.register.findings) == 1


def test_who_floods_an_endpoint_with_unnamed_sources_hides_nothing_of_those_that_have_names(
    monkeypatch,
) -> None:
    """As long as the flood lasted, nothing at all was proven of the endpoint."""
    monkeypatch.setattr("streaming.audits.unplaced_deliveries.PARKED_MAX", 2)
    state, endpoint = State.of(chain_topology()), EndpointKey("a", "s")
    place, other = TopicPartition("mesh.a.in.g", 0), TopicPartition("mesh.b.in.g", 0)
    state.names.tell(place.topic, ID.hex())
    for number in range(2, 9):
        source = SourceKey(f"{number:032x}", 9)
        row = delivery()._replace(source=source, path=("x", "a"), message_class="direct")
        take_batch(state, MicroBatch(deliveries=[row._replace(block=number)]), 1.0)
        assert state.consumed.below(endpoint, place) == 0
    findings = state.register.findings.values()
    (finding,) = [one for one in findings if one.kind is FindingKind.UNPROVEN]
    assert (finding.endpoint, finding.evidence) == ("a/s", ("mesh.a.ep.s/0@0",))
    assert "0004/9 by x>a" in finding.text, "it says what the flood claims to be"
    state.names.tell("mesh.a.to.b.g", "dd" * 16)
    take_batch(state, MicroBatch(), 2.0)
    assert state.consumed.below(endpoint, other) == 0, "nothing was published to an outbox"
    state.names.tell(other.topic, "ee" * 16)
    take_batch(state, MicroBatch(), 3.0)
    assert state.consumed.below(endpoint, other) == inf
    assert not [*state.consumed.bound({place: 7, other: 3}, ())]
    assert state.consumed.below(endpoint, other) == 3


def test_sources_that_frames_make_up_are_forgotten_and_reported_and_others_are_not(
    monkeypatch,
) -> None:
    """Whoever may write to an outbox made the state grow for ever."""
    monkeypatch.setattr("streaming.audits.chains.CHAINS_MAX", 8)
    monkeypatch.setattr("streaming.audits.origins.SOURCES_MAX", 8)
    state = State.of(chain_topology())
    state.names.tell("mesh.a.in.g", "aa")
    known = SourceKey("aa", 0)
    rows = [
        replace(frame("a>b", ("a",), None), source=source, chain=source)
        for source in (known, *(SourceKey("ee", number) for number in range(20)))
    ]
    again = replace(rows[0], generation=7)  # of which no reader has told
    take_batch(state, MicroBatch(frames=[*rows, again]), 1.0)
    assert [key.source for key in state.chains.heads] == [known]
    assert [(key.source, key.generation) for key in state.origins.reached] == [(known, 0)]
    assert [key.source for key in state.origins.arrived] == [known]
    told = {
        (one.anchor, one.link, one.count)
        for one in state.register.findings.values()
        if one.kind is FindingKind.UNPROVEN
    }
    assert told == {("chains", "a->b", 20), ("origins", "a->b", 21)}


def test_a_mesh_with_more_sources_of_its_own_forgets_none_that_is_named_late(monkeypatch) -> None:
    """Of a large mesh each new ingress whose Kafka cluster is read later was forgotten at once."""
    monkeypatch.setattr("streaming.audits.chains.CHAINS_MAX", 8)
    monkeypatch.setattr("streaming.audits.origins.SOURCES_MAX", 8)
    state = State.of(chain_topology())
    state.names.tell("mesh.a.in.g", "aa")
    sources = [*(SourceKey("aa", number) for number in range(20)), SourceKey(ID.hex(), 0)]
    rows = [replace(frame("a>b", ("a",), None), source=one, chain=one) for one in sources]
    take_batch(state, MicroBatch(frames=rows), 1.0)
    assert (len(state.chains.heads), len(state.origins.reached)) == (21, 21)
    assert not state.register.findings


def test_what_is_forgotten_of_a_source_that_is_named_later_is_neither_missing_nor_lost(
    monkeypatch,
) -> None:
    """A Kafka cluster that was down named none of its topics: what was under way was missing."""
    monkeypatch.setattr("streaming.audits.chains.CHAINS_MAX", 8)
    monkeypatch.setattr("streaming.audits.origins.SOURCES_MAX", 8)
    state, place, outbox = (
        State.of(chain_topology()),
        *(TopicPartition(topic, 0) for topic in ("mesh.a.in.g", "mesh.a.to.b.g")),
    )
    rows = [
        replace(frame("a>b", ("a",), None), source=source, chain=source)
        for source in (SourceKey(ID.hex(), 0), *(SourceKey("ee", number) for number in range(20)))
    ]
    take_batch(state, MicroBatch(frames=rows), 1.0)
    assert not state.chains.heads
    state.names.tell(place.topic, ID.hex())
    state.progress.read("a", SourceAt(Place(*place), ID, 100))
    ticket = state.progress.open(place, 50, "b")
    state.progress.advance(ticket, state.world(lambda _: {}).sight())
    assert state.progress.where(ticket, {}).startswith(f"b at {outbox}: read up to 0 of ")
    state.progress.read("b", SourceAt(Place(*outbox), ID, 100))
    state.progress.advance(ticket, state.world(lambda _: {}).sight())
    assert ticket.is_done
    assert state.origins.carriers("b", SourceKey(ID.hex(), 0)) == [outbox]
    head = FramePlace(rows[0].tail.offset + 1, 5, 6, 6)
    goes_on = replace(rows[0], head=head, tail=head, first=6, last=6)
    take_batch(state, MicroBatch(frames=[goes_on]), 2.0)
    assert FindingKind.GAP not in {one.kind for one in state.register.findings.values()}
    state.forget_recreated(outbox, "ff", 0)
    assert not state.chains.forgotten


def test_sources_that_an_endpoint_is_flooded_with_are_not_forgotten_without_a_word(
    monkeypatch,
) -> None:
    """They drove out those of the mesh: a second copy of a direct message was none after that."""
    monkeypatch.setattr("streaming.audits.order.SOURCES_MAX", 4)
    state = State.of(chain_topology())
    rows = [delivery()._replace(source=SourceKey("ee", number)) for number in range(4)]
    take_batch(state, MicroBatch(deliveries=rows), 1.0)
    assert not state.register.findings
    for number in (5, 6):
        more = delivery()._replace(source=SourceKey("ee", number))
        take_batch(state, MicroBatch(deliveries=[more]), 1.0)
    (finding,) = state.register.findings.values()
    assert (finding.kind, finding.endpoint) == (FindingKind.UNPROVEN, "a/s")


@pytest.mark.parametrize("name", ["generation", "path"])
def test_generations_and_ways_that_an_endpoint_is_flooded_with_are_told_each_alone(
    monkeypatch, name: str
) -> None:
    """Those of one source drive out others as well: by generations copies, by ways the partition."""
    monkeypatch.setattr("streaming.audits.order.SOURCES_MAX", 4)
    state = State.of(chain_topology())
    for number in range(5):
        told = {"generation": number, "path": (f"n{number}", "a")}
        take_batch(state, MicroBatch(deliveries=[delivery()._replace(**{name: told[name]})]), 1.0)
    texts = [one.text for one in state.register.findings.values() if one.anchor == "order"]
    assert len(texts) == 1
    assert "no longer followed" in texts[0]


def test_late_deliveries_beyond_a_number_are_reported_and_none_is_judged_early(monkeypatch) -> None:
    """Who asks for them may not have been read yet: while many waited they were unexpected."""
    monkeypatch.setattr("streaming.audits.unplaced_deliveries.LATE_MAX", 3)
    state, place = State.of(chain_topology()), TopicPartition("mesh.a.in.g", 0)
    blocks = state.certifier.blocks
    state.names.tell(place.topic, ID.hex())
    blocks.dropped[place] = 100
    for block in range(8):
        first = block * 4096
        row = delivery()._replace(block=block, first=first, last=first)
        take_batch(state, MicroBatch(deliveries=[row, row]), 1.0)
    assert len(blocks.unplaced.late) == 3
    assert not blocks.unplaced.ripe(2.0), "many are no reason to judge early"
    assert len(blocks.unplaced.ripe(20.0)) == 3
    findings = blocks.unplaced.take_findings()
    assert {(one.kind, one.endpoint) for one in findings} == {(FindingKind.UNPROVEN, "a/s")}
    assert (len(findings), len({one.id for one in findings})) == (10, 1)


def test_what_one_endpoint_had_lost_hides_no_loss_at_another() -> None:
    """The first that came of a new ingress passed for the first that had not been deleted."""
    state, place = State.of(chain_topology()), TopicPartition("mesh.a.in.g", 0)
    state.names.tell(place.topic, ID.hex())
    endpoint, other = EndpointKey("a", "s"), EndpointKey("a", "other")
    state.consumed.lose_all(endpoint)
    assert not [*state.consumed.bound({place: 0}, ())], "nothing had been published by then"
    state.consumed.lose_all(other)
    later = delivery()._replace(first=5, last=5)
    assert not state.consumed.deliver([later], state.names)
    assert state.consumed.below(endpoint, place) == 0, "what is missing before it is a loss"
    state.consumed.lose_all(endpoint)
    assert state.consumed.deliver([later], state.names)
    assert state.consumed.below(endpoint, place) == 5
