"""The figures of all rounds: medians, ratios, goals met or missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.bench.rounds import Round

Spread = Mapping[str, float]
Quiet = Mapping[str, Mapping[str, float]]
REFERENCE = "raw"


@dataclass(frozen=True, slots=True)
class Goal:
    """A promise: `found` is at most (or at least) `limit`; None was not measured."""

    name: str
    limit: float
    found: float | None
    at_least: bool = False

    @property
    def is_met(self) -> bool | None:
        """Say whether it is kept."""
        if self.found is None:
            return None
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "met": self.is_met}


def spread(values: Sequence[float]) -> Spread:
    """Return median, least and greatest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def over_rounds(rounds: Sequence[Round], what: Callable[[Round], float]) -> Spread:
    """Return the spread of something that each counting round tells."""
    return spread([what(one) for one in rounds])


def contenders(rounds: Sequence[Round], messages: int) -> dict[str, dict[str, Spread]]:
    """Return, per contender, CPU-s per million, the broker's, M messages/s, and ratios to raw."""
    names = list(rounds[0].figures) if rounds else []
    return {name: _row(name, rounds, messages) for name in names}


def _row(name: str, rounds: Sequence[Round], messages: int) -> dict[str, Spread]:
    def cpu(one: Round) -> float:
        return one.figures[name].cpu

    def broker(one: Round) -> float:
        return one.figures[name].broker

    def rate(one: Round) -> float:
        return messages / one.figures[name].wall_s / 1e6

    row = {
        "cpu": over_rounds(rounds, cpu),
        "broker": over_rounds(rounds, broker),
        "rate": over_rounds(rounds, rate),
    }
    for key, reference in (("to_raw", REFERENCE), ("to_mm2", "mm2")):
        if reference in rounds[0].figures:
            row[key] = spread([cpu_ratio(one, name, reference) for one in rounds])
    return row


def cpu_ratio(one: Round, name: str, reference: str) -> float:
    """Return the CPU of one contender as a multiple of another's in the same round."""
    return one.figures[name].cpu / max(one.figures[reference].cpu, 1e-9)


def goals(
    table: Mapping[str, Mapping[str, Spread]],
    rounds: Sequence[Round],
    latency: Quiet,
    idle: Quiet,
    away_s: Sequence[float],
    per_filter: float | None,
) -> list[Goal]:
    """Return every goal, judged by medians."""

    def ratio(name: str, key: str = "to_raw") -> float | None:
        return table[name][key]["median"] if name in table and key in table[name] else None

    def copied(name: str) -> float | None:
        if not rounds:
            return None
        return over_rounds(rounds, lambda one: cpu_ratio(one, name, "raw+headers"))["median"]

    def kept(name: str) -> float | None:
        """Guaranteed rate per core as a share of the direct one."""
        if not rounds:
            return None
        return over_rounds(rounds, lambda one: 1 / cpu_ratio(one, name, f"{name} direct"))["median"]

    found = [
        Goal("ingress direct, CPU to raw", 1.4, ratio("ingress direct")),
        Goal("transit, CPU to raw", 0.3, ratio("transit")),
        Goal("delivery, CPU to raw", 1.3, ratio("delivery")),
        # Delivered records carry two headers; a loop without any does less than the same work.
        Goal("delivery, CPU to raw+headers", 1.3, copied("delivery")),
        Goal("ingress, guaranteed to direct", 0.85, kept("ingress"), at_least=True),
        Goal("delivery, guaranteed to direct", 0.85, kept("delivery"), at_least=True),
    ]
    names = [name for name in table if name not in ("mm2", "raw", "raw+headers")]
    found += [Goal(f"{name}, CPU to MM2", 1.0, ratio(name, "to_mm2")) for name in names]
    slow = min((int(key.split("@")[1]) for key in latency), default=0)
    for name, limit in (("direct", 30.0), ("guaranteed", 120.0)):
        delays = latency.get(f"{name}@{slow}")
        found.append(Goal(f"p50 {name}, ms", limit, delays["p50"] if delays else None))
    found.append(Goal("away after kill -9, s, worst", 8.0, max(away_s, default=None)))
    rss = max((one["rss_mb"] for one in idle.values()), default=None)
    core = max((one["core"] for one in idle.values()), default=None)
    found.append(Goal("idle worker, MB", 120.0, rss))
    found.append(Goal("idle worker, share of a core", 0.02, core))
    found.append(Goal("bytes per filter", 400.0, per_filter))
    return found


def text(report: Mapping[str, object]) -> str:
    """Return the table for people."""
    lines = [
        (
            f"{'':<18}{'CPU-s/M':>9}{'min-max':>13}{'to raw':>8}{'min-max':>13}"
            f"{'to MM2':>8}{'broker':>8}{'M/s':>7}"
        )
    ]
    table: dict[str, dict[str, Spread]] = report["contenders"]  # type: ignore[assignment]
    for name, row in table.items():
        mm2 = f"{row['to_mm2']['median']:8.2f}" if "to_mm2" in row else " " * 8
        lines.append(
            f"{name:<18}{_cell(row['cpu'])}{_cell(row['to_raw'], 8)}{mm2}"
            f"{row['broker']['median']:8.2f}{row['rate']['median']:7.2f}"
        )
    for key, delays in report["latency_ms"].items():  # type: ignore[attr-defined]
        lines.append(f"latency {key:<20}" + "".join(f" {k} {v:7.1f}" for k, v in delays.items()))
    for node, one in report["idle"].items():  # type: ignore[attr-defined]
        lines.append(f"idle {node}: {one['rss_mb']:.0f} MB, {one['core']:.1%} of a core")
    if away := report["takeover_s"]:
        lines.append("away after kill -9: " + ", ".join(f"{s:.1f}" for s in away) + " s")  # type: ignore[attr-defined]
    lines.append("goals:")
    lines += [goal_line(goal) for goal in report["goals"]]  # type: ignore[attr-defined]
    return "\n".join(lines)


def goal_line(goal: Mapping[str, Any]) -> str:
    """Return one goal, as `Goal.as_json` gives it, as a line for people."""
    found = "-" if goal["found"] is None else f"{goal['found']:.3g}"
    sign = ">=" if goal["at_least"] else "<="
    judged = {True: "met", False: "MISSED", None: "not measured"}[goal["met"]]
    return f"  {goal['name']:<34}{found:>8} {sign} {goal['limit']:<6g}{judged}"


def _cell(one: Spread, width: int = 9) -> str:
    between = f"{one['min']:.2f}-{one['max']:.2f}"
    return f"{one['median']:{width}.2f}{between:>13}"
