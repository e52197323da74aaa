"""What must hold in the end: everything mended, everybody started, nothing left to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.model.reasons import DISCARDED_DIRECT, DropReason, Reason
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_fact
from tests.sim.meshes import naive_matches
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.watch import Message, ViolationError, Wish
from tests.sim.swarm.world import SwarmWorld

LOSSY = frozenset(
    {
        "brokers",
        "pause",
        "deny",
        "outcome",
        "storm",
        "deaf",
        "lose",
        "anew",
        "forget",
    }
)
"""Faults that may cost direct messages without an account of each. Spec: K18, K19."""

PROMPT_MS = 6_000
"""So soon a message comes that nothing disturbs."""

ACCOUNTS = {Reason.NODE_DOWN, *DISCARDED_DIRECT} - {DropReason.RETENTION}
"""Reasons under which discarded direct messages are counted; none is deleted unread here."""


def unfinished(world: SwarmWorld) -> str:
    """Return what is not done yet, in words; empty if the mesh is quiet."""
    ready: dict[str, int] = {}
    for name, worker in world.workers.items():
        if not worker.is_ready:
            return f"{name} is not ready"
        if worker.lanes is not None:
            node = name.partition("/")[0]
            ready[node] = ready.get(node, 0) + len(worker.lanes.owned)
            if any(
                lane.batch or lane.closing or lane.direct.ready
                for lane in worker.lanes.owned.values()
            ):
                return f"{name} has a batch open"
            for lane in worker.lanes.owned.values():
                if lane.held_targets or lane.progress.gaps:
                    pending = [*lane.held_targets, *lane.progress.gaps]
                    return f"{name} has yet to catch up {pending[0]}"
    if world.operators is not None and (left := world.operators.unfinished()):
        return left
    for node, declared in world.there().items():
        if ready.get(node, 0) != declared.lanes:
            return f"{node} has {ready.get(node, 0)} of its {declared.lanes} lanes"
    if world.damage is not None and (left := world.damage.unfinished()):
        return left
    if world.outages is not None and (left := world.outages.unfinished()):
        return left
    return next(_unread(world), "") or next(_wrong_interest(world), "")


def why_stuck(world: SwarmWorld) -> str:
    """Return the rule that a mesh breaks which does not come to rest."""
    lanes = [worker.lanes for worker in world.workers.values() if worker.lanes]
    writers = [one.writer for some in lanes for one in some.transactions.values()]
    return "stuck with a fenced lane" if any(one._fenced for one in writers) else "stuck"


def _unread(world: SwarmWorld) -> Iterator[str]:
    watch = world.watch
    for kafka in world.kafka.values():
        for topic, made in kafka.topics.items():
            if topic in world.oracle.outboxes:
                node = world.oracle.outboxes[topic][1]
            elif topic in world.oracle.ingresses:
                node = world.oracle.ingresses[topic][0]
            else:
                continue
            if not world.is_read(topic):
                continue
            for log in made.logs:
                last = max((r.offset() for r in log.entries[-8:] if r is not None), default=-1)
                passed = watch.passed.get((node, topic, log.partition), 0)
                if passed <= last:
                    passed = _told(world, node, TopicPartition(topic, log.partition))
                if passed <= last:
                    yield f"{node} has read {topic}[{log.partition}] to {passed}, not to {last}"


def _told(world: SwarmWorld, node: str, at: TopicPartition) -> int:
    """Return how far a node has told that it read: not all of that stands in its ledger."""
    topic = world.oracle.names.progress(node)
    lane = at.partition % world.oracle.topology.nodes[node].lanes
    log = world.watch.kafka_of(topic).topics[topic].logs[lane]
    offset = 0
    for record in log.entries:
        value = None if record is None else record.value()
        told = None if value is None else decode_fact(value)
        if isinstance(told, SourceAt) and told.at == at:
            offset = told.next
    return offset


def _wrong_interest(world: SwarmWorld) -> Iterator[str]:
    wishes: dict[str, list[str]] = {node: [f"$node/u-{node}"] for node in world.topology.nodes}
    for wish in world.watch.wishes:
        if wish.ended is None:
            wishes[wish.node].append(wish.filter_)
    for name, worker in world.workers.items():
        assert worker.machine is not None
        node = name.partition("/")[0]
        held = {
            (filter_, member.name if member.zone else "")
            for filter_, members in worker.machine.router.table.entries.items()
            for member, _ in members
        }
        held = {(filter_, by if by in world.topology.nodes else "") for filter_, by in held}
        truth = world.oracle.interest(wishes, node)
        if held != truth:
            yield f"{name}: missing {sorted(truth - held)}, too much {sorted(held - truth)}"


def judge(world: SwarmWorld) -> int:
    """Compare what was delivered with what must and what may be.

    Returns:
        How many guaranteed messages had to come to a guaranteed endpoint, and did.

    Raises:
        ViolationError: They do not agree.
    """
    watch = world.watch
    kinds = {step.word for step in world.plan.faults}
    is_accounted = any(reason in ACCOUNTS for reason, _ in watch.refused)
    # A direct endpoint of a node that is down wants nothing, of either class.
    is_accounted |= world.reached["neighbour.down"] > 0
    owed = 0
    is_told = not kinds & LOSSY and world.damage is None and world.operators is None
    for wish in watch.wishes:
        seen = watch.delivered.get((wish.node, wish.endpoint), {})
        lost_here: Counter[str] = Counter()
        for message in watch.messages():
            if not naive_matches(wish.filter_, message.subject):
                continue
            if not is_owed(world, wish, message):
                continue
            if message.name in seen:
                owed += MessageClass.DIRECT not in (wish.of, message.of)
                continue
            if _is_excused(world, wish, message):
                continue
            if MessageClass.DIRECT in (wish.of, message.of):
                if message.node == wish.node:
                    lost_here[world.oracle.names.ingress(wish.node, message.of)] += 1
                if is_accounted:
                    world.reached["direct message discarded with account"] += 1
                    continue
                if kinds & LOSSY or world.damage is not None or world.operators is not None:
                    world.reached["direct message lost"] += 1
                    continue
                rule = "direct lost without account"
            else:
                rule = "lost"
            raise ViolationError(rule, f"{message} not at {wish}")
        for ingress, count in lost_here.items() if is_told else ():
            told = sum(n for (_, topic), n in watch.refused.items() if topic == ingress)
            if count > told:
                text = f"{count} of {ingress} not at {wish}, {told} are accounted for"
                raise ViolationError("direct lost without account", text)
    for fault in watch.book.given_up() if watch.book is not None else ():
        raise ViolationError("given up in silence", fault)
    if world.strangers is not None:
        world.strangers.finish()
    for topic, seen in watch.carried.items():
        sender, reader, _ = world.oracle.outboxes[topic]
        for message in seen.values():
            wanting = [w.node for w in watch.wishes if naive_matches(w.filter_, message.subject)]
            if not world.oracle.may_carry(message, sender, reader, wanting):
                raise ViolationError("unwanted on a link", f"{message} on {topic}")
    return owed


def judge_delay(world: SwarmWorld) -> None:
    """Have nothing wait for what does not concern it.

    Raises:
        ViolationError: Something that is owed is late, and nothing but strangers disturbs the mesh.
    """
    strangers = world.strangers
    if strangers is None or not strangers.is_calm:
        return
    soon = world.clock.ms - PROMPT_MS
    for wish in world.watch.wishes:
        seen = world.watch.delivered.get((wish.node, wish.endpoint), {})
        for message in world.watch.messages():
            is_due = message.at <= soon and message.name not in seen
            if not is_due or MessageClass.DIRECT in (wish.of, message.of):
                continue
            if not naive_matches(wish.filter_, message.subject) or not is_owed(
                world, wish, message
            ):
                continue
            if not strangers.is_late(message, wish.node, wish.endpoint):
                text = f"{message} not at {wish} after {world.clock.ms - message.at} ms"
                raise ViolationError("stood still", text)


def _is_excused(world: SwarmWorld, wish: Wish, message: Message) -> bool:
    """Return whether a message may be missing, because its endpoint was told of that."""
    book = world.watch.book
    if book is None:
        return False
    if message.payload in book.vanished:
        return True
    is_told = book.is_told(wish.node, wish.endpoint, message)
    world.reached["message lost with a word"] += is_told
    return is_told


def is_owed(world: SwarmWorld, wish: Wish, message: Message) -> bool:
    """Return whether a message must come: its origin has cut for it, or it is settled. K25."""
    if wish.ended is not None:
        return False
    if message.node != wish.node and not world.oracle.leads(message, wish.node):
        return False
    if isinstance(world.oracle, Eras):
        return world.oracle.is_owed(message, wish)
    if wish.settled_ms is not None and message.at > wish.settled_ms:
        return True
    uuid = f"u-{wish.node}"
    known = [
        offset
        for position, about, offset in world.watch.cuts.get(message.identity[:2], ())
        if about == uuid and position <= message.identity[2]
    ]
    return bool(known) and known[-1] >= wish.offset
