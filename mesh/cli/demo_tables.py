"""The demo's account as tables for people; loaded only when there is one."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from mesh.cli.render import grid
from mesh.lab.demo.report import Report


def tables_of(report: Report) -> RenderableType:
    """Return endpoints, links, and what is to be said about them."""
    data = report.data
    endpoints, links = data["endpoints"], data["links"]
    assert isinstance(endpoints, dict)
    assert isinstance(links, dict)
    summary = (
        f"{data['published']:,} messages published, {data['delivered']:,} delivered; "
        f"{data['certificates']:,} certificates cover {data['certified']:,} deliveries; "
        f"first delivery after {data['first_delivery_s']} s; {data['memory_mb']:,} MB"
    )
    verdict = report.faults or ["nothing missing, nothing doubled, nothing found"]
    return Group(
        grid(
            ("ENDPOINT", "CLASS", "EXPECTED", "DELIVERED", "MISSING", "DUPLICATES"),
            [(name, *row.values()) for name, row in endpoints.items()],
        ),
        grid(
            ("LINK", "MESSAGES", "FRAMES", "DIRECT", "PER SECOND"),
            [(name, *row.values()) for name, row in links.items()],
        ),
        *(Text(line) for line in (summary, *verdict)),
    )
