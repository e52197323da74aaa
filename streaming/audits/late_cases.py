"""Deliveries of blocks that were certified for good: whose they are is asked all the same.

Nothing is owed of such a block any more, and what it held is forgotten: it is read again for the
little that came late. Whether that is there twice the order of deliveries tells, in one partition
of an endpoint; the others are searched. Spec: K29, K31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.block_judgements import World, claims_of, evidence_of, moved_to
from streaming.audits.cases import Case, endpoint_finding
from streaming.audits.finding_register import Finding
from streaming.audits.late_deliveries import LateDeliveries, LateKey
from streaming.audits.verdicts import wants_of
from streaming.tables.rows import TopicPartition


def late_cases(late: Mapping[LateKey, LateDeliveries], world: World) -> Sequence[Case]:
    """Return late deliveries as cases, in order: nothing is owed, and some are allowed."""
    return [_case(key, one, world) for key, one in late.items()]


def _case(key: LateKey, late: LateDeliveries, world: World) -> Case:
    own = claims_of(key.place, key.endpoint, world)
    claims = [*own, *moved_to(key.place, key.endpoint, late.receipt, world)]
    wants = wants_of(claims, late.first, late.last)
    source = world.names.key(key.place)
    records = {key.endpoint: dict(late.receipt.records)}
    return Case(
        place=key.place,
        source=source,
        block=key.block,
        endpoint=key.endpoint,
        first=late.first,
        last=late.last,
        delivered_last=late.last,
        wants=tuple(want for want in wants if not want.is_must),
        records=records,
        is_passed=True,
        generation=world.progress.generation_of.get(key.place, 0),
        may_move=world.interest.may_move(key.endpoint),
        generations=tuple(world.progress.generations.of(source)),
        evidence=evidence_of(world.progress.prefix, records),
    )


def unreadable(
    late: Mapping[LateKey, LateDeliveries], begins: Mapping[TopicPartition, int]
) -> Iterator[tuple[LateKey, Finding]]:
    """Yield what cannot be judged, for the ingress does not hold it any more, as news."""
    for key, one in list(late.items()):
        if begins.get(key.place, 0) > one.first:
            yield (
                key,
                endpoint_finding(
                    FindingKind.UNPROVEN,
                    f"{key.endpoint} got messages of {key.place} that are deleted there:"
                    " whether they were for it is not known",
                    key.endpoint,
                    key.place,
                    *(one.first, one.last, one.receipt.digest.count),
                    anchor=f"late {key.block}",
                ),
            )


def copy_cases(
    late: Mapping[LateKey, LateDeliveries], cases: Sequence[Case], world: World
) -> Mapping[LateKey, Case]:
    """Return where else in its endpoint's topic a late message may be: once more is twice.

    In one partition the order of deliveries tells; all that was read of the others is looked at.

    Args:
        late: What came.
        cases: Those of `late_cases`, in order.
        world: The other audits.
    """
    found: dict[LateKey, Case] = {}
    for (key, one), case in zip(late.items(), cases, strict=True):
        topic = TopicNames(world.progress.prefix).endpoint(*key.endpoint)
        read = {at.partition: end for at, end in world.read.items() if at.topic == topic and end}
        if any(partition not in one.receipt.records for partition in read):
            records = {partition: (0, end - 1) for partition, end in read.items()}
            found[key] = replace(case, wants=(), records={key.endpoint: records})
    return found
