"""Streams of a shot on a GPU: tiles with carries and features in host memory.

Runs without av and Qt, on random weights.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.split import decode_cut, encode_cut, least_tile
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

pytestmark = pytest.mark.gpu

FRAME = Size(192, 96)
FRAMES = 73  # three visits


def there_and_back(vae: FastWanVae, encode: Streaming, decode: Streaming) -> tuple[Tensor, Tensor]:
    """Latents and frames of a shot, on the host."""
    frames = random_frames(FRAMES, 3, FRAME.height, FRAME.width, dtype=torch.float32).cuda()
    to, back = WanEncodeStream(vae, FRAME, encode), WanDecodeStream(vae, FRAME, decode)
    latents: list[Tensor] = []
    pictures: list[Tensor] = []
    for end in range(1, FRAMES + 1, 4):
        last = end == FRAMES
        found = to.push(frames[max(0, end - 4) : end], last=last)
        assert found.device.type == "cuda"
        latents.append(found.cpu())
        for part in back.push(found, last=last):
            assert part.device.type == "cuda"
            assert part.dtype == torch.float32
            pictures.append(part.cpu())
    return torch.cat(latents, dim=2), torch.cat(pictures)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["fp32", "fp16"])
def test_tiles_equal_whole_frames(dtype: torch.dtype) -> None:
    config = tiny_wan_config("2x", dim=16, dec_dim=16, residual_blocks=1)
    vae = FastWanVae(config, tiny_wan(config).state_dict(), device="cuda", dtype=dtype)
    sides = [(least_tile(cut) + 5) * cut.factor for cut in (encode_cut(config), decode_cut(config))]
    whole = there_and_back(vae, Streaming(), Streaming())
    limit = 1e-5 if dtype == torch.float32 else 5e-3
    for warm_up, parks in ((0, False), (0, True), (14, True)):
        encode = Streaming(tile=Size(sides[0], sides[0]), warm_up=warm_up, parks=parks)
        decode = replace(encode, tile=Size(2 * sides[1], 2 * sides[1]))
        for found, right in zip(there_and_back(vae, encode, decode), whole, strict=True):
            assert found.shape == right.shape
            assert (found - right).norm() <= limit * right.norm()
