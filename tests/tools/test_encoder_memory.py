"""Memory of encoders: plans are near what was measured, and the page is of this table."""

from pathlib import Path

import pytest

from engine.core.geometry import Size
from tools.reports.encoder_memory import Case, cases, measure, row

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "encoder-memory.md"
MB = 10**6


def test_plans_count_a_little_more_than_was_measured() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    for case, written in zip(cases(), rows, strict=True):
        measured = int(written.split(" | ")[7]) * MB
        assert written == row(case, measured), "written by an older table"
        assert 0.95 * measured - 15 * MB < case.planned, written
        if not case.megabits:  # AV1 looks ahead by no frame then
            assert case.planned < 1.3 * measured + 120 * MB, written


@pytest.mark.extended
@pytest.mark.parametrize("depth", [8, 10])
def test_an_encoder_takes_what_is_planned(depth: int) -> None:
    case = Case("libx264", "fast", depth=depth, size=Size(640, 360), threads=2, frames=60)
    assert measure(case) == pytest.approx(case.planned, rel=0.3)
