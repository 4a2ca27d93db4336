"""Predicted bytes of the Wan VAEs against what torch's allocator is asked for."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.memory_cost import Cost
from engine.models.video_vae.slicing import slices
from engine.models.wan.vae.config import (
    WAN2X,
    WAN21,
    WAN22,
    WanConfig,
)
from engine.models.wan.vae.cost import (
    Work,
    decode_cost,
    decode_high_cost,
    decode_low_cost,
    encode_cost,
    encode_high_cost,
    encode_low_cost,
    weights_bytes,
)
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import CPU, VaeSwitches
from tests.helpers.memory import Allocations
from tests.helpers.wan import tiny_wan, tiny_wan_config

# Frames large enough that numbers of a frame outweigh those of weights, as in the published ones,
# and that torch convolves single ones as it does large ones.
CONFIGS = {
    "2.1": tiny_wan_config("2.1", dim=16, dec_dim=16, residual_blocks=1),
    "2.2": tiny_wan_config("2.2", dim=16, dec_dim=16, residual_blocks=1),
    "2x": tiny_wan_config("2x", dim=16, dec_dim=16, residual_blocks=1),
}
SIZES = {"2.1": Size(96, 80), "2.2": Size(224, 192), "2x": Size(96, 80)}
LENGTHS = {"image": (1, None), "five": (5, None), "sliced": (13, 4)}
CHANGED = {"all off": VaeSwitches.all_off()} | {
    f"{entry.name} turned over": VaeSwitches().changed(entry.name, not entry.default)
    for entry in VaeSwitches.optimisations()
    if CPU in entry.devices
}
Step = Callable[[Tensor, Carry], tuple[Tensor, Carry]]


@cache
def weights_of(layout: str) -> dict[str, Tensor]:
    return tiny_wan(CONFIGS[layout], dtype=torch.float32).state_dict()


def work(layout: str, frames: int, slice_frames: int | None, **options: Any) -> Work:
    sizes = {"frames": frames, "slice_frames": slice_frames, "size": SIZES[layout]}
    return Work(**{"switches": VaeSwitches(), **sizes, **options})


def fast_vae(layout: str, case: Work) -> FastWanVae:
    dtype = getattr(torch, case.dtype)
    fast = FastWanVae(CONFIGS[layout], weights_of(layout), dtype=dtype, switches=case.switches)
    if case.slice_frames is not None:
        fast.enable_slicing(case.slice_frames)
    return fast


def inputs(config: WanConfig, case: Work) -> tuple[Tensor, Tensor]:
    dtype, factor = getattr(torch, case.dtype), config.spatial_factor
    clip = torch.zeros(1, 3, case.frames, case.size.height, case.size.width, dtype=dtype)
    shape = (1 + (case.frames - 1) // 4, case.size.height // factor, case.size.width // factor)
    return clip, torch.zeros(1, config.latent_channels, *shape, dtype=dtype)


def measured(step: Callable[[], object], fast: FastWanVae) -> int:
    """Peak bytes of a step, with fresh buffers."""
    fast.release()
    gc.collect()
    with Allocations() as found:
        step()
    return found.peak_bytes


def assert_close(cost: Cost, found: int) -> None:
    predicted = cost.peak_bytes - cost.weights
    assert found <= predicted <= 1.15 * found, f"{predicted / found:.3f}"


def assert_both_are_close(layout: str, case: Work) -> None:
    fast, config = fast_vae(layout, case), CONFIGS[layout]
    clip, latent = inputs(config, case)
    assert_close(encode_cost(config, case), measured(lambda: fast.posterior(clip), fast))
    assert_close(decode_cost(config, case), measured(lambda: fast.decode(latent), fast))


@pytest.mark.parametrize("layout", CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("frames", "slice_frames"), LENGTHS.values(), ids=LENGTHS.keys())
def test_every_length_is_predicted(
    layout: str, frames: int, slice_frames: int | None, dtype: str
) -> None:
    assert_both_are_close(layout, work(layout, frames, slice_frames, dtype=dtype))


@pytest.mark.parametrize("switches", CHANGED.values(), ids=CHANGED.keys())
@pytest.mark.parametrize("layout", ["2.1", "2.2"])
def test_every_switch_is_predicted(layout: str, switches: VaeSwitches) -> None:
    assert_both_are_close(layout, work(layout, 9, 4, switches=switches))


def through(step: Step, pieces: list[Tensor]) -> list[Tensor]:
    """All slices through a half; the caller keeps no more than the last two results."""
    carry, results = Carry(), []
    for index, piece in enumerate(pieces):
        carry = carry.handed_over(last=index == len(pieces) - 1)
        result, carry = step(piece, carry)
        results.append(result)
    return results


def passing(step: Step, pieces: list[Tensor]) -> None:
    """The same for somebody who keeps nothing but the newest result."""
    carry = Carry()
    for index, piece in enumerate(pieces):
        carry = carry.handed_over(last=index == len(pieces) - 1)
        _newest, carry = step(piece, carry)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", CONFIGS)
def test_halves_of_both_ways_are_predicted(layout: str, dtype: str) -> None:
    case, config = work(layout, 13, 4, dtype=dtype), CONFIGS[layout]
    fast = fast_vae(layout, case)
    clip, latent = inputs(config, case)
    latents = [latent[:, :, start:end] for start, end in slices(latent.shape[2], 1)]
    frames = [clip[0].movedim(0, 1)[start:end] for start, end in slices(case.frames, 4)]
    decoded, encoded = through(fast.decode_low, latents), through(fast.encode_high, frames)
    for cost, step, pieces in (
        (decode_low_cost, fast.decode_low, latents),
        (decode_high_cost, fast.decode_high, decoded),
        (encode_high_cost, fast.encode_high, frames),
    ):
        found = measured(lambda step=step, pieces=pieces: passing(step, pieces), fast)
        assert_close(cost(config, case), found)
    found = measured(lambda: torch.cat(through(fast.encode_low, encoded), dim=2), fast)
    assert_close(encode_low_cost(config, case), found)


@pytest.mark.parametrize("layout", CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["usual", "all off", "temporal_winograd turned over"])
def test_tables_are_counted(layout: str, dtype: str, name: str) -> None:
    switches, config = CHANGED.get(name, VaeSwitches()), CONFIGS[layout]
    double = {key: value.double() for key, value in weights_of(layout).items()}
    gc.collect()  # of earlier tests, so that nothing of theirs goes inside
    with Allocations() as found:
        fast = FastWanVae(config, double, dtype=getattr(torch, dtype), switches=switches)
    assert fast.config is config
    assert weights_bytes(config, dtype, switches) == pytest.approx(found.left_bytes, rel=0.005)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(WAN21, 126_892_531), (WAN22, 704_688_668), (WAN2X, 126_915_868)],
)
def test_the_published_models_without_folds_have_their_published_size(
    config: WanConfig, parameters: int
) -> None:
    # All off keeps nothing but the parameters; norms are float32.
    off = VaeSwitches.all_off()
    assert weights_bytes(config, "float32", off) == 4 * parameters
    halves = [
        weights_bytes(config, "float32", off, **{way: False}) for way in ("encoding", "decoding")
    ]
    assert sum(halves) == 4 * parameters


def test_slices_bound_the_peak() -> None:
    config, pixels = CONFIGS["2x"], 4 * SIZES["2x"].pixels
    short, long = (decode_cost(config, work("2x", frames, 4)) for frames in (21, 81))
    assert long.peak_bytes - short.peak_bytes <= 1.01 * 3 * 4 * 60 * pixels
    assert decode_cost(config, work("2x", 81, None)).peak_bytes > 2 * long.peak_bytes


@pytest.mark.parametrize("cost", [encode_high_cost, decode_high_cost])
def test_a_larger_tile_costs_more_in_every_part(cost: Callable[..., Cost]) -> None:
    case = work("2x", 21, 4, dtype="float16", device="cuda")
    small, large = (cost(WAN2X, replace(case, size=Size(side, side))) for side in (512, 1024))
    assert small.weights == large.weights
    assert small.activations < large.activations
    assert small.workspace < large.workspace
    assert 3.9 < large.carry / small.carry < 4.1
