"""Shots of SwiftVR on the pretended GPU: the processor's pictures, whatever holds the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.swiftvr.chunks import ChunkGrid
from engine.models.swiftvr.load import SwiftOptions, load_reae, load_swift_dit
from engine.models.swiftvr.shot import Shot
from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.swiftvr.vae.fast import FastReae
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import rest_extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import PROMPT, TINY_DIT, tiny_reae, write_dit, written
from tests.helpers.tensors import relative_rms
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

SIZES = replace(TINY_DIT, channels=8, head_dim=32, hidden=96, text_dim=16)  # GPUs multiply by 8
REAE = ReaeConfig(encoder_width=8, decoder_widths=(32, 24, 16, 8), latent_channels=8)
STREAMED = {"blocks_on_device": 1, "pin_bytes": 10**7}
# Type, options of the transformer, and the largest difference in units of the result.
CASES: dict[str, tuple[torch.dtype, dict[str, Any], float]] = {
    "resident": (torch.float32, {}, 1e-4),
    "streamed": (torch.float32, STREAMED, 1e-4),
    "float16": (torch.float16, {}, 3e-3),
    "float16, streamed": (torch.float16, STREAMED, 3e-3),
    "int8": (torch.float32, {"products": "int8"}, 3e-2),
    "fp8, streamed": (torch.float16, {"products": "fp8", **STREAMED}, 6e-2),
}


def shot_of(folder: Path, frames: Tensor, dtype: torch.dtype, device: str, **about: Any) -> Tensor:
    options, switches = SwiftOptions(attention="math", **about), VaeSwitches(convolution="3d")
    place: dict[str, Any] = {"device": device, "dtype": dtype}
    vae = load_reae(folder / "reae.safetensors", form="fast", switches=switches, **place)
    dit = load_swift_dit(folder / "dit.safetensors", folder / PROMPT, options=options, **place)
    shot = Shot(vae, dit, ChunkGrid(2))
    parts = []
    for start in range(0, len(frames), 6):
        some = frames[start : start + 6].to(device, dtype)
        parts += [one.frames.cpu() for one in shot.push(some, last=start + 6 >= len(frames))]
    vae.release()
    dit.close()
    return torch.cat(parts)


@pytest.mark.parametrize("case", rest_extended(CASES, "float16, streamed"))
def test_a_shot_gives_what_the_processor_gives(case: str, tmp_path: Path) -> None:
    dtype, options, most = CASES[case]
    written(tmp_path / "reae.safetensors", tiny_reae(REAE))
    write_dit(tmp_path / "dit.safetensors", SIZES)
    frames = (random_frames(15, 3, 32, 64).float() + 1) / 2
    wanted = shot_of(tmp_path, frames, torch.float32, "cpu")
    with pretended_gpu() as gpu, torch.inference_mode():
        found = shot_of(tmp_path, frames, dtype, "cuda", **options)
    assert found.shape == wanted.shape == frames.shape
    assert relative_rms(found, wanted) <= most
    assert not gpu.record.problems


def test_memory_blocks_are_convolved_by_the_kernel() -> None:
    """Their past lies beside the frames; slices and the whole clip are as on the processor."""
    plain = tiny_reae(REAE)
    frames = (random_frames(1, 3, 12, 32, 64) + 1) / 2
    latent = random_frames(1, REAE.latent_channels, 3, 2, 4)
    wanted = plain.encode(frames), plain.decode(latent)
    place: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
    with pretended_gpu() as gpu, torch.inference_mode():
        switches = VaeSwitches(convolution="kernel")
        vae = FastReae(REAE, plain.state_dict(), switches=switches, **place)
        for size in (None, 4):
            vae.disable_slicing() if size is None else vae.enable_slicing(size)
            for found, right in zip(
                (vae.encode(frames.half()), vae.decode(latent.half())), wanted, strict=True
            ):
                assert relative_rms(found.cpu(), right) < 6e-3
        launches = gpu.record.launches
        assert launches["kernel convolve"] > 10 * launches["convolution"]  # of three colours
    assert not gpu.record.problems
