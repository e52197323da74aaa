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

    Messages with the same subject and headers are alike, and asked once.

    Args:
        router: Which made the routes.
        routes: Of the messages' subjects, as long as the following.
        subjects: Of each message.
        headers: The clients' own, of each; not looked at where a route does not ask.
    """
    known: dict[tuple[Route, str, Headers], Route] = {}
    found: list[Route] = []
    for route, subject, its_headers in zip(routes, subjects, headers, strict=True):
        if not route.asks:
            found.append(route)
            continue
        key = (route, subject, tuple(its_headers))
        if key not in known:
            known[key] = router.selected(route, subject, its_headers)
        found.append(known[key])
    return found
