"""Predicted bytes of streams of one way against what torch's allocator is asked for."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from engine.core.geometry import Size
from engine.models.planning.memory import Needs
from engine.models.wan.planning.requirements import decode_needs, encode_needs
from engine.models.wan.planning.vae_memory import Pass
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from tests.helpers.memory import Allocations
from tests.helpers.wan import tiny_wan, tiny_wan_config

CONFIG = tiny_wan_config("2x", dim=8, dec_dim=8, residual_blocks=1)
FRAME = Size(192, 160)
LATENTS = 17  # two visits
TILE = 112
WAYS = {"tiles": {}, "tiles that begin early": {"warm_up": 4}, "tiles, parked": {"parks": True}}


@pytest.fixture(scope="module")
def vae() -> FastWanVae:
    return FastWanVae(CONFIG, tiny_wan(CONFIG, dtype=torch.float32).state_dict())


def passing(tile: Size, **options: Any) -> Pass:
    frame = {"config": CONFIG, "frame": FRAME, "device": "cpu", "dtype": "float32"}
    return Pass(**{**frame, **options}, tile=tile)


def assert_covers(needs: Needs, stage: str, found: int) -> None:
    predicted = needs.stages[stage] - needs.weights + needs.hosts[stage]
    assert found <= predicted <= 1.10 * found, f"{predicted / found:.3f}"


@pytest.mark.parametrize("way", [WAYS["tiles"], WAYS["tiles that begin early"]])
def test_decoding_a_stream_takes_no_more(vae: FastWanVae, way: dict[str, Any]) -> None:
    tile = Size(2 * TILE, 2 * TILE)
    stream = WanDecodeStream(vae, FRAME, Streaming(tile=tile, **way))
    latents = torch.zeros(1, CONFIG.latent_channels, 1, FRAME.height // 8, FRAME.width // 8)
    vae.release()
    gc.collect()
    with Allocations() as found:
        for index in range(LATENTS):
            for frame in stream.push(latents, last=index == LATENTS - 1):
                del frame  # the caller's, not the stream's
    assert_covers(decode_needs(passing(tile, **way)), "decode", found.peak_bytes)


@pytest.mark.parametrize("way", [WAYS["tiles, parked"]], ids=["tiles, parked"])
def test_encoding_a_stream_takes_no_more(vae: FastWanVae, way: dict[str, Any]) -> None:
    tile = Size(TILE, TILE)
    stream = WanEncodeStream(vae, FRAME, Streaming(tile=tile, **way))
    frames = torch.zeros(5, 3, FRAME.height, FRAME.width)
    vae.release()
    gc.collect()
    with Allocations() as found:
        for index in range(LATENTS):
            stream.push(frames[: 5 if index == 0 else 4], last=index == LATENTS - 1)
    held = 4 * FRAME.pixels * 12  # the caller's frames, which were there before
    assert_covers(encode_needs(passing(tile, **way)), "encode", found.peak_bytes + held)
