from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from engine.video.write.metadata import chapters_of

BASE = Fraction(1, 1000)


class Source:
    """An opened file with three chapters of two seconds."""

    def chapters(self) -> list[dict[str, Any]]:
        return [
            {"id": n, "start": 2000 * n, "end": 2000 * (n + 1), "time_base": BASE, "metadata": {}}
            for n in range(3)
        ]


@pytest.mark.parametrize(
    ("shift", "end", "expected"),
    [
        ("0", None, [(0, 2000), (2000, 4000), (4000, 6000)]),
        ("3/4", None, [(0, 1250), (1250, 3250), (3250, 5250)]),  # MKV refuses one before 0
        ("5/2", None, [(0, 1500), (1500, 3500)]),
        ("5/2", "1", [(0, 1000)]),
        ("0", "3", [(0, 2000), (2000, 3000)]),
        ("7", None, []),
        ("-1", None, [(1000, 3000), (3000, 5000), (5000, 7000)]),
    ],
)
def test_chapters_of_a_part_are_cut_at_its_edges(
    shift: str, end: str | None, expected: list[tuple[int, int]]
) -> None:
    found = chapters_of(Source(), Fraction(shift), Fraction(end) if end else None)
    assert [(chapter["start"], chapter["end"]) for chapter in found] == expected
