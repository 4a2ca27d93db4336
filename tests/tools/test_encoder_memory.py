"""Memory of encoders: plans are near what was measured, and the page is of this table."""

import re
from pathlib import Path

import pytest

from engine.core.geometry import Size
from engine.planner.peaks import encoder_bytes
from tools.reports.encoder_memory import Case, cases, measure

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "encoder-memory.md"
ROW = re.compile(r"\| (\w\S*) \| (\w+) \| (\w+) \| (\w+) \| (\d+) \| (\d+) \| (\d+) \| [\d.]+ \|")


def test_plans_are_near_what_was_measured() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    for case, row in zip(cases(), rows, strict=True):
        name, speed, layout, size, threads, measured, planned = row
        picture = case.picture
        assert (name, speed, layout) == (case.encoder, case.speed, picture.pixel_format)
        assert (size, int(threads)) == (str(case.size), case.threads)
        assert f"{encoder_bytes(picture) / 1e6:.0f}" == planned, "written by an older table"
        assert int(planned) == pytest.approx(int(measured), rel=0.3, abs=25), case


@pytest.mark.extended
@pytest.mark.parametrize("depth", [8, 10])
def test_an_encoder_takes_what_is_planned(depth: int) -> None:
    case = Case("libx264", "fast", depth=depth, size=Size(640, 360), threads=2, frames=60)
    assert measure(case) == pytest.approx(encoder_bytes(case.picture), rel=0.3)
