"""Each fast VAE on a GPU: golden values, half precision, halves, tiles.

Runs without av and Qt, on the golden files of this checkout and random weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.models.seedvr2.vae.load import load_vae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.vaes import (
    EACH,
    EACH_TILED,
    VaeRow,
    clip_of,
    latent_of,
    shot_of,
    streamed,
)

pytestmark = pytest.mark.gpu

GOLDEN = Path(__file__).parents[3] / "golden" / "seedvr2"
FORMS: tuple[Convolution, ...] = ("auto", "2d", "3d")
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


def inputs(config: Any, frames: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A clip and a latent."""
    latent = latent_of(config, 1 + frames // 4, 8, 6, dtype=dtype)
    return clip_of(config, frames, 8, 6, dtype=dtype), latent


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


@EACH
@EVERY_FORM
def test_single_precision_is_the_truth_but_for_rounding(row: VaeRow, form: Convolution) -> None:
    truth = row.plain(row.wide)
    clip, latent = inputs(row.wide, 9, torch.float32)
    exact = truth.posterior(clip.double()), truth.decode(latent.double())
    switches = VaeSwitches(convolution=form)
    vae = row.fast(truth, switches, device="cuda", dtype=torch.float32)
    for size in (None, 4):
        if size is not None:
            vae.enable_slicing(size)
        for found, right in zip((vae.posterior(clip), vae.decode(latent)), exact, strict=True):
            assert (found.cpu() - right).abs().max() < 1e-4 * max(1.0, float(right.abs().max()))


@EACH
@EVERY_FORM
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_half_precision(row: VaeRow, form: Convolution, dtype: torch.dtype) -> None:
    half, truth = row.plain(row.wide, dtype=dtype).cuda(), row.plain(row.wide)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    switches = VaeSwitches(convolution=form)
    fast = row.fast(half, switches, device="cuda", dtype=dtype)
    for frames in (1, 9):
        clip, latent = inputs(row.wide, frames, dtype)
        exact = truth.encode(clip.double()), truth.decode(latent.double())
        plain = half.encode(clip.cuda()).cpu(), half.decode(latent.cuda()).cpu()
        found = fast.encode(clip).cpu(), fast.decode(latent).cpu()
        for index in range(2):
            assert rms(found[index] - exact[index]) <= 1.2 * rms(plain[index] - exact[index])


@EACH
def test_halves_make_the_whole(row: VaeRow) -> None:
    vae = row.fast(row.plain(row.wide), device="cuda", dtype=torch.float16)
    _, latent = inputs(row.wide, 9, torch.float16)
    features, _ = vae.decode_low(latent, Carry(last=True))
    pictures, _ = vae.decode_high(features.cpu(), Carry(last=True))
    whole = vae.decode(latent)[0].movedim(1, 0)
    assert rms(pictures - whole) < 1e-3 * rms(whole)


@EACH_TILED
def test_tiles_are_those_of_the_processor(row: VaeRow, side: str) -> None:
    found = []
    for device in ("cuda", "cpu"):
        plain = row.plain(row.streamed, dtype=torch.float32)
        vae = row.fast(plain, device=device, dtype=torch.float32)
        given = shot_of(row, side, 3, row.tiled[side].frame).float().to(device)
        with torch.inference_mode():
            found.append(streamed(row, side, vae, given, **row.tiled[side].options))
    assert (found[0] - found[1]).abs().mean() < 16 * 2 / 65535
