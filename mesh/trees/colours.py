"""Colours: one label per connected part of the mesh, another after each link that is lost.

The end of every cut link picks a clock above anything that ever crossed it. So the highest colour
on each side was made there after the last crossing: two parts always end different, and each
part converges to one. Spec: tree_layer 7.1 (H14, H16).
"""

from __future__ import annotations

from mesh.model.tree_apps import ColourChanged, ColourReason
from mesh.model.tree_frames import ColourSpread
from mesh.model.trees import Colour, Extent
from mesh.trees.links import say_hello
from mesh.trees.node import TreeState

SCOPES = (Extent.CLOUD, Extent.REALM)


def colour_of(node: TreeState, scope: Extent) -> Colour | None:
    """Return the colour of the node's part, or of its part of the realm."""
    return node.realm_colour if scope is Extent.REALM else node.colour


def need_colour(node: TreeState) -> None:
    """Make sure of a colour before the node has anything to lose. H14."""
    for scope in SCOPES:
        if colour_of(node, scope) is None and not (scope is Extent.REALM and not node.realm):
            recolour(node, scope, ColourReason.FIRST)


def forget_realm_colour(node: TreeState) -> None:
    """The node is no longer in the part of the realm that was called so."""
    node.realm_colour = None


def recolour_after_loss(node: TreeState, *, was_remote: bool) -> None:
    """Choose another colour because a link is down."""
    recolour(node, Extent.CLOUD, ColourReason.LINK_LOST)
    if not was_remote:
        recolour(node, Extent.REALM, ColourReason.LINK_LOST)


def recolour(node: TreeState, scope: Extent, reason: ColourReason) -> None:
    """Choose a fresh colour for what is still connected."""
    adopt(node, scope, Colour(node.clock.advance(), node.ids.fresh()), reason)


def read_colour(node: TreeState, link: str, said: ColourSpread) -> None:
    """Take a colour that is later than the own one."""
    held = colour_of(node, said.scope)
    if said.scope is Extent.REALM and node.is_remote(link):
        node.count("realm colours from outside")
    elif held is None or said.colour > held:
        adopt(node, said.scope, said.colour, ColourReason.SPREAD, but=link)


def adopt(
    node: TreeState, scope: Extent, colour: Colour, reason: ColourReason, *, but: str | None = None
) -> None:
    """Take a colour and spread it, except to where it came from.

    Whoever has had none has said so in its HELLOs. It says HELLO again where its end is not up yet,
    and, if another part has met it, everywhere: behind it may be a third one that has not met any.
    A colour made in this part is no such news to those who were in it without one.
    """
    old = colour_of(node, scope)
    if scope is Extent.REALM:
        node.realm_colour = colour
    else:
        node.colour = colour
    node.clock.follow(colour.clock + 1)
    node.tell(ColourChanged(scope, old, colour, reason))
    is_joining = old is None and reason is ColourReason.HEALED
    for end in node.links.values():
        if end.peer != but and old is None and (is_joining or not end.is_up):
            say_hello(node, end)
    for link in node.ways(scope, but=but):
        node.transmit(link, ColourSpread(scope, colour))
