from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench import run
from engine.bench.cases.runs import build_vae, random_weights, vae_run, vae_work
from engine.bench.cases.vae_parts import part_peaks, part_rows
from engine.bench.options import BenchOptions
from engine.bench.run import GROUPS
from engine.bench.timing.profiler import peak_bytes
from engine.core.geometry import Size
from tests.helpers.seedvr2 import tiny_config

OPTIONS = BenchOptions(
    config=tiny_config(), size=Size(64, 64), quick=True, device="cpu", frames=(9,)
)


def peaks(options: BenchOptions, frames: int) -> tuple[int, dict[str, int]]:
    """Peak of a whole decoder, and those of its parts, which it has as before afterwards."""
    one = replace(vae_run(options, "decode"), form="fast", frames=frames)
    weights = random_weights(one)
    with torch.inference_mode():
        before, first, second = (build_vae(one, weights) for _ in range(3))
        vae_work(one, before)()  # convolutions and kernels are tried once
        whole = peak_bytes(vae_work(one, first), options.device)
        vae: Any = second
        usual = list(vae.parts["decode"])
        found = part_peaks(vae, vae_work(one, second), options.device)
    assert vae.parts["decode"] == usual
    assert next(iter(found)) == "decoder.conv_in"
    assert list(found)[-1] == "decoder.conv_out"
    return whole, found


def test_each_part_of_the_decoder_has_its_peak_and_the_largest_is_that_of_the_decoder() -> None:
    whole, found = peaks(OPTIONS, 9)
    names = [name for name in found if "upsamplers" in name]
    assert names == [f"decoder.up_blocks.{level}.upsamplers.0" for level in range(len(names))]
    assert names
    assert any("mid_block.attentions" in name for name in found)
    assert 0.97 * whole <= max(found.values()) <= whole
    assert found["decoder.conv_in"] < found["decoder.conv_out"]


def test_they_are_rows_of_the_vaes_group() -> None:
    assert "vae-parts" in GROUPS["vae"]
    rows = run.run(["vae-parts"], options=OPTIONS)[1:]
    assert {row["case"] for row in rows} == {"vae-parts"}
    assert all(row["peak_mib"] > 0 for row in rows)
    assert list(part_rows(replace(OPTIONS, memory=False))) == []


@pytest.mark.parametrize("model", ["wan21-vae", "wan22-vae"])
def test_the_vaes_of_wan_have_parts_too(model: str) -> None:
    from engine.bench.cases.vae_models import models

    options = replace(OPTIONS, config=models()[model].config.narrower(16), model=model)
    with torch.inference_mode():
        rows = list(part_rows(options))
    assert rows[0]["layers"].startswith("conv2")
    assert len(rows) > 10


@pytest.mark.gpu
def test_on_a_gpu_the_largest_part_makes_the_peak_of_the_decoder() -> None:
    whole, found = peaks(replace(OPTIONS, device="cuda", size=Size(32, 32)), 5)
    assert 0.9 * whole <= max(found.values()) <= whole
