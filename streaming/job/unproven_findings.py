"""What nothing can be certified about, as findings: it was not read."""

from __future__ import annotations

from mesh.model.findings import FindingKind
from streaming.audits.finding_register import Finding, records
from streaming.audits.interest import EndpointKey
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of


def spoiled(prefix: str, place: TopicPartition, first: int, last: int, reason: str) -> Finding:
    """Return that records cannot be read or judged, and are left out."""
    where = records(place, first, last)
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{where} cannot be read or judged ({reason}) and is left out: nothing is certified"
        " about what is there",
        ids=(where,),
        link=place_of(prefix, place.topic).link,
        source=str(place),
        first=first,
        last=last,
        count=last - first + 1,
        anchor=f"spoiled@{first}",
        evidence=(where,),
    )


def recreated(prefix: str, place: TopicPartition, topic_id: str, unread: int) -> Finding:
    """Return that a topic was recreated."""
    where = records(place, 0, unread - 1) if unread else str(place)
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{place} was recreated: nothing more is certified about the former topic, nor about"
        f" the first {unread} records of this one, which were not read",
        ids=(where,),
        link=place_of(prefix, place.topic).link,
        source=str(place),
        first=0 if unread else None,
        last=unread - 1 if unread else None,
        count=unread,
        anchor=f"again {topic_id}",
    )


def deleted(prefix: str, place: TopicPartition, first: int, last: int) -> Finding:
    """Return that records were deleted before they were read."""
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{place} was deleted up to {last}, and the auditor had read it up to {first} only:"
        " nothing is certified about what lies between",
        ids=(f"{place}@{first}-{last}",),
        link=place_of(prefix, place.topic).link,
        source=str(place),
        first=first,
        last=last,
        count=last - first + 1,
        anchor=f"deleted@{first}",
    )


def uncrossed(prefix: str, place: TopicPartition, first: int, last: int) -> Finding:
    """Return that frames of direct messages were deleted before they were read.

    Brokers bound such a topic by bytes, so one that is read late loses some again and again: that
    is one finding.
    """
    where = records(place, first, last)
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{place} was deleted before it could be read: whether direct messages in it looped,"
        " went a way that the topology does not have, or crossed the link once more later, nobody"
        " knows",
        ids=(where,),
        link=place_of(prefix, place.topic).link,
        source=str(place),
        first=first,
        last=last,
        count=last - first + 1,
        anchor="deleted",
        evidence=(where,),
    )


def compacted(place: TopicPartition, first: int, last: int, count: int) -> Finding:
    """Return that records may have been compacted away before they were read.

    Args:
        place: The ingress partition.
        first: Lowest offset of which some are not there.
        last: Highest one.
        count: How many are not there.
    """
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{place.topic} may be compacted, and there are fewer records than offsets: what is"
        " not there was published for all that is known, so nothing is certified about it; `mesh"
        " doctor` tells how to have the topic keep all",
        ids=(records(place, first, last),),
        source=str(place),
        first=first,
        last=last,
        count=count,
        anchor="compacted",
    )


def unpromised(endpoint: EndpointKey, *, is_other: bool = True) -> Finding:
    """Return that nothing is owed to a queue any more, because of the topology.

    Args:
        endpoint: The queue.
        is_other: Whether it had another policy or home; else nobody knows which it had.
    """
    then = "until it subscribes again nothing is certified of it"
    former = f"the topology by which {endpoint} subscribed is no longer in mesh.config"
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"the topology has another policy or home for the queue {endpoint} than when it"
        f" subscribed: {then}"
        if is_other
        else f"{former}, and may have had another policy or home for this queue: {then}",
        ids=(str(endpoint),),
        endpoint=str(endpoint),
        anchor="policy",
        node=endpoint.node,
    )
