"""Launches and bytes at published sizes stay what they were, or become fewer."""

from __future__ import annotations

import json

import pytest

from engine.models.seedvr2.dit.config import DIT_3B
from tests.pretended_gpu.published import (
    BASELINE,
    PAGE,
    SIZES,
    Figures,
    page,
    transformer_step,
    vae_steps,
)

pytestmark = pytest.mark.pretended_gpu

MOST = 1.03
QUICK = "720p"


@pytest.fixture(scope="module")
def baseline() -> dict[str, Figures]:
    rows = json.loads(BASELINE.read_text("utf-8"))
    return {name: Figures(**row) for name, row in rows.items()}


def test_steps_take_no_more_than_the_baseline(baseline: dict[str, Figures]) -> None:
    size = SIZES[QUICK]
    found = {**dict(vae_steps(size)), "3B": transformer_step(DIT_3B, size)}
    for name, figures in found.items():
        known = baseline[f"{name} {QUICK}"]
        for kind in ("launches", "gigabytes", "teraflops", "peak_gib"):
            now, before = getattr(figures, kind), getattr(known, kind)
            assert before / MOST <= now <= before * MOST, f"{name}: {kind} {before} -> {now}"
        assert figures.waits <= known.waits, name


def test_the_page_is_that_of_the_baseline(baseline: dict[str, Figures]) -> None:
    assert PAGE.read_text("utf-8") == page(baseline)
