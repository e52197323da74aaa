"""Links as both ends hold them, against every pair of ends that there is. Spec: K27."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.held_links import (
    End,
    Pair,
    component,
    facts_digest,
    is_open,
    link_back,
    pairs_of,
    peer_of,
)
from mesh.model.links import Gate, GateStatus, HeldLink, NodeLinks
from tests.property.effort import examples

Records = dict[str, NodeLinks]

SEEDS = st.integers(0, 1 << 32)


def drawn(rng: random.Random) -> Records:
    """Records of nodes of few names; some ends know who is at the other, some but its name.

    Some of these are of nodes of which nothing was heard, or of which each end has another idea.
    """
    uuids = [f"u{number}" for number in rng.sample(range(100), rng.randint(1, 6))]
    names = {uuid: rng.choice(["a", "b", "c", "d", "e", "f"]) for uuid in [*uuids, "unheard"]}
    links: dict[str, list[HeldLink]] = {uuid: [] for uuid in names}
    for one in uuids:
        for other in names:
            if one < other and rng.random() < 0.6:
                for at, to in ((one, other), (other, one)):
                    if rng.random() < 0.9:
                        links[at].append(held(rng, names[to], rng.choice([to, to, ""])))
    return {
        uuid: NodeLinks(
            node=names[uuid],
            uuid=uuid,
            cluster_id="k",
            digest="d",
            number=rng.choice([0, 1, 1 << 62]),
            links=of_each_name_one(links[uuid], names[uuid]),
            gates=[
                GateStatus(name, rng.choice(list(Gate))) for name in dict.fromkeys(names.values())
            ],
        )
        for uuid in rng.sample(uuids, len(uuids))
    }


def held(rng: random.Random, neighbour: str, peer: str) -> HeldLink:
    return HeldLink(neighbour, "Z", "multi-hop", rng.choice([0, 1, 7]), peer)


def of_each_name_one(links: list[HeldLink], own: str) -> tuple[HeldLink, ...]:
    """A node has one link to a neighbour of a name, and none to one of its own."""
    by_name = {link.neighbour: link for link in links if link.neighbour != own}
    return tuple(by_name[name] for name in sorted(by_name))


def leads_to(records: Records, link: HeldLink) -> str | None:
    """Whose end the other one is: who is known to be there, else the only node of that name."""
    if link.peer:
        return link.peer if link.peer in records else None
    named = [uuid for uuid, record in records.items() if record.node == link.neighbour]
    return named[0] if len(named) == 1 else None


def joined(records: Records) -> Mapping[End, End]:
    """Each end of a link that leads to another one which leads back."""
    found = {}
    for one in records.values():
        for there in one.links:
            for other in records.values():
                for back in other.links:
                    if (leads_to(records, there), leads_to(records, back)) == (
                        other.uuid,
                        one.uuid,
                    ):
                        found[one.uuid, there.neighbour] = (other.uuid, back.neighbour)
    return found


def ends(records: Records) -> Iterator[tuple[NodeLinks, HeldLink]]:
    for record in records.values():
        for link in record.links:
            yield record, link


@examples(300)
@given(seed=SEEDS)
def test_a_link_is_what_two_ends_hold_of_each_other(seed: int) -> None:
    """The same seen from both, and once in all; a name that two nodes have tells nothing. K27."""
    records = drawn(random.Random(seed))
    both = joined(records)
    for one, link in ends(records):
        peer = peer_of(records, link)
        assert (peer.uuid if peer is not None else None) == leads_to(records, link)
        pair, other = link_back(records, one, link), both.get((one.uuid, link.neighbour))
        assert (pair is None) == (other is None)
        if pair is not None and other is not None:
            assert_is_pair(records, pair, {(one.uuid, link.neighbour), other})
    assert {frozenset(pair.keys) for pair in pairs_of(records)} == {
        frozenset(pair) for pair in both.items()
    }
    assert len(list(pairs_of(records))) * 2 == len(both)


def assert_is_pair(records: Records, pair: Pair, keys: set[End]) -> None:
    """It names its ends in the order of their names, and holds what each of them does."""
    assert set(pair.keys) == keys
    order = [(records[uuid].node, uuid) for uuid in pair.ends]
    assert order == sorted(order)
    links = [records[uuid].link_to(name) for uuid, name in pair.keys]
    assert list(pair.held) == links
    assert pair.version == max(link.version for link in links if link is not None)
    gates = {
        (uuid, gate.neighbour): gate.state for uuid in pair.ends for gate in records[uuid].gates
    }
    opened = [end for end in pair.keys if gates[end] is Gate.OPEN]
    assert is_open(records, pair) == (opened != [])
    assert is_open(records, pair, both=True) == (len(opened) == len(pair.keys))


@examples(300)
@given(seed=SEEDS)
def test_who_is_connected_is_told_alike_by_all_who_are(seed: int) -> None:
    """In whatever order records were heard. Spec: K27."""
    rng = random.Random(seed)
    records = drawn(rng)
    steps = {(one, other) for (one, _), (other, _) in joined(records).items()}
    heard_otherwise = {uuid: records[uuid] for uuid in rng.sample(list(records), len(records))}
    for uuid in records:
        near = {uuid}
        for _ in records:
            near |= {other for one, other in steps if one in near}
        assert list(component(records, uuid)) == sorted(near)
        assert list(component(heard_otherwise, uuid)) == sorted(near)
        for other in near:
            assert component(records, other) == component(records, uuid)


@given(seed=SEEDS)
def test_equal_digests_are_of_equal_facts(seed: int) -> None:
    """Of these nodes alone, by the numbers of what they hold. Spec: K27."""
    rng = random.Random(seed)
    records = drawn(rng)
    some = rng.sample(list(records), rng.randint(0, len(records)))
    digest = facts_digest(records, some)
    assert facts_digest(records, rng.sample(some, len(some))) == digest
    for uuid, record in records.items():
        again = records | {uuid: replace(record, sequence=record.sequence + 1, gates=())}
        assert facts_digest(again, some) == digest
        later = records | {uuid: replace(record, number=record.number + 1)}
        assert (facts_digest(later, some) != digest) == (uuid in some)
        if uuid not in some:
            assert facts_digest(records, [*some, uuid]) != digest
