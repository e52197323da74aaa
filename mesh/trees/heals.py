"""Heals: two parts with different colours meet, and every role that is used again recovers once.

Spec: tree_layer 7.2, 7.3 (H13, H15, H16, H21).
"""

from __future__ import annotations

from mesh.model.tree_apps import ColourReason, Unpartitioned
from mesh.model.tree_frames import ColourSpread, Heal, HealNotice, Hello
from mesh.model.trees import Colour, Extent
from mesh.trees.colours import SCOPES, adopt, colour_of
from mesh.trees.joining import forget_questions
from mesh.trees.node import TreeState
from mesh.trees.publishing import keep_told, publish_exclusives, tell_again


def meet(node: TreeState, link: str, hello: Hello) -> None:
    """Compare colours over a link that has just come up."""
    node.clock.know_somebody()
    if node.colour is not None and node.colour == hello.colour:
        tell_again(node, link)
    compare(node, link, hello)


def compare(node: TreeState, link: str, hello: Hello) -> None:
    """Compare the first colour that a peer names in its session with the one that is held here.

    An undefined side has nothing to lose. Where it joins a part later it says HELLO again, and
    that part meets the reader's then: `mesh.trees.colours.adopt`.
    """
    node.clock.follow(hello.clock)
    named = node.links[link].named
    colours = {Extent.CLOUD: hello.colour, Extent.REALM: hello.realm_colour}
    for scope in SCOPES:
        own, theirs = colour_of(node, scope), colours[scope]
        if (scope is Extent.REALM and node.is_remote(link)) or scope in named:
            continue
        if theirs is not None:
            named[scope] = None
        if own == theirs:
            continue
        if own is not None:
            node.transmit(link, ColourSpread(scope, own))
        if own is not None and theirs is not None:
            raise_heal(node, link, scope, own, theirs, max(own, theirs))
            node.transmit(link, HealNotice(scope, max(own, theirs), own, theirs))
        if theirs is not None and (own is None or theirs > own):
            adopt(node, scope, theirs, ColourReason.HEALED, but=link)


def read_notice(node: TreeState, link: str, said: HealNotice) -> None:
    """Raise the event on this side too: the peer alone may have seen two colours. H13."""
    raise_heal(node, link, said.scope, said.far_colour, said.near_colour, said.colour)


def raise_heal(
    node: TreeState,
    link: str,
    scope: Extent,
    near: Colour | None,
    far: Colour | None,
    merged: Colour,
) -> None:
    """Tell this side of a healed link, once per session of the link.

    What a side was called may not be known: a peer of an earlier release tells the merged colour
    alone, and by then this side may be called so already.
    """
    end = node.links[link]
    if scope in end.heals_told:
        return
    end.heals_told[scope] = None
    heal = Heal(node.ids.fresh(), scope, node.name, link, merged, near, far)
    node.remember_if_new(heal.id)
    _take(node, heal, towards=link)


def read_heal(node: TreeState, link: str, said: Heal) -> None:
    """Take and spread the news of a heal."""
    if said.scope is Extent.REALM and node.is_remote(link):
        node.count("realm heals from outside")
    elif node.remember_if_new(said.id) and not _is_known_from_here(node, said):
        _take(node, said, towards=link)


def _is_known_from_here(node: TreeState, said: Heal) -> bool:
    """Return whether this is the other side's news of what this side was told already."""
    ends = (said.scope, said.far, said.near, said.colour)
    told = (one for _, _, one in node.floods if isinstance(one, Heal))
    return any((one.scope, one.near, one.far, one.colour) == ends for one in told)


def _take(node: TreeState, heal: Heal, towards: str) -> None:
    if heal.scope is Extent.CLOUD:
        _remember(node, heal, towards)
    else:
        for tree in node.trees.values():
            for role in tree.roles.values():
                role.realm.doubt()
    told = Unpartitioned(
        heal.id, heal.scope, heal.near, heal.far, heal.colour, heal.near_colour, heal.far_colour
    )
    node.tell(told)
    keep_told(node, heal.scope, heal)
    for link in node.ways(heal.scope, but=towards):
        node.transmit(link, heal)
    publish_exclusives(node)


def _remember(node: TreeState, heal: Heal, towards: str) -> None:
    """Number a heal; when there are too many of them, all roles recover and counting restarts."""
    node.heals.append((heal, towards))
    if len(node.heals) <= node.settings.heals_max:
        return
    node.heals.clear()
    forget_questions(node)  # what is copied is measured by the former count
    for tree in node.trees.values():
        for role in tree.roles.values():
            role.heals = 0
            for table in role.maps():
                table.doubt()
