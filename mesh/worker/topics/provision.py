"""Creates the Kafka topics of one node, and sets their settings. Spec: K5, K6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from mesh.errors import StartError, TransportDeniedError
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import (
    CLIENT_TIME,
    FOREVER,
    made_for_other_lanes,
    node_topics,
)
from mesh.transport.port import Admin, TopicSpec

log = structlog.get_logger()

MAKE_MS = 1_000
"""How long changes of interest wait for the topic of a new endpoint; after that it is left out."""

_ANY_TIME = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""A publisher's time stamp is passed on as it is. Brokers of 4.0 and later by default refuse one
that is more than an hour ahead of their clock: a message that another Kafka cluster has accepted,
and every message once a broker's clock is set back. Brokers older than 3.6 know no such limit."""

_PROMISED = ("max.message.bytes", "retention.ms", "retention.bytes")
"""Settings on which promises depend; for direct messages only the first."""

_POLICY = "cleanup.policy"
"""The same for topics in which the newest record of each key is to stay."""


def create_each(admin: Admin, specs: Sequence[TopicSpec]) -> Mapping[str, str]:
    """Create topics that do not exist yet, even if the brokers refuse some of them.

    Returns:
        Those that were refused, with the brokers' messages.

    Raises:
        TransportUnavailableError: The brokers do not answer.
    """
    try:
        admin.create(specs)
    except TransportDeniedError as error:
        if len(specs) > 1:  # which of them it is shows one by one
            return {name: why for one in specs for name, why in create_each(admin, [one]).items()}
        refused = {specs[0].name: str(error)}
    else:
        return {}
    log.error("topic.refused", topic=specs[0].name, fault=refused[specs[0].name])
    return refused


def make_node_topics(admin: Admin, topology: Topology, node: str) -> None:
    """Create what a node owns except its endpoints; dispensable topics may be refused.

    Those are what a single link, its own publishers or subscribers, the tree layer or people
    need: they are requested again while the node runs. `progress` is created first, and never
    beside an existing `control`: that node has run before, and with no progress it would start
    from the beginning.

    Raises:
        StartError: They were created for another number of lanes.
        TransportDeniedError: The brokers refuse a topic without which the node serves nobody.
        TransportUnavailableError: They do not answer.
    """
    names = TopicNames(topology.prefix)
    control, progress = names.control(node), names.progress(node)
    vital = (
        *(control, names.learned(node), progress, names.ledger(node)),
        *(names.dead_letters(node), names.lanes(node), names.config()),
    )
    specs = node_topics(topology, node)
    found = admin.describe([*vital])
    if (fault := made_for_other_lanes(topology, node, found)) is not None:
        raise StartError("; ".join(fault))
    if control in found and progress not in found:
        log.error("progress.missing", topic=progress)
        specs = [spec for spec in specs if spec.name != progress]
    first = [spec for spec in specs if spec.name == progress]
    refused = create_each(admin, first) if first else {}
    refused = {**refused, **create_each(admin, [spec for spec in specs if spec not in first])}
    for topic in vital:
        if topic in refused:
            raise TransportDeniedError(refused[topic], topics=[topic])


def set_to_keep(admin: Admin, specs: Sequence[TopicSpec]) -> Mapping[str, str]:
    """Correct the settings that promises depend on, of topics that were created otherwise.

    A client may have created an endpoint's topic by reading it, or it was created for direct
    messages, with their retention: unread guaranteed ones would be deleted there unnoticed. A
    topic that keeps more than required stays as it is: it may hold what is not read yet.

    Returns:
        Topics that could not be set, with the brokers' messages.

    Raises:
        TransportError: The brokers do not answer.
    """
    found = admin.settings([spec.name for spec in specs])
    refused: dict[str, str] = {}
    for spec in specs:
        known = found.get(spec.name, {})
        limits = _ANY_TIME if CLIENT_TIME.items() <= spec.settings.items() else {}
        settings = {**spec.settings, **{key: limits[key] for key in limits.keys() & known}}
        wanted = {
            key: value
            for key, value in settings.items()
            if known.get(key) != value and not _keeps_more(key, value, known.get(key, ""))
        }
        if spec.name in found and wanted:
            try:
                admin.change(spec.name, wanted)
            except TransportDeniedError as error:
                refused[spec.name] = str(error)
    return refused


def set_node_topics(admin: Admin, topology: Topology, node: str) -> None:
    """Make topics of a node that somebody else created keep and accept all that they must.

    An ingress or outbox that accepts less than the largest message would refuse some that were
    accepted, and one that Kafka deletes from would lose them. So would a topic in which the
    newest record of each key is to stay: brokers create `clients` for whoever subscribes before
    the node's first start, and delete from it after a week. What may not be set is logged;
    `mesh doctor` says the same, and what to do. Spec: K5, K6, kafka.md 1.

    Raises:
        TransportUnavailableError: The brokers do not answer.
    """
    names, neighbours = TopicNames(topology.prefix), topology.neighbours(node)
    specs = node_topics(topology, node)
    compacted = [spec.name for spec in specs if spec.settings.get(_POLICY) == "compact"]
    data = {
        name: _PROMISED if one is MessageClass.GUARANTEED else _PROMISED[:1]
        for one in MessageClass
        for name in (
            names.ingress(node, one),
            *(names.outbox(node, other, one) for other in neighbours),
        )
    }
    # One kind after the other: the right to look at these may exist without that for those.
    for keys in (data, dict.fromkeys(compacted, (_POLICY,))):
        promised = [
            replace(spec, settings={key: spec.settings[key] for key in keys[spec.name]})
            for spec in specs
            if spec.name in keys
        ]
        try:
            refused = set_to_keep(admin, promised)
        except TransportDeniedError as error:
            log.warning("topics.not_compared", fault=str(error))
            continue
        for topic, fault in refused.items():
            log.error("topic.unsafe", topic=topic, fault=fault, text="`mesh doctor` tells")


def _keeps_more(key: str, wanted: str, known: str) -> bool:
    """Return whether a setting keeps or accepts at least what another would."""
    if not known.lstrip("-").isdecimal() or not wanted.lstrip("-").isdecimal():
        return False
    limit = key.startswith("retention.") and known == FOREVER
    return limit or (wanted != FOREVER and int(known) >= int(wanted))
