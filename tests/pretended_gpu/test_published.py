"""Launches and bytes at published sizes stay what they were, or become fewer."""

from __future__ import annotations

import pytest

from engine.models.seedvr2.dit.config import DIT_3B
from tests.pretended_gpu.published import (
    PAGE,
    SIZES,
    known,
    page,
    transformer_step,
    vae_steps,
)

pytestmark = pytest.mark.pretended_gpu

MOST = 1.03
QUICK = "720p"


def test_steps_take_no_more_than_the_baseline() -> None:
    baseline, _ = known()
    size = SIZES[QUICK]
    found = {**dict(vae_steps(size)), "3B": transformer_step(DIT_3B, size)}
    for name, figures in found.items():
        committed = baseline[f"{name} {QUICK}"]
        for kind in ("launches", "gigabytes", "teraflops", "peak_gib"):
            now, before = getattr(figures, kind), getattr(committed, kind)
            assert before / MOST <= now <= before * MOST, f"{name}: {kind} {before} -> {now}"
        assert figures.waits <= committed.waits, name
        assert figures.convolutions <= committed.convolutions, name


def test_the_page_is_that_of_the_baseline() -> None:
    assert PAGE.read_text("utf-8") == page(*known())
