"""Small meshes at rest, and what scenarios do with them. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    AnswerGiven,
    Delivered,
    Refused,
)
from mesh.model.tree_frames import Body, Frame
from mesh.trees.inputs import FrameRead
from mesh.trees.settings import Settings
from tests.sim.trees.rules import (
    check_call,
    check_quiet,
    inside,
)
from tests.sim.trees.world import (
    APP,
    Call,
    World,
)

LINE = (("a", "b"), ("b", "c"))
LONG = (*LINE, ("c", "d"))
SQUARE = (*LONG, ("d", "a"))


STAR = tuple(("a", leaf) for leaf in "bcdef")


REALMS = {"a": "r1", "b": "r1", "c": "r2"}


def world(wires=LINE, *, roles: str = "", **options) -> World:
    """Make a mesh at rest; `roles` is `NODE...` that hold r."""
    made = World(wires, **options)
    made.run()
    for node in roles:
        made.role(node, "r")
    made.run()
    return made


def late_route(**options) -> World:
    """Make a mesh in which a message of s finds x only by a way that appears behind it.

    s knows x through f, which has lost it; m, which hosts r too, could reach it and does not know.
    So m has answered and closed its record when the recovery of f teaches it the way.
    """
    settings = Settings(ping_ms=0, copies_trees=False)
    wires = (("s", "f"), ("s", "m"), ("f", "x"))
    made = world(wires, roles="mx", settings=settings, **options)
    for node in ("s", "m"):
        ask(made, node), ask(made, node)
    made.heal("m", "x")
    made.run()
    made.cut("f", "x")
    made.run()
    return made


def ask(mesh: World, node: str, role: str = "r", **options) -> Call:
    """Send, wait until all is quiet, check every rule."""
    call = mesh.send(node, role, **options)
    mesh.run()
    check_quiet(mesh)
    check_call(mesh, call)
    return call


def kinds(call: Call) -> list[tuple[str, bool]]:
    """Return what the sender saw, in order."""
    return [(one.kind.value, one.is_last) for one in call.answers]


def hold_answers(mesh: World) -> list[tuple[str, Delivered]]:
    """Let applications answer when the test says so."""
    held: list[tuple[str, Delivered]] = []
    mesh.answers_of = lambda node, delivered: held.append((node, delivered))
    return held


def answer(mesh: World, held: tuple[str, Delivered], payload: bytes = b"x", **how) -> list:
    """Answer for an application."""
    node, delivered = held
    return mesh.step(node, AnswerGiven(APP, delivered.mid, payload, **how))


def codes(outputs: list) -> list[str]:
    """Return why things were refused."""
    return [one.code for one in outputs if isinstance(one, Refused)]


def said(mesh: World, peer: str, node: str, body: Body) -> list:
    """Give a node a frame that a stranger wrote in its neighbour's place; the link restarts."""
    end = inside(mesh, node).links[peer]
    return mesh.step(node, FrameRead(peer, Frame(end.theirs, end.read + 1, body)))
