"""Figures of this tree beside those of another one, and what became worse."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.figures.figure import Figure

Verdict = Literal["", "worse", "past its limit", "not measured", "not measured there"]
Turns = Mapping[str, Sequence[float]]  # name of a figure -> its value in each turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure; None where it was not measured.

    Attributes:
        figure: The figure.
        before: Its value in the other tree.
        now: Its value in this tree.
        is_compared: Whether there is another tree.
    """

    figure: Figure
    before: float | None
    now: float | None
    is_compared: bool = True

    @property
    def ratio(self) -> float | None:
        """The other tree's value over this one's: above 1 it became less."""
        return self.before / self.now if self.before is not None and self.now else None

    @property
    def verdict(self) -> Verdict:
        """A remark about it; "" for nothing."""
        if self.now is None:
            return "not measured"
        if self.figure.is_past_limit(self.now):
            return "past its limit"
        if self.before is None:
            return "not measured there" if self.is_compared else ""
        return "worse" if self.figure.is_worse(self.now, self.before) else ""

    @property
    def is_fault(self) -> bool:
        """Whether the check fails for it."""
        return self.verdict in ("worse", "past its limit")


def compare(figures: Sequence[Figure], before: Turns | None, now: Turns) -> list[Line]:
    """A line for each figure.

    Args:
        figures: Figures that are wanted.
        before: Turns of the other tree; None without one.
        now: Turns of this tree.
    """
    return [
        Line(
            figure=figure,
            before=None if before is None else _value(figure, before),
            now=_value(figure, now),
            is_compared=before is not None,
        )
        for figure in figures
    ]


def _value(figure: Figure, turns: Turns) -> float | None:
    """Median of the turns; of what passes on the clock the least, which others disturbed least."""
    values = turns.get(figure.name)
    if not values:
        return None
    return min(values) if figure.is_on_clock else statistics.median(values)
