"""Messages that leave on links with selectors, looked at one by one. Spec: EMS-14."""

from __future__ import annotations

from collections.abc import Iterable

from mesh.core.routes import Route
from mesh.core.routing import Router
from mesh.transport.port import Headers


def selected(
    router: Router, routes: Iterable[Route], subjects: Iterable[str], headers: Iterable[Headers]
) -> list[Route]:
    """Return the route of each message by its headers, from the routes of their subjects.

    Messages without headers are asked once per subject: they are all alike.

    Args:
        router: Which made the routes.
        routes: Of the messages' subjects, as long as the following.
        subjects: Of each message.
        headers: The clients' own, of each; not looked at where a route does not ask.
    """
    bare: dict[tuple[Route, str], Route] = {}
    found: list[Route] = []
    for route, subject, its_headers in zip(routes, subjects, headers, strict=True):
        if not route.asks:
            found.append(route)
        elif its_headers:
            found.append(router.selected(route, subject, its_headers))
        else:
            known = bare.get((route, subject))
            if known is None:
                known = bare[route, subject] = router.selected(route, subject, ())
            found.append(known)
    return found
