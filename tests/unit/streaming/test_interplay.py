"""What the auditor claims of queues, selectors, controls and joins together, against an oracle."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from mesh.lab.steps import Publish
from mesh.model.control import EndpointKind, Subscription
from mesh.model.state import Cut
from streaming.audits.eras import Eras
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.queues import QueueRules
from streaming.audits.spans import claims_on
from streaming.tables.rows import SourceKey, TopicPartition
from tests.sim.interplay import Phase, owed, random_interplay
from tests.sim.meshes import naive_ways


def subscribed(phase: Phase) -> SubscriptionHistory:
    """Return the interest of a phase as an auditor that was given its topology has it."""
    interest = SubscriptionHistory(queues=QueueRules.of(phase.topology))
    for offset, wish in enumerate(phase.wishes):
        asked = Subscription(EndpointKind(wish.kind), policy=wish.policy, noexport=wish.noexport)
        interest.subscribe(EndpointKey(wish.node, wish.endpoint), wish.filter, asked, offset)
    return interest


def claimed(
    phase: Phase, interest: SubscriptionHistory, message: Publish
) -> tuple[set[str], set[str]]:
    """Return whom the auditor says a message must come to, and may; all settled long before."""
    place = TopicPartition(f"mesh.{message.node}.in.g", 0)
    eras = Eras.of(phase.topology)
    known = [way.nodes[-1] for way in naive_ways(phase.topology, message.node)]
    for node in (message.node, *known):  # nobody else's address comes here
        interest.lanes.cut(Cut(place.topic, b"", 0, 0, node, len(phase.wishes)))
    endpoints = {one: (one,) for one in interest.certified()} | dict(interest.shared())
    must, may = set[str](), set[str]()
    for endpoint, members in endpoints.items():
        for member in members:
            way = (place, message.node, member.node)
            for claim in claims_on(
                interest,
                member,
                member.node,
                place,
                SourceKey("aa", 0),
                is_local=member.node == message.node,
                carriers=lambda *_: [],
                stretches=eras.stretches(*way),
                of_neighbours=eras.stretches(*way, of_neighbours=True),
                origin=message.node,
            ):
                if claim.concerns(message.subject):
                    (may if claim.span is None else must).add(str(endpoint))
    return must, may


def named(endpoints: Iterable[str], shared: Collection[str]) -> set[str]:
    """Return endpoints as the auditor calls them."""
    ends = [(one, one.partition("/")[2]) for one in endpoints]
    return {f"*/{name}" if name in shared else one for one, name in ends}


@pytest.mark.parametrize("seed", range(24))
def test_what_is_claimed_agrees_with_what_must_happen(seed: int) -> None:
    """No message that must not come is claimed, and none that comes is unexpected. Spec: K31."""
    scenario, [phase] = random_interplay(seed)
    interest = subscribed(phase)
    shared = {one.name for one in interest.shared()}
    for message in [one for one in scenario.steps if isinstance(one, Publish)]:
        must, may = claimed(phase, interest, message)
        found = owed(phase, message)
        certain, possible = named(found.must, shared), named(found.may, shared)
        assert must <= certain, (must, found)
        assert certain | possible <= must | may, (must, may, found)
