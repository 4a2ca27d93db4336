"""The page of what switches change, and what it must not contradict."""

from pathlib import Path

import pytest

from engine.hardware.gpu_table import requested
from tools.reports.plan_table import nothing_here
from tools.reports.switch_times import CHOICES, GPUS, is_possible, page, plan_with

DOCS = Path(__file__).parents[3] / "docs" / "switches.md"
# What changes neither operations nor bytes: only the best case of the range.
RANGE_ALONE = {"vae.fp16_sums=off", "dit.fp16_sums=off"}

pytestmark = pytest.mark.extended


def test_the_page_in_docs_is_that_of_this_program() -> None:
    assert DOCS.read_text("utf-8") == "\n".join(page()) + "\n"


@pytest.mark.parametrize("name", GPUS)
def test_seconds_differ_where_operations_or_bytes_do(name: str) -> None:
    gpu = requested(name)
    with nothing_here():
        usual = plan_with(gpu)
        assert sum(is_possible(gpu, choice) for choice in CHOICES) >= 12
        for choice in CHOICES:
            if not is_possible(gpu, choice):
                continue
            plan = plan_with(gpu, choice)
            if choice in RANGE_ALONE:
                assert plan.seconds == pytest.approx(usual.seconds)
                continue
            assert abs(plan.seconds - usual.seconds) > 0.003 * usual.seconds, choice
            is_slower = choice.endswith("=off") or "attention" in choice
            assert not is_slower or plan.seconds > usual.seconds, choice
