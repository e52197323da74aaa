"""Where a queue's messages move, against the words: by ways counted by hand, until all is read."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.config.topology_file import topology_from_mapping
from mesh.core.moving import WINDOW, Part, is_client, room_for, target_of
from mesh.core.queues import Nearness
from mesh.model.demands import QueueDemand
from mesh.model.topology import Topology
from tests.property.effort import examples
from tests.sim.meshes import naive_ways, random_legal_topology

QUEUE = "jobs"
ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def open_ways(topology: Topology, node: str) -> Mapping[str, Sequence[str]]:
    """Return the ways on which guaranteed messages come, by where they end. Spec: DMR-11."""
    closed = [
        set(link.ends)
        for zone in topology.zones.values()
        if zone.direct_only
        for link in zone.links
    ]
    return {
        way.nodes[-1]: way.nodes
        for way in naive_ways(topology, node)
        if not any(set(step) in closed for step in pairwise(way.nodes))
    }


def places(
    part: Part,
    consumers: int,
    rooms: Mapping[str, int],
    home: str | None,
    ways: Mapping[str, Sequence[str]],
) -> set[str | None]:
    """Return where messages may go by the words of the design; among equals any will do."""
    wanting = {name: len(ways[name]) - 1 for name in rooms if rooms[name] > 0 and name in ways}
    best: set[str | None] = set()
    match part:
        case Part.PROXY if not consumers and home in ways:
            best = {home}
        case Part.HOME:
            near = {name: rooms[name] for name, links in wanting.items() if links == 1}
            best = {name for name in near if near[name] == max(near.values())}
        case Part.ANY if not consumers:
            best = {name for name in wanting if wanting[name] == min(wanting.values())}
    return best or {None}


@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_messages_go_where_the_words_say(seed: int) -> None:
    """Whatever was heard first; over no link that guaranteed messages may not cross. EMS-12."""
    rng = random.Random(seed)
    topology = random_legal_topology(rng, nodes_max=6)
    shut = rng.choice([0, 0.3])
    zones = {
        name: replace(zone, direct_only=rng.random() < shut)
        for name, zone in topology.zones.items()
    }
    topology = replace(topology, zones=zones)
    for node in topology.nodes:
        near, ways = Nearness(topology, node), open_ways(topology, node)
        others = [way.nodes[-1] for way in naive_ways(topology, node)]
        for part in Part:
            chosen = rng.sample(others, rng.randint(0, len(others)))
            rooms = {name: rng.choice([0, 1, 5, 500, 1 << 62]) for name in chosen}
            home = rng.choice([None, *others])
            consumers = rng.choice([0, 1, 9])
            demands = [QueueDemand(QUEUE, name, 1, 1, room) for name, room in rooms.items()]
            target = target_of(part, consumers, demands, home, near)
            assert target in places(part, consumers, rooms, home, ways)
            rng.shuffle(demands)
            assert target_of(part, consumers, demands, home, near) == target


ROW = topology_from_mapping(
    {
        "kafka": {"k": None},
        "nodes": {name: {"kafka": "k"} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["c", "d"]]}},
    }
)
ANYWHERE = dict.fromkeys("abcd", Part.ANY)
AT_HOME = {"a": Part.PROXY, "b": Part.HOME, "c": Part.PROXY}
AMOUNTS = st.sampled_from([0, 0, 1, WINDOW // 2, 2 * WINDOW + 1])


@given(
    parts=st.sampled_from([ANYWHERE, AT_HOME]),
    amounts=st.lists(AMOUNTS, min_size=4, max_size=4),
    crowds=st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=4),
)
def test_every_message_is_read_if_anybody_reads(
    parts: dict[str, Part], amounts: list[int], crowds: list[list[int]]
) -> None:
    """Consumers come and go; never is more ahead of them than a window. Spec: DESIGN 6, EMS-12."""
    waiting = dict(zip(parts, amounts, strict=False))
    near = {node: Nearness(ROW, node) for node in parts}
    read = 0
    for crowd in crowds:
        consumers = dict(zip(parts, crowd, strict=False))
        for _ in range(2 + 4 * len(parts) * (2 * WINDOW + 1) // (WINDOW // 2)):
            moved = 0
            for node, part in parts.items():
                rooms = {one: room_for(consumers[one], waiting[one]) for one in parts}
                demands = [
                    QueueDemand(QUEUE, one, 1, 1, rooms[one]) for one in parts if one != node
                ]
                home = "b" if parts is AT_HOME else None
                target = target_of(part, consumers[node], demands, home, near[node])
                if target is None or not waiting[node]:
                    continue
                count = waiting[node] if part is Part.PROXY else min(waiting[node], rooms[target])
                assert count
                assert consumers[target] or part is Part.PROXY
                waiting[node] -= count
                waiting[target] += count
                assert part is Part.PROXY or waiting[target] <= WINDOW // 2
                moved += count
            done = read_some(waiting, consumers, some=WINDOW // 4)
            read += done
            if not moved and not done:
                break
        else:
            raise AssertionError("messages move for ever")
    assert read + sum(waiting.values()) == sum(amounts[: len(parts)])
    assert not any(consumers.values()) or not sum(waiting.values())


def read_some(waiting: dict[str, int], consumers: Mapping[str, int], *, some: int) -> int:
    """Have the consumers of each node read so many messages; return how many that were."""
    taken = {node: min(waiting[node], some) for node in waiting if consumers[node]}
    for node, count in taken.items():
        waiting[node] -= count
    return sum(taken.values())


@given(consumers=st.integers(0, 1 << 62), waiting=st.integers(0, 1 << 62) | st.integers(0, WINDOW))
def test_a_demand_and_the_one_before_it_fit_into_the_window(consumers: int, waiting: int) -> None:
    """As many as fit beside what waits, if as many again are under way. Spec: DESIGN 6."""
    room = room_for(consumers, waiting)
    fitting = [n for n in range(WINDOW + 1) if waiting + n <= WINDOW / 2]
    assert room == (max(fitting, default=0) if consumers else 0)


NAMES = st.text(ALNUM + "-", max_size=3) | st.sampled_from(["n" * 64, "n" * 65, "é", "a_b", "a\n"])


@given(
    begin=st.sampled_from(["", "", "mesh-", "mesh-", "mesh", "Mesh-", "my-"]),
    name=NAMES,
    end=st.sampled_from(["mover", "-mover", "-mover", "-mover\n", "-movers", "-Mover", ""]),
)
def test_only_what_the_mesh_names_so_is_a_mover(begin: str, name: str, end: str) -> None:
    """`mesh-NODE-mover`, or without the node; whoever ends theirs alike is a client. EMS-12."""
    client_id = begin + name + end
    node = client_id.removeprefix("mesh-").removesuffix("-mover")
    is_name = 0 < len(node) <= 64 and set(node) <= {*ALNUM, "-"} and node[0] in ALNUM
    is_named = client_id == f"mesh-{node}-mover" and is_name
    assert is_client(client_id) == (not is_named and client_id not in ("mover", "mesh-mover"))
