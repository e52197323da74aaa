"""What a node offers and where: scopes, their readers, and the entries in them.

Spec: DESIGN 3, K22, K26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from mesh.core.forwarding import offers, ownership_after, scope_is_per_link
from mesh.core.interest import InterestTable, Member, Members, union
from mesh.core.joins import row_over
from mesh.core.local_links import LocalLink
from mesh.model.control import Interest, Ownership, Scope, is_address
from mesh.model.topology import ZoneKind
from mesh.node.queues import is_offered


def scopes_of(links: Sequence[LocalLink]) -> Sequence[Scope]:
    """Return the scopes in which a node with these links offers interest. Spec: K22."""
    scopes: dict[Scope, None] = {}
    for link in links:
        reader = link.neighbour if scope_is_per_link(link.kind) else ""
        for ownership in Ownership:
            if offers(link.kind, learned_on_zone=False, learned_on_link=False, ownership=ownership):
                scopes[Scope(link.zone, reader, ownership)] = None
            for row in link.back:
                scopes[Scope(link.zone, link.neighbour, ownership, row)] = None
    return sorted(scopes)


def link_of(links: Sequence[LocalLink], scope: Scope) -> LocalLink:
    """Return a link that a scope is offered on; all of its zone follow the same rule."""
    return next(link for link in links if link.zone == scope.zone)


def readers_of(links: Sequence[LocalLink], scope: Scope) -> Sequence[str]:
    """Return the neighbours that read a scope."""
    return [
        link.neighbour
        for link in links
        if link.zone == scope.zone and scope.neighbour in ("", link.neighbour)
    ]


def scopes_fed(links: Sequence[LocalLink], learned_on: LocalLink, scope: Scope) -> Sequence[Scope]:
    """Return the scopes in which interest learned in a neighbour's scope is offered onward."""
    ownership = ownership_after(learned_on.kind, scope.ownership)
    member = Member(learned_on.zone, learned_on.neighbour, ownership, scope.row)
    return scopes_offering(links, member)


def scopes_offering(links: Sequence[LocalLink], member: Member) -> Sequence[Scope]:
    """Return the scopes in which a member's interest is offered."""
    by_zone = {link.zone: link for link in links}
    return [fed for fed in scopes_of(links) if _is_offered(member, fed, by_zone[fed.zone])]


def offered(filter_: str, members: Members, scope: Scope, link: LocalLink) -> Interest | None:
    """Return the offer for a filter with these members in a scope, or None.

    Over joins only addresses are offered, and nothing that is local here. Spec: K22, K26, EMS-11,
    DESIGN 3.
    """
    if link.locals.hides(filter_):
        return None
    if link.kind is ZoneKind.JOIN and not is_address(filter_):
        return None
    return union(
        interest
        for member, interest in members
        if is_offered(filter_, member) and _is_offered(member, scope, link)
    )


def differing(
    touched: Mapping[str, Members], table: InterestTable, scope: Scope, link: LocalLink
) -> Sequence[tuple[str, Interest | None, Interest | None]]:
    """Return (filter, before, after) where the offers in a scope change, sorted.

    Thousands of filters share the same members object: its value in this scope is computed once.
    Local filters, and addresses, differ from one another.

    Args:
        touched: Filters whose members changed, with their earlier members.
        table: What is in force now.
        scope: Where it is offered.
        link: A link that the scope is offered on.
    """
    worth: dict[int, Interest | None] = {}
    found = []
    for filter_, was in touched.items():
        interests = []
        for members in (was, table.members(filter_)):
            if filter_.startswith("$") or link.locals.hides(filter_):
                interests.append(offered(filter_, members, scope, link))
                continue
            key = id(members)
            if key not in worth:
                worth[key] = offered(filter_, members, scope, link)
            interests.append(worth[key])
        before, after = interests
        if before != after:
            found.append((filter_, before, after))
    return sorted(found, key=itemgetter(0))


def _is_offered(member: Member, scope: Scope, link: LocalLink) -> bool:
    if member.noexport:
        return False
    if link.kind is ZoneKind.JOIN:
        return (
            member.ownership is scope.ownership
            and member.zone != scope.zone
            and link.into is not None
            and row_over(member.row, link.into.hops) == scope.row
        )
    return member.ownership is scope.ownership and offers(
        link.kind,
        learned_on_zone=member.zone == scope.zone,
        learned_on_link=member.zone == scope.zone and member.name == scope.neighbour,
        ownership=member.ownership,
    )
