"""Long clips take no more memory than short ones: the Wan VAEs, each in a fresh process."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from engine.bench.memory import memory_of
from engine.bench.run import BenchOptions
from engine.bench.workload import vae_run
from engine.core.geometry import Size
from engine.models.video_vae.vae_use import Side
from engine.models.wan.vae.config import WAN21, WAN22

pytestmark = pytest.mark.slow  # minutes of a processor: hundreds of frames

SIZES = {
    "wan21-vae": replace(WAN21, dim=16, dec_dim=16),
    "wan22-vae": replace(WAN22, dim=20, dec_dim=32),
}
SIDES: dict[Side, Size] = {"encode": Size(256, 256), "decode": Size(192, 192)}
SHORT, LONG = 21, 161  # frames
LEAST = 40 * 2**20  # bytes; libraries that are loaded on the way, under a MiB, are no part of it


@pytest.mark.parametrize("model", SIZES)
@pytest.mark.parametrize(
    ("form", "side"), [("fast", "decode"), ("fast", "encode"), ("plain", "decode")]
)
def test_memory_beyond_the_result_is_flat(
    model: str, form: Literal["plain", "fast"], side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large blocks go straight back to the system: what a heap keeps for later is not counted."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(2**16))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(2**17))
    options = BenchOptions(
        model=model, config=SIZES[model], size=SIDES[side], device="cpu", threads=1
    )
    run = replace(vae_run(options, side), form=form)
    short, long = (memory_of(replace(run, frames=frames)) for frames in (SHORT, LONG))
    assert long.result_bytes > 6 * short.result_bytes
    beyond = [found.peak_bytes - found.result_bytes for found in (short, long)]
    assert beyond[0] > LEAST
    assert beyond[1] <= 1.02 * beyond[0], beyond
