"""The fast VAE on a card: golden numbers, half precision, memory, recordings, tiles.

Runs without av and Qt, on the golden files of this checkout and random weights.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import load_vae
from engine.models.seedvr2.vae.split_decode import split_decode
from engine.models.seedvr2.vae.split_grid import norms_of_high_part
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.tile_canvas import TileSink
from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.tensors import FloatSink

pytestmark = pytest.mark.gpu

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
CONFIG = VaeConfig(block_out_channels=(32, 64, 128, 128), norm_groups=8, layers_per_block=1)
FORMS: tuple[Convolution, ...] = ("auto", "2d", "3d")


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sliced", [False, True])
def test_golden_numbers(form: Convolution, sliced: bool) -> None:
    weights = GOLDEN / "vae_tiny_weights.safetensors"
    switches = VaeSwitches(convolution=form)
    vae = load_vae(weights, form="fast", device="cuda", switches=switches)
    if sliced:
        vae.enable_slicing()
    name = "on" if sliced else "off"
    decode = load_file(GOLDEN / "vae_tiny_decode.safetensors")
    for case in {key.split(".")[1] for key in decode}:
        found = vae.decode(decode[f"dec.{case}.latent"]).cpu()
        golden = decode[f"dec.{case}.sample_slicing_{name}"]
        torch.testing.assert_close(found.reshape(golden.shape), golden, rtol=0, atol=5e-5)
    encode = load_file(GOLDEN / "vae_tiny_encode.safetensors")
    for case in {key.split(".")[1] for key in encode}:
        found = vae.posterior(encode[f"enc.{case}.input"]).cpu()
        golden = encode[f"enc.{case}.moments_slicing_{name}"]
        torch.testing.assert_close(found, golden, rtol=0, atol=5e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("frames", [1, 9])
def test_half_precision(form: Convolution, dtype: torch.dtype, frames: int) -> None:
    half = tiny_vae(CONFIG, dtype=dtype).cuda()
    truth = tiny_vae(CONFIG)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    switches = VaeSwitches(convolution=form)
    fast = FastVae(CONFIG, half.state_dict(), device="cuda", dtype=dtype, switches=switches)
    clip = random_frames(1, 3, frames, 64, 48, dtype=dtype)
    latent = random_frames(1, 16, 1 + frames // 4, 8, 6, dtype=dtype)
    exact = truth.encode(clip.double()), truth.decode(latent.double())
    plain = half.encode(clip.cuda()).cpu(), half.decode(latent.cuda()).cpu()
    found = fast.encode(clip).cpu(), fast.decode(latent).cpu()
    for index in range(2):
        assert rms(found[index] - exact[index]) <= 1.2 * rms(plain[index] - exact[index])


def test_a_recording_gives_the_same() -> None:
    weights = tiny_vae(CONFIG, dtype=torch.float32).state_dict()
    plain = FastVae(CONFIG, weights, device="cuda")
    graphed = FastVae(CONFIG, weights, device="cuda", switches=VaeSwitches(cuda_graph=True))
    for seed in range(3):
        latent = random_frames(1, 16, 1, 8, 6, dtype=torch.float32, seed=seed)
        expected, _ = plain.decode_slice(latent, Carry(last=True))
        found, _ = graphed.decode_slice(latent, Carry(last=True))
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_steady_slices_ask_for_no_more_memory() -> None:
    weights = tiny_vae(CONFIG, dtype=torch.float16).state_dict()
    vae = FastVae(CONFIG, weights, device="cuda", dtype=torch.float16)
    carry = Carry()
    latents = random_frames(1, 16, 12, 16, 16, dtype=torch.float16).cuda()
    reserved = []
    for start in range(12):
        frames, carry = vae.decode_slice(latents[:, :, start : start + 1], carry.handed_over())
        del frames
        torch.cuda.synchronize()
        reserved.append(torch.cuda.memory_reserved())
    assert len(set(reserved[3:])) == 1


def test_tiles_leave_the_card() -> None:
    config = VaeConfig(block_out_channels=(8, 8, 12, 16), norm_groups=4, layers_per_block=1)
    vae = FastVae(config, tiny_vae(config, dtype=torch.float32).state_dict(), device="cuda")
    latent = random_frames(1, 16, 3, 18, 24, dtype=torch.float32)
    whole = vae.decode(latent)[0].movedim(0, 1).cpu()
    size = Size(192, 144)
    exact, codes = FloatSink(9, size), TileSink(9, size)
    for sink in (exact, codes):
        split_decode(
            vae,
            latent,
            tile=Size(128, 128),
            blend=8,
            tile_statistics="frame",
            sink=sink,
            passes=norms_of_high_part(config),  # then tiles are exact
        )
    assert rms(exact.result().cpu() - whole) < 1e-4 * rms(whole)
    scaled = ((whole.movedim(1, -1) + 1) / 2).clamp(0, 1) * 65535
    assert (codes.result().double() - scaled).abs().mean() < 16
