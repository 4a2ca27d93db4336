"""Predicted bytes of streams of one way against what torch's allocator is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.core.geometry import Size
from engine.models.wan.requirements import decode_needs, encode_needs
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.models.wan.vae_memory import Pass
from tests.helpers.extended import extended
from tests.helpers.memory import Allocations
from tests.helpers.wan import tiny_wan, tiny_wan_config

CONFIG = tiny_wan_config("2x", dim=8, dec_dim=8, residual_blocks=1)
FRAME = Size(112, 104)
LATENTS = 17  # two visits
TILE = 88


@pytest.fixture(scope="module")
def vae() -> FastWanVae:
    return FastWanVae(CONFIG, tiny_wan(CONFIG, dtype=torch.float32).state_dict())


def assert_covers(vae: FastWanVae, way: str, tile: Size, options: dict[str, Any]) -> None:
    frame = {"config": CONFIG, "frame": FRAME, "device": "cpu", "dtype": "float32"}
    decodes = way == "decode"
    needs = (decode_needs if decodes else encode_needs)(Pass(**frame, tile=tile, **options))
    stream = (WanDecodeStream if decodes else WanEncodeStream)(
        vae, FRAME, Streaming(tile=tile, **options)
    )
    latents = torch.zeros(1, CONFIG.latent_channels, 1, FRAME.height // 8, FRAME.width // 8)
    frames = torch.zeros(5, 3, FRAME.height, FRAME.width)
    vae.release()
    with Allocations() as found:
        for index in range(LATENTS):
            piece = latents if decodes else frames[: 5 if index == 0 else 4]
            for part in stream.push(piece, last=index == LATENTS - 1):
                del part  # the caller's, not the stream's
    held = 0 if decodes else 4 * FRAME.pixels * 12  # the caller's frames, which were there before
    taken = found.peak_bytes + held
    predicted = needs.stages[way] - needs.weights + needs.hosts[way]
    assert taken <= predicted <= 1.10 * taken, f"{predicted / taken:.3f}"


@pytest.mark.parametrize("options", [{}, *extended({"warm_up": 4})])
def test_decoding_takes_no_more_than_predicted(vae: FastWanVae, options: dict[str, Any]) -> None:
    assert_covers(vae, "decode", Size(2 * TILE, 2 * TILE), options)


def test_encoding_takes_no_more_than_predicted(vae: FastWanVae) -> None:
    assert_covers(vae, "encode", Size(TILE, TILE), {"parks": True})
