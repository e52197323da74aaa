"""The demo on a terminal, redrawn every second; or a line now and then where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mesh.lab.demo.picture import EndpointRow, LinkRow, Picture
from mesh.local.jars import Progress
from mesh.model.counted import counted
from mesh.model.topology import Link, Topology

LINE_S = 5.0
"""How often a line is written where there is no terminal."""
_GB = 1e9
_LEFT = 44
_QUIET = "bright_black"


class Screen(Protocol):
    """Shows the demo while it runs."""

    def show(self, picture: Picture) -> None:
        """Show the present state."""

    def close(self) -> None:
        """Give the terminal back."""


class LiveScreen:
    """Fills the terminal."""

    def __init__(self, console: Console, topology: Topology) -> None:
        self._topology = topology
        self._live = Live(
            console=console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._live.start()

    def show(self, picture: Picture) -> None:
        """Draw the present state."""
        self._live.update(drawn(picture, self._topology), refresh=True)

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()


class LineScreen:
    """Writes a line every few seconds."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._next_s = 0.0

    def show(self, picture: Picture) -> None:
        """Write the present state, unless the last line is young."""
        if picture.at_s < self._next_s:
            return
        self._next_s = picture.at_s + LINE_S
        self._progress(line_of(picture))

    def close(self) -> None:
        """Nothing is to be given back."""


def open_screen(topology: Topology, progress: Progress, console: Console | None) -> Screen:
    """Return a live view for people at a terminal, lines for everybody else."""
    if console is not None and console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console, topology)
    return LineScreen(progress)


def line_of(picture: Picture) -> str:
    """Return the state in one line."""
    parts = [
        f"published {picture.published:,} ({picture.publish_rate:,.0f}/s)",
        f"delivered {picture.delivered:,} ({picture.delivery_rate:,.0f}/s)",
        f"in flight {picture.in_flight:,}",
    ]
    if picture.is_audited:
        parts.append(_audit_text(picture))
    if picture.fault:
        parts.append(picture.fault)
    return "; ".join(parts)


def drawn(picture: Picture, topology: Topology) -> RenderableType:
    """Return the whole picture; 100 columns and 30 lines show it all."""
    middle = Table.grid(padding=(0, 0))
    middle.add_column(width=_LEFT)
    middle.add_column(ratio=1)
    middle.expand = True
    middle.add_row(
        _panel("links: per second, filters wanted", _links(picture, topology)),
        _panel("endpoints", _endpoints(picture)),
    )
    return Group(_head(picture), middle, _audit(picture))


def _panel(title: str, content: RenderableType) -> Panel:
    return Panel(
        content,
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=_QUIET,
        padding=(0, 1),
    )


def _head(picture: Picture) -> RenderableType:
    minutes, seconds = divmod(int(picture.elapsed_s), 60)
    head = Text()
    head.append(" Trellis ", style="bold reverse")
    head.append(f"  {minutes}:{seconds:02d}")
    is_whole = picture.serving == picture.nodes
    head.append("   nodes ", style=_QUIET)
    head.append(f"{picture.serving}/{picture.nodes}", style="" if is_whole else "bold red")
    head.append("   memory ", style=_QUIET)
    head.append(f"{picture.memory / _GB:.1f} GB")
    if picture.restarts:
        head.append(f"   restarts {picture.restarts}", style="yellow")
    head.append("   Ctrl-C stops everything", style=_QUIET)
    figures = Text(" ")
    for name, total, rate in (
        ("published", picture.published, picture.publish_rate),
        ("delivered", picture.delivered, picture.delivery_rate),
    ):
        figures.append(f"{name} ", style=_QUIET)
        figures.append(f"{total:,}", style="bold")
        figures.append(f"  {rate:,.0f}/s    ", style="cyan")
    figures.append("in flight ", style=_QUIET)
    figures.append(f"{picture.in_flight:,}")
    if picture.fault:
        figures.append(f"   {picture.fault}", style="bold red")
    return Group(head, figures)


def _links(picture: Picture, topology: Topology) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=_QUIET, expand=True)
    table.add_column("zone", style=_QUIET)
    table.add_column("link")
    for name in ("→/s", "←/s", "total"):
        table.add_column(name, justify="right")
    table.add_column("→ ←", justify="right", style=_QUIET)
    zone = ""
    for link in _in_file_order(topology):
        one, other = link.ends
        there, back = picture.links[f"{one}->{other}"], picture.links[f"{other}->{one}"]
        table.add_row(
            "" if link.zone == zone else link.zone,
            f"{one}-{other}",
            _rate(there),
            _rate(back),
            f"{there.messages + back.messages:,}",
            f"{there.filters:>2} {back.filters:>2}",
        )
        zone = link.zone
    return table


def _in_file_order(topology: Topology) -> Sequence[Link]:
    return [link for zone in topology.zones.values() for link in zone.links]


def _rate(row: LinkRow | EndpointRow) -> Text:
    if row.rate < 0.5:
        return Text("·", style=_QUIET)
    return Text(f"{row.rate:,.0f}", style="cyan")


def _endpoints(picture: Picture) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=_QUIET, expand=True)
    table.add_column("endpoint", no_wrap=True)
    table.add_column("filters", ratio=1, no_wrap=True, overflow="ellipsis", style=_QUIET)
    table.add_column("/s", justify="right")
    table.add_column("total", justify="right")
    if picture.is_audited:
        table.add_column("cert", justify="right", no_wrap=True)
    for row in picture.endpoints:
        cells: list[RenderableType] = [
            row.name,
            " ".join(row.filters),
            _rate(row),
            f"{row.delivered:,}",
        ]
        if picture.is_audited:
            cells.append(_certified(row))
        table.add_row(*cells)
    return table


def _certified(row: EndpointRow) -> Text:
    if row.is_direct:
        return Text("-", style=_QUIET)
    if not row.delivered:
        return Text("·", style=_QUIET)
    share = min(1.0, row.certified / row.delivered)
    return Text(f"{share:4.0%}", style="green" if row.certified else _QUIET)


def _audit(picture: Picture) -> RenderableType:
    if not picture.is_audited:
        return Text(" not audited (--no-audit)", style=_QUIET)
    is_bad = picture.findings or picture.unequal
    style = "bold red" if is_bad else "green" if picture.is_audit_live else _QUIET
    lines = [Text(_audit_text(picture), style=style)]
    lines += [Text(text, style="red", no_wrap=True, overflow="ellipsis") for text in picture.news]
    return _panel("auditor (Spark)", Group(*lines))


def _audit_text(picture: Picture) -> str:
    if not picture.is_audit_live:
        return "the auditor is starting"
    return (
        f"{picture.certificates:,} certificates cover {picture.certified:,} deliveries, "
        f"all proven but the last {picture.unproven_s:.0f} s, "
        f"{counted(picture.findings, 'finding')}"
    )
