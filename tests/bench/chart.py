"""Growth curves as pictures: points evenly spaced, how many times the first point's, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import count

WIDTH, HEIGHT, MARGIN = 640, 320, 56
COLOURS = ("#1f6feb", "#d97706", "#15803d")
STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Curve:
    """A line and what it is called; one value a point."""

    name: str
    values: Sequence[float]


def ticks(most: float) -> Sequence[float]:
    """Return round numbers from zero to at least the greatest value, six at most."""
    for power in count(-2):
        for step in STEPS:
            size = step * 10.0**power
            if size * 5 >= most:
                return [size * index for index in range(6)]
    raise AssertionError(most)


def drawn(title: str, points: Sequence[str], curves: Sequence[Curve]) -> str:
    """Return the picture as SVG."""
    marks = ticks(max(max(curve.values) for curve in curves))
    gap = (WIDTH - 2 * MARGIN) / max(1, len(points) - 1)

    def x(index: int) -> float:
        return MARGIN + gap * index

    def y(value: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * value / marks[-1]

    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12" fill="#57606a">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="20" fill="#1f2328" font-size="14">{escape(title)}</text>',
    ]
    lines += [
        f'<path d="M{MARGIN} {y(mark):.1f}H{WIDTH - MARGIN}" stroke="#d0d7de"/>'
        f'<text x="{MARGIN - 6}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}x</text>'
        for mark in marks
    ]
    for index, point in enumerate(points):
        below = HEIGHT - MARGIN + 18
        lines.append(
            f'<text x="{x(index):.1f}" y="{below}" text-anchor="middle">{escape(point)}</text>'
        )
    for number, (curve, colour) in enumerate(zip(curves, COLOURS, strict=False)):
        path = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(curve.values))
        dots = "".join(
            f'<circle cx="{x(i):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>'
            for i, value in enumerate(curve.values)
        )
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(dots)
        at = MARGIN + 160 * number
        lines.append(
            f'<text x="{at}" y="{HEIGHT - 10}" fill="{colour}">{escape(curve.name)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"
