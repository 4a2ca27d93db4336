"""The committed figures, and what became worse than they are."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from tools.figures.child import ROOT
from tools.figures.figure import Figure

PATH = ROOT / "docs" / "figures.json"
Verdict = Literal["", "worse", "past its limit", "not measured", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Figures of a version, and why they became the baseline.

    Attributes:
        values: Name of a figure -> its value.
        moves: Each time the baseline moved: date, reason, and the machine that measured.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    moves: Sequence[Mapping[str, str]] = ()

    def moved(self, values: Mapping[str, float], reason: str) -> Baseline:
        """A baseline with new values for the measured figures."""
        move = {"date": date.today().isoformat(), "reason": reason, "machine": machine()}
        return Baseline(values={**self.values, **values}, moves=(*self.moves, move))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure now and in the baseline; None where it was not measured."""

    figure: Figure
    baseline: float | None
    now: float | None

    @property
    def ratio(self) -> float | None:
        """The value over that of the baseline."""
        return self.now / self.baseline if self.now is not None and self.baseline else None

    @property
    def verdict(self) -> Verdict:
        """A remark about it; "" for nothing."""
        if self.now is None:
            return "not measured"
        if self.figure.is_past_limit(self.now):
            return "past its limit"
        if self.baseline is None:
            return "new"
        return "worse" if self.figure.is_worse(self.now, self.baseline) else ""

    @property
    def is_fault(self) -> bool:
        """Whether the check fails for it."""
        return self.verdict in ("worse", "past its limit")


def compare(
    figures: Sequence[Figure], baseline: Baseline, values: Mapping[str, float]
) -> list[Line]:
    """A line for each figure."""
    return [
        Line(figure=figure, baseline=baseline.values.get(figure.name), now=values.get(figure.name))
        for figure in figures
    ]


def better_of(
    figures: Sequence[Figure], one: Mapping[str, float], other: Mapping[str, float]
) -> dict[str, float]:
    """The better one of two measurements of each figure: what disturbs makes figures worse."""
    found = {}
    for figure in figures:
        values = [values[figure.name] for values in (one, other) if figure.name in values]
        if values:
            found[figure.name] = max(values) if figure.more_is_better else min(values)
    return found


def load() -> Baseline:
    """The committed baseline; an empty one where there is none."""
    if not PATH.is_file():
        return Baseline()
    data: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
    return Baseline(
        values={name: figure["value"] for name, figure in data["figures"].items()},
        moves=tuple(data["moves"]),
    )


def save(baseline: Baseline, figures: Sequence[Figure]) -> None:
    """Write a baseline; figures that are no more are left out."""
    about = {figure.name: figure for figure in figures}
    data = {
        "moves": list(baseline.moves),
        "figures": {
            name: {"unit": about[name].unit, "value": float(f"{value:.4g}")}
            for name, value in baseline.values.items()
            if name in about
        },
    }
    PATH.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def machine() -> str:
    """The measuring computer: CPU, system and Python."""
    from engine.hardware import devices

    threads = devices.cpu_threads()
    return (
        f"{devices.cpu_name()}, {threads} threads, {platform.system()}, "
        f"Python {platform.python_version()}"
    )
