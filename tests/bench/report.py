"""The figures of all rounds: medians, ratios, goals met or missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from tests.bench.goals import Goal, goal_line
from tests.bench.rounds import Figure, Round

Spread = Mapping[str, float]
REFERENCES = ("raw", "raw+headers", "raw+eos", "mm2-tuned")
"""Contenders with which each row is compared, where they took part."""


def spread(values: Sequence[float]) -> Spread:
    """Return median, least and greatest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def counted(rounds: Sequence[Round]) -> Sequence[Round]:
    """Return the rounds that figures are made of: the undisturbed ones, or all if none was."""
    return [one for one in rounds if not one.disturbed] or rounds


def table(rounds: Sequence[Round], messages: int) -> dict[str, dict[str, Spread]]:
    """Return the spread of each figure of each contender, and of its ratios within a round.

    CPU is in seconds per million messages: `cpu` of the contender, `broker` of the broker, `whole`
    of both. `to_X` is a multiple of the contender's own CPU of X, `whole_to_X` of both together.
    """
    names = list(rounds[0].figures) if rounds else []
    return {name: _row(name, rounds, messages) for name in names}


def _row(name: str, rounds: Sequence[Round], messages: int) -> dict[str, Spread]:
    def over(what: Callable[[Mapping[str, Figure]], float]) -> Spread:
        return spread([what(one.figures) for one in rounds])

    row = {
        "cpu": over(lambda figures: figures[name].cpu),
        "broker": over(lambda figures: figures[name].broker),
        "whole": over(lambda figures: whole(figures[name])),
        "written": over(lambda figures: figures[name].written),
        "sent": over(lambda figures: figures[name].sent),
        "rate": over(lambda figures: messages / figures[name].wall_s / 1e6),
        "foreign": over(lambda figures: figures[name].foreign),
    }
    for other in REFERENCES:
        if other in rounds[0].figures:
            row[f"to_{other}"] = over(_ratio(name, other, lambda figure: figure.cpu))
            row[f"whole_to_{other}"] = over(_ratio(name, other, whole))
    return row


def _ratio(
    name: str, other: str, of: Callable[[Figure], float]
) -> Callable[[Mapping[str, Figure]], float]:
    return lambda figures: of(figures[name]) / max(of(figures[other]), 1e-9)


def whole(figure: Figure) -> float:
    """Return the CPU of contender and broker together."""
    return figure.cpu + figure.broker


GOALS = (
    ("ingress", "raw+eos", 1.4),
    ("transit", "raw", 0.2),
    ("transit halves", "raw", 0.5),
    ("transit all+tenth", "raw", 0.4),
    ("delivery", "raw+headers", 1.0),
    ("one link", "mm2-tuned", 1.0),
    ("four nodes", "mm2-tuned", 0.8),
    ("ingress direct", "raw+headers", 1.0),
    ("transit direct", "raw", 0.2),
    ("delivery direct", "raw+headers", 1.0),
)
"""Contender, with whom its CPU is compared, and at most how many times that."""


def goals(found: Mapping[str, Mapping[str, Spread]], quiet: int, wanted: int) -> list[Goal]:
    """Return every goal, judged by medians.

    Args:
        found: The table.
        quiet: Undisturbed rounds.
        wanted: How many should be.
    """
    judged = [Goal("undisturbed rounds", wanted, quiet, at_least=True)]
    for name, other, limit in GOALS:
        ratio = found.get(name, {}).get(f"to_{other}")
        judged.append(Goal(f"{name} to {other}", limit, ratio["median"] if ratio else None))
    return judged


def text(report: Mapping[str, Any]) -> str:
    """Return the table for people."""
    rows: Mapping[str, Mapping[str, Spread]] = report["contenders"]
    lines = [
        (
            f"{'CPU-s/M, medians':<18}{'own':>7}{'min-max':>13}{'broker':>8}"
            f"{'to raw':>8}{'+hdrs':>7}{'+eos':>7}{'MM2t':>7}{'B wr':>7}{'B sent':>7}{'M/s':>6}"
        )
    ]
    for name, row in rows.items():
        ratios = "".join(
            f"{row[f'to_{other}']['median']:{width}.2f}"
            if f"to_{other}" in row
            else f"{'-':>{width}}"
            for other, width in zip(REFERENCES, (8, 7, 7, 7), strict=True)
        )
        between = f"{row['cpu']['min']:.2f}-{row['cpu']['max']:.2f}"
        lines.append(
            f"{name:<18}{row['cpu']['median']:7.2f}{between:>13}{row['broker']['median']:8.2f}"
            f"{ratios}{row['written']['median']:7.0f}{row['sent']['median']:7.0f}"
            f"{row['rate']['median']:6.2f}"
        )
    lines += [f"{name:<18}took no part: {why}" for name, why in report["absent"].items()]
    audited = report["auditor"]
    lines.append(
        f"{'auditor':<18}{audited['per_s']:,.0f} records/s, {audited['ratio']:.2f} of Spark's own"
        f" source that counts them; CPU-s per million messages: Python"
        f" {audited['driver_cpu']:.1f}, JVM {audited['jvm_cpu']:.0f}"
    )
    rounds = report["rounds"]
    disturbed = [one["disturbed"] for one in rounds if one["disturbed"]]
    lines.append(f"{len(rounds)} rounds, {len(disturbed)} of them disturbed by other processes")
    if disturbed and len(disturbed) == len(rounds):
        lines.append("every round was disturbed: these figures are of disturbed rounds")
    lines += ["goals:", *(goal_line(goal) for goal in report["goals"])]
    return "\n".join(lines)
