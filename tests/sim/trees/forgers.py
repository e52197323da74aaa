"""A stranger writes on the links of a mesh, among all that happens to it; then it stops.

What it writes is what nodes have said, altered: in the place of the next frame, of the last one, or
behind a gap. It may cut links and have messages end with a null. Once it has stopped, and records
have had their time, everything holds that holds without it. Spec: tree_layer 10, 12.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import Any

from mesh.model.tree_apps import Delivered
from mesh.model.tree_frames import Body, Frame, Hello, ReplyKind
from mesh.model.trees import Colour, Extent, InstanceId, MessageId
from mesh.trees.inputs import FrameRead
from mesh.trees.node import TreeState
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_call, check_rest, inside
from tests.sim.trees.trial import Result
from tests.sim.trees.world import RuleBrokenError, World

ROLES = ("s1", "s2", "x1")
"""The last one is held alone."""

SEQS = (1, 2, 1_000, 70_000, (1 << 40) - 1, 1 << 40, 1 << 47, (1 << 48) - 1)
HOPS = (0, 1, 3, 64, 65, 65_535)
AHEAD = (0, 1, 70_000, 1 << 20, 1 << 27)
EPOCHS = (1, 2, 5, 1 << 10, 1 << 17)
QUIET_MS = 70_000
"""Longer than records are kept, and than a made-up session keeps anybody out."""


class Lenient(World):
    """Messages come that nobody has sent, and copies of some that were: they are answered too."""

    def _deliver(self, name: str, output: Delivered) -> None:
        word = output.payload.decode(errors="replace").partition(" ")[0]
        if (call := self.calls.get(word)) is not None:
            call.delivered.append((name, output.iid))
        for given in (self.answers_of(name, output) or ()) if output.wants_answer else ():
            self._later(self.random.randint(0, 30), lambda given=given: self._answer(name, given))


def run_forged(seed: int) -> Result:
    """Run a life of a mesh on which a stranger writes.

    Args:
        seed: Decides everything.

    Raises:
        RuleBrokenError: It has left something behind.
    """
    chance = Random(seed)
    mesh, wires = _make(chance, seed)
    names = list(mesh.nodes)
    for _ in range(chance.randint(10, 60)):
        kind = chance.random()
        if kind < 0.3:
            how = {"one_way": chance.random() < 0.2, "one_instance": chance.random() < 0.2}
            if not all(how.values()):
                mesh.send(chance.choice(names), chance.choice(ROLES), **how)
        elif kind < 0.4:
            (mesh.cut if chance.random() < 0.5 else mesh.heal)(*chance.choice(wires))
        else:
            _forge(chance, mesh, wires)
        mesh.run(for_ms=chance.choice((0, 5, 40, 200, 1_500)))
    for wire in wires:
        mesh.heal(*wire)
    mesh.run(for_ms=QUIET_MS)
    _check(mesh, names)
    counts = (len(mesh.calls), len(names) * len(ROLES), sum(mesh.frames.values()))
    return Result(*counts, mesh.churn[True], mesh.digest.hexdigest())


def _make(chance: Random, seed: int) -> tuple[World, list[tuple[str, str]]]:
    names = [f"n{number}" for number in range(chance.randint(2, 6))]
    wires = [(name, chance.choice(names[:at])) for at, name in enumerate(names) if at]
    for _ in range(chance.randint(0, 4)):
        one, other = chance.sample(names, 2)
        if not {(one, other), (other, one)} & {*wires}:
            wires.append((one, other))
    realms = {name: f"r{chance.randrange(2)}" for name in names} if chance.random() < 0.4 else {}
    settings = Settings(
        record_ms=30_000, sweep_ms=5_000, directed_recovery=chance.random() < 0.3
    )  # fmt: skip
    mesh = Lenient(wires, seed=seed, realms=realms, settings=settings)
    mesh.log = []
    mesh.run(for_ms=1_000)
    for _ in range(chance.randint(3, 7)):
        role = chance.choice(ROLES)
        mesh.role(chance.choice(names), role, is_exclusive=role == ROLES[-1])
    return mesh, wires


def _forge(chance: Random, mesh: World, wires: list[tuple[str, str]]) -> None:
    """Say something that was said, otherwise, perhaps on another link."""
    _, *said, frame = chance.choice((mesh.log or [])[-60:])
    peer, name = chance.choice((said, chance.choice(wires)))
    end = inside(mesh, name).links.get(peer)
    if end is None:
        return
    body = _altered(chance, frame.body, inside(mesh, name))
    place = (end.theirs, end.read + chance.choice((0, 1, 1, 1, 1, 2)))
    if isinstance(body, Hello):
        place = (body.epoch << 32 | chance.choice((1, 5, 1 << 31)), chance.choice((1, 3)))
    mesh.step(name, FrameRead(peer, Frame(*place, body)))


def _altered(chance: Random, body: Body, node: TreeState) -> Body:
    others: dict[str, Any] = {}
    for field in fields(body):
        if chance.random() < 0.5:
            value = _other(chance, field.name, getattr(body, field.name), node)
            others |= {} if value is None else {field.name: value}
    return replace(body, **others)


def _other(chance: Random, name: str, value: object, node: TreeState) -> object:
    """Return another value for a field, None for one that is left as it is."""
    clock = node.clock.value + chance.choice(AHEAD)
    choices: dict[str, list[object]] = {
        "seq": [*SEQS],
        "hops": [*HOPS],
        "epoch": [*EPOCHS],
        "uuid": [f"uuid-n{chance.randrange(6)}"],
        "heard": [0],
        "sent_ms": [0, 1, 1 << 40],
        "hop_ms": [0, 1, 1 << 40],
        "iid": [value, InstanceId(clock << 96 | chance.getrandbits(90))],
    }
    if name in ("id", "mid", "batch", "heal"):
        return chance.choice((value, MessageId(chance.getrandbits(127))))
    if name in choices:
        return chance.choice(choices[name])
    if isinstance(value, bool):
        return chance.random() < 0.5
    if isinstance(value, Colour):
        return Colour(clock, chance.getrandbits(60))
    if isinstance(value, Extent | ReplyKind):
        return chance.choice(list(type(value)))
    return None


def _check(mesh: World, names: list[str]) -> None:
    for name in names:
        if sorted(mesh.nodes[name].links_up) != mesh.peers(name):
            raise RuleBrokenError(f"{name} speaks with {mesh.nodes[name].links_up} alone")
    check_rest(mesh)
    for name in names:
        for role in ROLES:
            for _ in range(3):  # what is stale is found by who follows it
                call = mesh.send(name, role)
                mesh.run(for_ms=6_000)
            check_call(mesh, call)
    check_rest(mesh)
