"""Predicted times of runs that users of other programs measured."""

import statistics
from pathlib import Path

import pytest

from engine.planner import gpu_speed, times
from tools.reports.predictions import page
from tools.reports.user_runs import (
    H100_FORMATS,
    H100_TIMES,
    Comparison,
    comparisons,
    h100_forward,
    h100_seconds,
    held,
)

DOCS = Path(__file__).parents[3] / "docs" / "predictions.md"


@pytest.fixture(scope="module", name="compared")
def _compared() -> tuple[Comparison, ...]:
    return comparisons()


@pytest.mark.extended
def test_the_page_in_docs_is_that_of_this_program():
    assert DOCS.read_text("utf-8") == "\n".join(page()) + "\n"


def test_counted_parts_are_nearly_all_that_an_h100_took():
    """So that what is added to them is no more than that."""
    found = [h100_seconds(part, *clip) / seconds for part, *clip, seconds in H100_TIMES]
    assert min(found) > 0.8
    assert max(found) < 1.05
    assert pytest.approx(statistics.median(found), rel=0.03) == 1 / gpu_speed.UNCOUNTED


def test_the_range_of_an_unmeasured_gpu_holds_the_checked_runs(compared):
    checked = [one for one in compared if one.use == "check"]
    assert held(checked) == len(checked)


def test_the_range_is_no_wider_than_what_it_has_to_hold(compared):
    """Its upper end is the slowest report, its lower one a tenth below the time of our kernel."""
    checked = [one for one in compared if one.use == "check"]
    slowest = max(1 / one.scaled for one in checked)
    assert slowest <= times.GUESSED_GPU.high < 1.1 * slowest
    for one in checked:
        best = one.plan.seconds if one.kernel_seconds is None else one.kernel_seconds
        assert one.plan.seconds_low == pytest.approx(times.GUESSED_GPU.low * best, rel=0.05)


def test_formats_take_what_an_h100_took():
    """There fp8 and int8 waited for the host, and were slower than bfloat16."""
    found = {products: h100_forward(products) for products in H100_FORMATS}
    assert min(found["fp8"], found["int8"]) > 1.5 * found["none"]
    for products, seconds in H100_FORMATS.items():
        assert found[products] == pytest.approx(seconds, rel=0.15), products


def test_no_plan_counts_our_kernel(compared):
    for one in compared:
        kernel, plain = one.kernel_seconds, one.plan.seconds - one.before
        is_geforce = one.gpu.name.startswith("NVIDIA GeForce")
        assert (kernel is not None) == is_geforce
        assert kernel is None or 0.6 * plain < kernel < plain


def test_tiles_and_short_batches_cost_operations(compared):
    """The published work is 39 TFLOP for a million pixels in long batches of 3B."""
    runs = {one.run.row: one.run for one in compared}
    each = {row: run.operations / run.size.pixels / run.frames / 1e6 for row, run in runs.items()}
    assert each[1] == pytest.approx(39, rel=0.02)  # whole frames, long batches
    assert each[11] > 1.05 * each[1]  # batches of 5
    assert each[8] > 1.15 * each[11]  # in tiles as well
