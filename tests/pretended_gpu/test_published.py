"""Launches and bytes at published sizes stay what they were, or become fewer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, FORMAT_BYTES, DitConfig
from engine.models.seedvr2.dit.cost import (
    forward_bytes,
    resident_bytes,
    unpacked_bytes,
    weight_bytes,
)
from engine.ops.linear import promoted
from tests.pretended_gpu.published import (
    CLIP,
    DIT,
    PAGE,
    SIZES,
    TEXT,
    known,
    page,
    small_figures,
    transformer_step,
    vae_steps,
)

pytestmark = pytest.mark.pretended_gpu

MOST = 1.03
QUICK = "720p"


def test_steps_take_no_more_than_the_baseline() -> None:
    baseline, _ = known()
    size = SIZES[QUICK]
    found = {
        **dict(vae_steps(size)),
        "3B": transformer_step(DIT_3B, size),
        "3B, float16": transformer_step(DIT_3B, size, DIT, dtype=torch.float16),
    }
    for name, figures in found.items():
        committed = baseline[f"{name} {QUICK}"]
        for kind in ("launches", "gigabytes", "teraflops", "peak_gib", "besides"):
            now, before = getattr(figures, kind), getattr(committed, kind)
            assert before / MOST <= now <= before * MOST, f"{name}: {kind} {before} -> {now}"
        assert figures.waits <= committed.waits, name
        assert figures.convolutions <= committed.convolutions, name


@pytest.mark.extended
def test_small_steps_have_the_launches_of_the_baseline() -> None:
    baseline, _ = known()
    for name, figures in small_figures().items():
        assert figures.launches == pytest.approx(baseline[name].launches, rel=MOST - 1), name
        assert figures.teraflops == pytest.approx(baseline[name].teraflops, rel=MOST - 1), name


def test_our_kernel_spares_what_is_besides_convolutions() -> None:
    """At least a quarter at each size, and launches."""
    now, _ = known()
    for title in SIZES:
        for name in ("encode", "decode"):
            ours, usual = now[f"{name}, kernel {title}"], now[f"{name} {title}"]
            assert ours.besides <= 0.75 * usual.besides
            assert ours.gigabytes < usual.gigabytes
            assert ours.peak_gib < usual.peak_gib
            assert ours.launches <= usual.launches


def test_weights_in_blocks_cost_one_pass_each() -> None:
    """Packed bytes are read and values written once; torch operators took 1.6 times these bytes."""
    size = SIZES[QUICK]
    plain, packed = transformer_step(DIT_3B, size), transformer_step(DIT_3B, size, stored="Q4_K")
    stored, dtype = weight_bytes(DIT_3B, FORMAT_BYTES["Q4_K"]), "bfloat16"
    planned, moved = unpacked_bytes(DIT_3B, stored, dtype), packed.gigabytes - plain.gigabytes
    assert moved <= planned / 1e9 <= 1.03 * moved
    grid = CLIP, size.height // 8, size.width // 8
    memory = resident_bytes(DIT_3B, stored, None)
    memory += forward_bytes(DIT_3B, grid, TEXT, dtype, widened=True)
    assert packed.peak_gib <= memory / 2**30 <= 1.1 * packed.peak_gib
    assert packed.gigabytes <= 1.3 * plain.gigabytes
    assert packed.launches <= plain.launches + 7 * DIT_3B.layers
    assert packed.teraflops == plain.teraflops
    assert packed.peak_gib < plain.peak_gib / 2


@pytest.mark.parametrize("promotes", [False, True])
@pytest.mark.parametrize("config", [DIT_3B, DIT_7B])
def test_memory_without_bfloat16_is_planned(
    config: DitConfig, promotes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products are torch's, or those of our kernel."""
    monkeypatch.setattr(promoted, "_is_chosen", lambda *_: True)
    size, dtype, switches = SIZES[QUICK], "float16", replace(DIT, fp16_sums=promotes)
    step = transformer_step(config, size, switches, dtype=torch.float16)
    found = step.peak_gib * 2**30
    grid = CLIP, size.height // 8, size.width // 8
    memory = resident_bytes(config, weight_bytes(config, 2, dtype), None)
    memory += forward_bytes(config, grid, TEXT, dtype)
    assert found <= memory <= 1.1 * found


def test_the_page_is_that_of_the_baseline() -> None:
    assert PAGE.read_text("utf-8") == page(*known())
