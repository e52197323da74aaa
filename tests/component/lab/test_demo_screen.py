"""The demo as people see it while it runs: a picture on a terminal, lines elsewhere."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from mesh.cli.render import console
from mesh.config.legal import load_legal_topology
from mesh.lab.demo.picture import EndpointRow, LinkRow, Picture
from mesh.lab.demo.screen import open_screen
from mesh.lab.demo.stage import TOPOLOGY_FILE
from mesh.model.topology import Topology


@pytest.fixture
def topology() -> Topology:
    return load_legal_topology(TOPOLOGY_FILE)


def picture_of(topology: Topology) -> Picture:
    """Return what is shown of a demo that has just begun."""
    ends = [link.ends for zone in topology.zones.values() for link in zone.links]
    directions = [f"{one}->{other}" for pair in ends for one, other in (pair, pair[::-1])]
    return Picture(
        at_s=10.0,
        elapsed_s=71.0,
        published=12_345,
        publish_rate=1000.0,
        delivered=1_000,
        delivery_rate=80.0,
        in_flight=7,
        links=dict.fromkeys(directions, LinkRow(messages=5, rate=2.0, filters=1)),
        endpoints=[EndpointRow("pa2/billing", ("orders/>",), is_direct=False, delivered=3)],
        serving=len(topology.nodes),
        nodes=len(topology.nodes),
        restarts=0,
        memory=2_000_000_000,
        is_audited=True,
        is_audit_live=True,
        certificates=4,
        unequal=0,
        certified=900,
        findings=0,
        unproven_s=8.4,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", ["0", "100"])
def test_a_terminal_shows_the_whole_picture(
    columns: str, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of which nobody says how wide it is: it stayed empty there."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in (
        ("COLUMNS", columns),
        ("LINES", "40"),
        ("TERM", "xterm"),
        ("NO_COLOR", "1"),
    ):
        monkeypatch.setenv(name, value)
    screen = open_screen(topology, pytest.fail, console(is_error=True))
    screen.show(picture_of(topology))
    screen.close()
    shown = terminal.getvalue()
    for part in ("Trellis", "12,345", "ny1-tk1", "pa2/billing", "4 certificates cover 900"):
        assert part in shown, part


def test_where_there_is_no_terminal_a_line_comes_now_and_then(
    topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    lines: list[str] = []
    screen = open_screen(topology, lines.append, console(is_error=True))
    picture = picture_of(topology)
    for at_s in (10.0, 11.0, 15.5):
        screen.show(replace(picture, at_s=at_s))
    screen.close()
    assert len(lines) == 2
    assert lines[0].startswith("published 12,345 (1,000/s); delivered 1,000 (80/s); in flight 7")
