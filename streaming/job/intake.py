"""One micro-batch's small rows into the audits, in an order that lets each know what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import assert_never

from mesh.errors import RemoteProtocolError
from mesh.model.control import Stop
from mesh.model.facts import Held, Sent
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.interest_inputs import CHANGE
from mesh.model.names import name_fault
from mesh.wire.control import (
    decode_change,
    decode_config,
    decode_heartbeat,
    decode_identity,
    decode_link_state,
    decode_stop,
    decode_subscription,
)
from mesh.wire.keys import (
    NEIGHBOUR_KEYS,
    NODE_KEYS,
    AckKey,
    AdvertKey,
    HeartbeatKey,
    IdentityKey,
    LinkKey,
    LinksKey,
    MarkKey,
    RepairKey,
    StopKey,
    SubscribedKey,
    config_key,
    parse_key,
    parse_subscription_key,
)
from mesh.wire.state import decode_fact, decode_ledger
from streaming.audits.finding_register import Finding, records
from streaming.audits.interest import EndpointKey
from streaming.audits.matching import is_filter
from streaming.audits.row_findings import row_finding
from streaming.audits.strangers import unexamined_finding, unfollowed_finding
from streaming.job.state import State
from streaming.tables.rows import (
    DeliveryRow,
    FrameRow,
    MicroBatch,
    SmallRow,
    StrayRow,
    TopicPartition,
)
from streaming.tables.topics import CONFIG, ENDPOINT, OUTBOX, TopicPlace, is_place, place_of

SHOWN_MAX = 100
"""Characters of a stranger's text that a finding shows."""


def take_configs(
    state: State, rows: Sequence[SmallRow], now_s: float, read_s: float = -inf
) -> None:
    """Follow what a batch says of the topology, before all else: it tells whose topics are whose.

    Args:
        state: All audits.
        rows: Records of small topics, of which others are left alone.
        now_s: The auditor's clock, in seconds.
        read_s: All that was written to their Kafka cluster before this moment has been read in
            earlier batches.
    """
    for row in rows:
        if place_of(state.eras.prefix, row.place.topic).kind == CONFIG:
            try:
                _take_config(state, row, now_s, read_s)
            except RemoteProtocolError:
                what, harm = "topology", "it counts for nothing, whatever nodes have made of it"
                state.register.add(_unreadable_finding(row, what, harm))


def take_batch(state: State, batch: MicroBatch, now_s: float) -> None:
    """Take a batch of which the topology is known; findings go to the state's register.

    Args:
        state: All audits.
        batch: The small rows.
        now_s: The auditor's clock, in seconds.
    """
    prefix = state.eras.prefix
    for row in batch.small:
        if place_of(prefix, row.place.topic).kind != CONFIG:
            _take_small(state, prefix, row, now_s)
    for row in batch.ledgers:
        _take_ledger(state, place_of(prefix, row.place.topic).node, row, now_s)
    state.certifier.blocks.publish(batch.ingress, now_s)
    state.certifier.blocks.deliver(batch.deliveries, state.names, now_s)
    _lose_unkept(state)
    state.interest.changes += state.consumed.deliver(batch.deliveries, state.names)
    for finding in state.unwanted.absorb(batch.unwanted, state.interest, now_s):
        state.register.add(finding)
    for finding in state.unwanted.excuse(state.interest) if batch.small else ():
        state.register.add(finding)
    for finding in state.needless.absorb(batch.needless, state.interest, state.eras, now_s):
        state.register.add(finding)
    state.eras.see([_era_of(state, frame) for frame in batch.frames], now_s)
    _take_paths(state, batch.deliveries, batch.frames)
    for stray in batch.strays:
        state.register.add(_stray_finding(place_of(prefix, stray.place.topic), stray))
    for finding in state.chains.absorb(batch.frames, state.names):
        state.register.add(finding)
    state.certifier.blocks.carry(batch.frames, state.names)
    state.links.frames(batch.frames)
    state.accounts.frames(batch.frames, batch.strays)
    for finding in state.accounts.judge():
        state.register.add(finding)
    for delivery, partition in state.order.astray(batch.deliveries):
        state.register.add(_astray_finding(state, delivery, partition))
    state.delivery_doubts += state.order.absorb(batch.deliveries)
    for place in state.order.take_forgotten():
        state.register.add(unfollowed_finding(prefix, place))
    state.frame_doubts += state.origins.absorb(batch.frames)
    for finding in state.origins.forget_strangers(state.names, state.progress.generations):
        state.register.add(finding)
    if batch.small:
        state.excuses.excuse(state.progress.generations)
    told = state.interest, state.progress.generations, state.names
    for finding in state.excuses.absorb(batch.frames, batch.deliveries, *told, now_s):
        state.register.add(finding)
    for finding in state.strangers.absorb(batch.frames, state.names, now_s):
        state.register.add(finding)


def _lose_unkept(state: State) -> None:
    """Prove nothing of what endpoints got of sources that are named later, if not all is kept."""
    state.interest.changes += state.consumed.look_at(state.names)
    for row in state.certifier.blocks.unplaced.take_unkept():
        topic = place_of(state.eras.prefix, row.place.topic)
        state.register.add(unexamined_finding(state.eras.prefix, row))
        state.consumed.lose_strange(EndpointKey(topic.node, topic.other), state.names)


def _take_small(state: State, prefix: str, row: SmallRow, now_s: float) -> None:
    """Take one record of the control plane; one that nobody can read is the nodes' to refuse."""
    place = place_of(prefix, row.place.topic)
    with suppress(RemoteProtocolError):
        match place.kind:
            case "clients" if not row.place.partition:  # nodes read no other (K13)
                _take_subscription(state, place.node, row)
            case "progress":
                _take_progress(state, place, row)
            case "control":
                _take_of_node(state, place, row, now_s)
            case "to":
                _take_of_link(state, place, row)
            case _:
                pass


def _take_progress(state: State, place: TopicPlace, row: SmallRow) -> None:
    """Take a fact of a lane, or that it holds no more."""
    if row.value is None:
        if not _is_beside(state, place, row):
            state.progress.holds.forget(place.node, row.key)
        return
    fact = decode_fact(row.value)
    is_theirs = _is_owner if isinstance(fact, (Held, Sent)) else _is_reader
    if _names_places(state, row, [fact.at.topic], is_theirs):
        is_beside = isinstance(fact, Held) and _is_beside(state, place, row)
        is_news = state.progress.read(place.node, fact, is_beside=is_beside)
        state.interest.changes += is_news


def _take_of_node(state: State, place: TopicPlace, row: SmallRow, now_s: float) -> None:
    """Take what a node writes of itself; that something holds no more counts for no audit."""
    key = parse_key(row.key.encode(), NODE_KEYS)
    if row.value is None:
        return
    match key:
        case IdentityKey():
            identity = decode_identity(row.value)
            is_own = identity.node == place.node
            topics = [one.name for one in identity.topics]
            if is_own and _names_places(state, row, topics, _is_owner):
                former = state.names.learn(identity)
                if former is not None:
                    state.interest.lanes.rename(former, identity.uuid)
        case HeartbeatKey():
            heartbeat = decode_heartbeat(row.value)
            state.splits.beat(place.node, heartbeat, now_s)
            state.colours.of[place.node] = heartbeat.colour[:SHOWN_MAX]
        case StopKey():
            stop = decode_stop(row.value)
            if _names_places(state, row, [stop.topic], _is_reader):
                state.interest.changes += state.progress.generations.stop(stop)
                state.register.add(_stop_finding(state.eras.prefix, place.node, stop))
        case SubscribedKey() | AdvertKey() | MarkKey() | LinksKey():
            pass  # interest is audited by what clients asked for and by cuts
        case _:
            assert_never(key)


def _take_of_link(state: State, place: TopicPlace, row: SmallRow) -> None:
    """Apply a record to a neighbour; a finished repair still counts as requested."""
    match key := parse_key(row.key.encode(), NEIGHBOUR_KEYS):
        case RepairKey():
            state.excuses.ask(place.node, place.other, key)
        case LinkKey():
            if row.value is not None:
                state.splits.acknowledge(place.node, place.other, decode_link_state(row.value))
        case AckKey():
            pass  # acknowledgements are between neighbours
        case _:
            assert_never(key)


def _is_beside(state: State, place: TopicPlace, row: SmallRow) -> bool:
    """Return whether a record of progress is one of a catch-up: lanes come first. Spec: K14."""
    lanes = state.eras.lanes_of(place.node)
    return lanes is not None and row.place.partition >= lanes


def _names_places(
    state: State,
    row: SmallRow,
    topics: Iterable[str],
    is_theirs: Callable[[str, TopicPlace], bool],
) -> bool:
    """Return whether a record names topics alone that its node can speak of; else that is told.

    Args:
        state: All audits.
        row: The record.
        topics: What it names.
        is_theirs: Node, topic of the mesh -> whether the node can speak of it.
    """
    prefix = state.eras.prefix
    node = place_of(prefix, row.place.topic).node

    def is_good(topic: str) -> bool:
        return is_place(prefix, topic) and is_theirs(node, place_of(prefix, topic))

    foreign = [topic for topic in topics if not is_good(topic)]
    if foreign:
        state.register.add(_foreign_finding(prefix, row, foreign[0]))
    return not foreign


def _is_owner(node: str, topic: TopicPlace) -> bool:
    return topic.node == node


def _is_reader(node: str, topic: TopicPlace) -> bool:
    """Return whether a node's lanes read a topic: no other node knows how far, or from where on."""
    return node == (topic.other if topic.kind == OUTBOX else topic.node)


def _take_subscription(state: State, node: str, row: SmallRow) -> None:
    name, filter_ = parse_subscription_key(row.key.encode())
    if name_fault(name) is not None or not is_filter(filter_):
        return
    endpoint = EndpointKey(node, name)
    if row.value is None:
        state.interest.unsubscribe(endpoint, filter_, row.offset, row.at_ms)
        state.needless.end(node, filter_, row.offset)
    else:
        subscription = decode_subscription(row.value)
        state.interest.subscribe(endpoint, filter_, subscription, row.offset, row.at_ms)


def _take_ledger(state: State, node: str, row: SmallRow, now_s: float) -> None:
    if row.value is None:
        return
    try:
        ledger = decode_ledger(row.value)
    except RemoteProtocolError:
        # Nobody else reads it: what it says of cuts is owed to nobody then.
        harm = f"from where on lanes of {node} know of subscriptions may be in it"
        state.register.add(_unreadable_finding(row, "account", harm, node))
        return
    if not _names_places(state, row, [cut.topic for cut in ledger.cuts], _is_reader):
        return
    for cut in ledger.cuts:
        place = TopicPartition(cut.topic, cut.partition)
        is_again = state.progress.generation_of.get(place, 0) > 0
        if cut.uuid == CHANGE:
            record = records(row.place, row.offset, row.offset)
            if state.eras.cut(cut, record, now_s, is_again=is_again):
                state.interest.changes += 1
                _judge_ways_again(state)
        else:
            era = state.eras.numbers_of(place)[-1]
            state.interest.lanes.cut(cut, era, node=node, is_again=is_again)
    state.links.ledger(ledger)
    state.accounts.ledger(node, ledger)
    state.certifier.blocks.tell_times(ledger, row.at_ms)


def _take_paths(
    state: State, deliveries: Sequence[DeliveryRow], frames: Sequence[FrameRow]
) -> None:
    """Look at the ways: of frames by the topology that they name, else by all that may count."""
    eras = state.eras
    for frame in frames:
        plans = eras.plans_of(_era_of(state, frame))
        _report(state, [plan.frame_fault(frame, state.names) for plan in plans])
    sound: dict[tuple[object, ...], None] = {}
    for row in deliveries:
        # Of many endpoints the messages came the same way, and of many blocks.
        numbers = eras.routed_by(state.names.place(row.source), row)
        way = (
            row.path,
            row.source.topic_id,
            row.is_moved,
            place_of(eras.prefix, row.place.topic).node,
            numbers,
        )
        if way in sound:
            continue
        plans = eras.plans_by(numbers)
        if not _report(state, [plan.delivery_fault(row, state.names) for plan in plans]):
            sound[way] = None


def _era_of(state: State, frame: FrameRow) -> int | None:
    return state.eras.era_of(state.names.place(frame.source), frame)


def _report(state: State, faults: Sequence[Finding | None]) -> bool:
    """Report a path that is wrong by all topologies that may apply; return whether it is."""
    if not faults or faults[0] is None or None in faults:
        return False
    state.register.add(state.eras.unjudged(faults[0]) or faults[0])
    return True


def _judge_ways_again(state: State) -> None:
    """Take back what was said of ways before it was known that their topology is forgotten."""
    for finding in list(state.register.findings.values()):
        if (news := state.eras.unjudged(finding)) is not None:
            state.register.withdraw(finding.id)
            state.register.add(news)


def _take_config(state: State, row: SmallRow, now_s: float, read_s: float) -> None:
    """Follow the topology in force. Spec: K28."""
    if row.value is None:
        return
    if row.key == config_key().decode():
        config = decode_config(row.value)
        is_news = state.eras.configured(config.number, config.topology, now_s)
    else:
        is_news = state.eras.changed(decode_change(row.value), now_s)
    if not is_news:
        return
    state.interest.changes += 1
    state.splits.follow(state.eras.linked())
    # What came before its topology was read is judged again. A fault that was found before it was
    # written stays one, though there is such a link now: what was read tells, and no clock.
    for finding in state.register.found_after(read_s):
        if any(plan.is_planned(finding) for plan in state.eras.plans):
            state.register.withdraw(finding.id)


def _stop_finding(prefix: str, node: str, stop: Stop) -> Finding:
    """Return the gap at which a node stands still: it tells the exact range. Spec: R6, DESIGN 6."""
    stop = replace(stop, reason=stop.reason[:SHOWN_MAX])
    last = stop.next - 1 if stop.next >= 0 else None
    place = place_of(prefix, stop.topic)
    return Finding(
        kind=FindingKind.GAP,
        text=f"{node} stopped reading: {stop}",
        ids=(f"{stop.topic}/{stop.partition}/{stop.first}-{'' if last is None else last}",),
        link=place.link,
        source=f"{stop.topic}[{stop.partition}]",
        first=stop.first,
        last=last,
        count=0 if last is None else max(0, last - stop.first + 1),
        anchor=f"{stop.topic_id.hex()} {stop.reason} {stop.first}",
        node=node,
    )


def _astray_finding(state: State, row: DeliveryRow, partition: int) -> Finding:
    place, source = place_of(state.eras.prefix, row.place.topic), state.names.text(row.source)
    more = ", nor whether one has come twice" if row.message_class == MessageClass.DIRECT else ""
    text = (
        f"{place.endpoint} got messages of {source} in partition {row.place.partition}, and in"
        f" {partition} before: nothing tells their order{more}"
    )
    kind, anchor = FindingKind.DISORDER, f"partition {row.place.partition}"
    return row_finding(kind, text, row, state.eras.prefix, source, anchor=anchor)


def _foreign_finding(prefix: str, row: SmallRow, topic: str) -> Finding:
    where = records(row.place, row.offset, row.offset)
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{row.place} has a record about {topic[:SHOWN_MAX]!r}, which is no topic that it"
        " can speak of: it counts for nothing",
        ids=(where,),
        source=str(row.place),
        first=row.offset,
        last=row.offset,
        count=1,
        anchor="names",
        node=place_of(prefix, row.place.topic).node,
        evidence=(where,),
    )


def _unreadable_finding(row: SmallRow, what: str, harm: str, node: str = "") -> Finding:
    where = records(row.place, row.offset, row.offset)
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{row.place} has a record that is no {what} of this mesh's version: {harm}",
        ids=(where,),
        source=str(row.place),
        first=row.offset,
        last=row.offset,
        count=1,
        anchor=what,
        node=node,
        evidence=(where,),
    )


def _stray_finding(place: TopicPlace, row: StrayRow) -> Finding:
    what = "delivery" if place.kind == ENDPOINT else "frame"
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{row.place} has a record that is no {what} of this mesh's version",
        ids=(f"{row.place}@{row.first}",),
        link=place.link if place.kind == OUTBOX else "",
        endpoint=place.endpoint,
        source=str(row.place),
        first=row.first,
        last=row.last,
        count=row.count,
        node=place.node,
        evidence=(records(row.place, row.first, row.last),),
    )
