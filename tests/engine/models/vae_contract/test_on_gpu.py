"""The fast VAEs on a GPU: golden values, half precision, halves, tiles.

Runs without av and Qt, on the golden files of this checkout and random weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import load_vae
from engine.models.seedvr2.vae.streams import SeedVr2DecodeStream
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

pytestmark = pytest.mark.gpu

GOLDEN = Path(__file__).parents[3] / "golden" / "seedvr2"
FORMS: tuple[Convolution, ...] = ("auto", "2d", "3d")
WIDE = {"dim": 16, "dec_dim": 16, "residual_blocks": 1}  # the kernels take multiples of 8
SEEDVR2 = VaeConfig(block_out_channels=(32, 64, 128, 128), norm_groups=8, layers_per_block=1)
# Configuration, plain and fast variant.
MODELS: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "seedvr2": (SEEDVR2, tiny_vae, FastVae),
    "wan 2.1": (tiny_wan_config("2.1", **WIDE), tiny_wan, FastWanVae),
    "wan 2.2": (tiny_wan_config("2.2", **WIDE), tiny_wan, FastWanVae),
    "wan 2x": (tiny_wan_config("2x", **WIDE), tiny_wan, FastWanVae),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


def inputs(config: Any, frames: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A clip and a latent."""
    side, steps = config.spatial_factor, 1 + frames // 4
    clip = random_frames(1, 3, frames, 8 * side, 6 * side, dtype=dtype)
    return clip, random_frames(1, config.latent_channels, steps, 8, 6, dtype=dtype)


@EVERY_FORM
def test_golden_values(form: Convolution) -> None:
    switches = VaeSwitches(convolution=form)
    path = GOLDEN / "vae_tiny_weights.safetensors"
    vae = load_vae(path, form="fast", device="cuda", switches=switches)
    decode = load_file(GOLDEN / "vae_tiny_decode.safetensors")
    encode = load_file(GOLDEN / "vae_tiny_encode.safetensors")
    for slicing in ("off", "on"):
        vae.enable_slicing() if slicing == "on" else vae.disable_slicing()
        for case in {key.split(".")[1] for key in decode}:
            found = vae.decode(decode[f"dec.{case}.latent"]).cpu()
            golden = decode[f"dec.{case}.sample_slicing_{slicing}"]
            torch.testing.assert_close(found.reshape(golden.shape), golden, rtol=0, atol=5e-5)
        for case in {key.split(".")[1] for key in encode}:
            found = vae.posterior(encode[f"enc.{case}.input"]).cpu()
            golden = encode[f"enc.{case}.moments_slicing_{slicing}"]
            torch.testing.assert_close(found, golden, rtol=0, atol=5e-5)


@pytest.mark.parametrize("name", ["wan 2.1", "wan 2.2", "wan 2x"])
@EVERY_FORM
def test_single_precision_is_the_truth_but_for_rounding(name: str, form: Convolution) -> None:
    config, plain_of, fast_of = MODELS[name]
    truth = plain_of(config)
    clip, latent = inputs(config, 9, torch.float32)
    exact = truth.posterior(clip.double()), truth.decode(latent.double())
    switches = VaeSwitches(convolution=form)
    vae = fast_of(config, truth.state_dict(), device="cuda", switches=switches)
    for size in (None, 4):
        if size is not None:
            vae.enable_slicing(size)
        assert (vae.posterior(clip).cpu() - exact[0]).abs().max() < 1e-4
        assert (vae.decode(latent).cpu() - exact[1]).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["seedvr2", "wan 2.1", "wan 2.2"])
@EVERY_FORM
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_half_precision(name: str, form: Convolution, dtype: torch.dtype) -> None:
    config, plain_of, fast_of = MODELS[name]
    half, truth = plain_of(config, dtype=dtype).cuda(), plain_of(config)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    switches = VaeSwitches(convolution=form)
    fast = fast_of(config, half.state_dict(), device="cuda", dtype=dtype, switches=switches)
    for frames in (1, 9):
        clip, latent = inputs(config, frames, dtype)
        exact = truth.encode(clip.double()), truth.decode(latent.double())
        plain = half.encode(clip.cuda()).cpu(), half.decode(latent.cuda()).cpu()
        found = fast.encode(clip).cpu(), fast.decode(latent).cpu()
        for index in range(2):
            assert rms(found[index] - exact[index]) <= 1.2 * rms(plain[index] - exact[index])


def test_halves_make_the_whole() -> None:
    config, plain_of, fast_of = MODELS["wan 2.1"]
    vae = fast_of(config, plain_of(config).state_dict(), device="cuda", dtype=torch.float16)
    _, latent = inputs(config, 9, torch.float16)
    features, _ = vae.decode_low(latent, Carry(last=True))
    pictures, _ = vae.decode_high(features.cpu(), Carry(last=True))
    whole = vae.decode(latent)[0].movedim(1, 0)
    assert rms(pictures - whole) < 1e-3 * rms(whole)


def test_tiles_leave_the_gpu() -> None:
    config = VaeConfig(block_out_channels=(8, 8, 12, 16), norm_groups=4, layers_per_block=1)
    weights = tiny_vae(config, dtype=torch.float32).state_dict()
    latents = random_frames(3, 18, 24, 16, dtype=torch.float32)
    found = []
    for device in ("cuda", "cpu"):
        vae, tiling = FastVae(config, weights, device=device), Tiling(tile=Size(128, 128), blend=8)
        stream = SeedVr2DecodeStream(vae, Size(192, 144), tiling, lambda _: None)
        with torch.inference_mode():
            found.append(torch.cat(list(stream.push(latents.to(device), last=True))).cpu())
    assert (found[0] - found[1]).abs().mean() < 16 * 2 / 65535
