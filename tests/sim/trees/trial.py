"""One random trial: a mesh, a life full of trouble, and quiet checks, all from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mesh.model.tree_apps import ExclusiveCleared, TreeEvicted
from mesh.model.trees import tree_id
from mesh.trees.settings import Profile, Settings
from tests.sim.trees.rules import check_always, check_call, check_quiet, hosts
from tests.sim.trees.world import BUILDING, Call, World, address

TREES = ("t", "u")
ROLES = ("s1", "s2", "x1")
"""Roles whose names begin with x are held alone."""


SWAPS = 8
"""Seeds that end so move links."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a trial tells: how much it did, and a digest of every output.

    Attributes:
        missed: Calls that missed somebody who was connected all the time, without a null.
    """

    calls: int
    quiet_calls: int
    frames: int
    missed: int
    digest: str


def run_trial(seed: int, nodes_max: int = 9, profile: Profile = Profile.HARD) -> Result:
    """Run a trial.

    Args:
        seed: Decides everything.
        nodes_max: At most this many nodes.
        profile: By which rules.

    Raises:
        RuleBrokenError: an invariant does not hold.
    """
    random = Random(seed)
    live = _swap if seed % 10 == SWAPS else _weave if seed % 2 else _storm
    return live(random, seed, nodes_max, profile)


def _swap(random: Random, seed: int, nodes_max: int, profile: Profile) -> Result:
    """Move links of a mesh that has one way between any two nodes, all of it warm.

    So what is under way learns of the new way from the recovery of another branch alone. H9.
    """
    world, names = _make(random, seed, nodes_max, profile, is_bare=True)
    world.run()
    for _ in range(random.randint(2, 4)):
        world.role(random.choice(names), random.choice(ROLES[:2]))
    world.run()
    for node in names:
        _ask_all(world, node)
    for _ in range(random.randint(3, 12)):
        _move_link(random, world, names)
        for node in random.sample(names, min(len(names), random.randint(1, 4))):
            _ask_all(world, node)
    return _result(world, len(world.calls))


def _ask_all(world: World, node: str) -> None:
    for role in ROLES[:2]:
        call = world.send(node, role)
        world.run()
        check_quiet(world)
        check_call(world, call)


def _move_link(random: Random, world: World, names: list[str]) -> None:
    """Link two nodes, then cut a link of the way that there was between them."""
    apart = [
        (a, b) for a in names for b in names if a < b and len(_way(world, a, b)) > 2
    ]  # fmt: skip
    if not apart:
        return
    a, b = random.choice(apart)
    way = _way(world, a, b)
    world.heal(a, b)
    world.run()
    at = random.randrange(len(way) - 1)
    world.cut(way[at], way[at + 1])
    world.run()


def _way(world: World, a: str, b: str) -> list[str]:
    """Return the nodes on the shortest way over links that work."""
    came_from, front = {a: a}, [a]
    for one in front:
        for peer in world.peers(one):
            if peer not in came_from and world.wires[frozenset((one, peer))].works:
                came_from[peer] = one
                front.append(peer)
    way = [b]
    while way[-1] != a:
        way.append(came_from[way[-1]])
    return way


def _weave(random: Random, seed: int, nodes_max: int, profile: Profile) -> Result:
    """Cut and mend links of a dense mesh that mostly stays whole, so that no heal repairs tables."""
    world, names = _make(random, seed, nodes_max, profile, dense=True)
    world.run()
    quiet = 0
    for _ in range(random.randint(1, 4)):
        world.role(random.choice(names), random.choice(ROLES[:2]))
    for _ in range(random.randint(8, 25)):
        kinds = {_cut: 5, _heal: 5, _send: 6, _add: 1, _remove: 1}
        random.choices(list(kinds), list(kinds.values()))[0](random, world)
        if random.random() < 0.4:
            world.run()
            check_quiet(world)
            check_call(world, _ask(random, world))
            quiet += 1
        else:
            world.run(for_ms=random.randint(0, 90))
    world.run()
    check_quiet(world)
    for node in names:
        check_call(world, _ask(random, world, node))
    check_quiet(world)
    return _result(world, quiet + len(names))


def _result(world: World, quiet: int) -> Result:
    frames = sum(world.frames.values())
    return Result(len(world.calls), quiet, frames, world.churn[True], world.digest.hexdigest())


def _ask(random: Random, world: World, node: str = "") -> Call:
    call = _send(random, world, node)
    world.run()
    return call


def _storm(random: Random, seed: int, nodes_max: int, profile: Profile) -> Result:
    """Everything that can happen, at any moment."""
    world, names = _make(random, seed, nodes_max, profile)
    evicted = False
    world.run()
    for _ in range(random.randint(15, 50)):
        evicted |= _trouble(random, world, names)
        if random.random() < 0.2:
            world.run()
            check_quiet(world, evicted=evicted)
        else:
            world.run(for_ms=random.randint(0, 150))
            check_always(world)
    for a, b in [sorted(wire) for wire in world.wires]:
        if random.random() < 0.5:
            world.heal(a, b)
    world.run()
    check_quiet(world, evicted=evicted)
    quiet = random.randint(5, 12)
    for _ in range(quiet):
        call = _ask(random, world)
        check_quiet(world, evicted=evicted)
        check_call(world, call)
    return _result(world, quiet)


def builder_frames(world: World) -> int:
    """Return how many frames maintained tables so far."""
    return sum(world.frames[kind] for kind in BUILDING)


def _make(
    random: Random,
    seed: int,
    nodes_max: int,
    profile: Profile,
    *,
    dense: bool = False,
    is_bare: bool = False,
) -> tuple[World, list[str]]:
    names = [f"n{number}" for number in range(random.randint(2, nodes_max))]
    wires = [(name, random.choice(names[:at])) for at, name in enumerate(names) if at]
    more = 0 if is_bare else random.randint(0, len(names))
    for _ in range(len(names) + more if dense else more):
        a, b = random.sample(names, 2)
        if (a, b) not in wires and (b, a) not in wires:
            wires.append((a, b))
    count = random.choice((0, 0, 1, 2, 3))
    realms = {name: f"r{random.randrange(count)}" for name in names} if count else {}
    most = None if dense or is_bare else random.choice((None, None, None, 1))
    is_directed = seed // 2 % 2 == 1
    settings = Settings(
        ping_ms=0,
        trees_max=most,
        directed_recovery=is_directed,
        copies_trees=not is_bare,
        profile=profile,
    )
    spies = names[:: seed % 3 + 2] if seed // 4 % 4 == 3 else ()
    return World(wires, seed=seed, realms=realms, settings=settings, spies=spies), names


def _trouble(random: Random, world: World, names: list[str]) -> bool:
    """Do one thing to the mesh; return whether a tree may have been forgotten."""
    kinds = {
        _add: 6, _remove: 2, _cut: 5, _heal: 6, _crash: 2, _start: 4,
        _send: 8, _evict: 1, _move: 2, _clear: 1,
    }  # fmt: skip
    kind = random.choices(list(kinds), list(kinds.values()))[0]
    kind(random, world)
    return kind is _evict or world.settings.trees_max is not None


def _add(random: Random, world: World) -> None:
    if world.nodes:
        role = random.choice(ROLES)
        node = random.choice(list(world.nodes))
        tree = random.choice(TREES)
        world.role(node, role, tree=tree, is_exclusive=role.startswith("x"))


def _remove(random: Random, world: World) -> None:
    where = [(tree, role) for tree in TREES for role in ROLES if hosts(world, address(tree, role))]
    if where:
        tree, role = random.choice(where)
        node = random.choice(list(hosts(world, address(tree, role))))
        world.unrole(node, role, tree=tree)


def _cut(random: Random, world: World) -> None:
    working = [sorted(wire) for wire, state in world.wires.items() if state.works]
    if working:
        world.cut(*random.choice(sorted(working)))


def _heal(random: Random, world: World) -> None:
    broken = [sorted(wire) for wire, state in world.wires.items() if not state.works]
    if broken:
        world.heal(*random.choice(sorted(broken)))


def _crash(random: Random, world: World) -> None:
    if len(world.nodes) > 1:
        world.crash(random.choice(list(world.nodes)))


def _start(random: Random, world: World) -> None:
    down = [name for name in world.epochs if name not in world.nodes]
    if down:
        world.start(random.choice(down))


def _send(random: Random, world: World, node: str = "") -> Call:
    node = node or random.choice(list(world.nodes))
    one_way = random.random() < 0.1
    options = {
        "one_way": one_way,
        "one_instance": not one_way and random.random() < 0.2,
        "one_response": not one_way and random.random() < 0.2,
        "local_realm": bool(world.realms) and random.random() < 0.3,
    }
    return world.send(node, random.choice(ROLES), tree=random.choice(TREES), **options)


def _evict(random: Random, world: World) -> None:
    for node in list(world.nodes):
        if random.random() < 0.5:
            world.step(node, TreeEvicted("", tree_id(random.choice(TREES))))


def _move(random: Random, world: World) -> None:
    held = [(tree, "x1") for tree in TREES if hosts(world, address(tree, "x1"))]
    if held:
        tree, role = random.choice(held)
        node = random.choice(list(world.nodes))
        if node not in hosts(world, address(tree, role)):
            world.send(node, role, tree=tree, payload="give")


def _clear(random: Random, world: World) -> None:
    node = random.choice(list(world.nodes))
    world.step(node, ExclusiveCleared("", address(random.choice(TREES), "x1")))
