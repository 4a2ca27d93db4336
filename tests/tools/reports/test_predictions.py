"""Predicted times of runs that users of other programs measured."""

import math
from pathlib import Path

import pytest

from engine.planner import times
from tools.reports.predictions import (
    HELD,
    LIMIT,
    Comparison,
    checked_median,
    comparisons,
    fitted_shares,
    held,
    page,
)

DOCS = Path(__file__).parents[3] / "docs" / "predictions.md"


@pytest.fixture(scope="module", name="compared")
def _compared() -> tuple[Comparison, ...]:
    return comparisons()


@pytest.mark.extended
def test_the_page_in_docs_is_that_of_this_program():
    assert DOCS.read_text("utf-8") == "\n".join(page()) + "\n"


@pytest.mark.extended
def test_shares_of_peak_are_those_of_half_of_the_runs(compared):
    for name, share in fitted_shares(compared).items():
        assert times.GENERATION_SHARE[name] == pytest.approx(share, abs=0.006), name


def test_the_other_half_confirms_them(compared):
    assert abs(math.log(checked_median(compared))) <= math.log(1 + LIMIT)


def test_the_range_of_an_unmeasured_gpu_holds_most_runs(compared):
    assert held(compared) >= HELD * len(compared)


def test_tiles_and_short_batches_cost_operations(compared):
    """The published work is 39 TFLOP for a million pixels in long batches of 3B."""
    runs = {one.run.row: one.run for one in compared}
    each = {row: run.operations / run.size.pixels / run.frames / 1e6 for row, run in runs.items()}
    assert each[1] == pytest.approx(39, rel=0.02)  # whole frames, long batches
    assert each[11] > 1.05 * each[1]  # batches of 5
    assert each[8] > 1.15 * each[11]  # in tiles as well
