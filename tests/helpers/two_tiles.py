"""Shots of very small VAEs, some tiles at a time, and what comes out of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.streams import SeedVr2DecodeStream, SeedVr2EncodeStream
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.upscalers import Advance, DecodedTile, no_advance
from engine.models.video_vae.slicing import slices
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.split import decode_cut, encode_cut, least_tile
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.ops.transfer.parking import Parking
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

SWITCHES = VaeSwitches(convolution="3d")
FRAME, HIGH = Size(160, 16), Size(232, 16)
WAN_FRAME = Size(80, 8)
TILES = {"tile": Size(112, 112), "span": 2}
WARM = {**TILES, "warm_up": 1}
WHOLE = {"tile": Size(208, 208), "span": 2, "is_whole": True}


@cache
def weights(family: str) -> tuple[Any, dict[str, Tensor]]:
    """Configuration and tensors of a very small VAE."""
    if family == "seedvr2":
        plain: Any = tiny_vae(dtype=torch.float32)
    else:
        plain = tiny_wan(tiny_wan_config("2x", residual_blocks=1, dim=4, dec_dim=4))
    return plain.config, {name: x.float() for name, x in plain.state_dict().items()}


def seedvr2_encoded(at_once: int, frame: Size, device: str = "cuda", **tiling: Any) -> Tensor:
    """Latents of two slices."""
    vae = FastVae(*weights("seedvr2"), device=device, switches=SWITCHES)
    parking = Parking(10**9)
    stream = SeedVr2EncodeStream(vae, frame, Tiling(**tiling, at_once=at_once), parking)
    frames = random_frames(9, 3, frame.height, frame.width, dtype=torch.float32)
    parts = [stream.push(frames[a:b].to(device), last=b == 9) for a, b in slices(9, 4)]
    parking.release()
    return torch.cat(parts)


def seedvr2_decoded(
    at_once: int,
    frame: Size,
    device: str = "cuda",
    advance: Advance = no_advance,
    **tiling: Any,
) -> Tensor:
    """Frames of three latents, and the tiles that are reported."""
    vae = FastVae(*weights("seedvr2"), device=device, switches=SWITCHES)
    parking = Parking(10**9)
    seen: list[float] = []
    stream = SeedVr2DecodeStream(
        vae,
        frame,
        Tiling(**tiling, blend=8, at_once=at_once),
        lambda tile: seen.extend(_noted(tile)),
        parking,
        advance=advance,
    )
    channels = vae.config.latent_channels
    latents = random_frames(3, frame.height // 8, frame.width // 8, channels, dtype=torch.float32)
    made = [
        frames.cpu()
        for a, b in slices(3, 1)
        for frames in stream.push(latents[a:b].to(device), last=b == 3)
    ]
    parking.release()
    return torch.cat([*(part.flatten() for part in made), torch.tensor(seen)])


def wan(at_once: int, frame: Size, device: str = "cuda", **options: Any) -> Tensor:
    """Latents and frames of two visits, and the tiles that are reported."""
    vae = FastWanVae(*weights("wan"), device=device, switches=SWITCHES)
    parking, parts, seen = Parking(10**9), list[Tensor](), list[float]()
    cut = encode_cut(vae.config)
    tile = Size(least_tile(cut) + 1, 99).scaled(cut.factor)
    about = {**options, "at_once": at_once, "parking": parking}
    encode = WanEncodeStream(vae, frame, Streaming(tile=tile, **about))
    frames = random_frames(33, 3, frame.height, frame.width, dtype=torch.float32)
    latents = [encode.push(frames[a:b].to(device), last=b == 33) for a, b in slices(33, 4)]
    cut = decode_cut(vae.config)
    tile = Size(least_tile(cut) + 1, 99).scaled(cut.factor * vae.config.upscale)
    streaming = Streaming(tile=tile, **about)
    decode = WanDecodeStream(vae, frame, streaming, lambda tile: seen.extend(_noted(tile)))
    whole = torch.cat(latents, dim=2)
    for a, b in slices(9, 4):
        parts += [frames.cpu() for frames in decode.push(whole[:, :, a:b], last=b == 9)]
    parking.release()
    return torch.cat([whole.cpu().flatten(), torch.cat(parts).flatten(), torch.tensor(seen)])


def _noted(tile: DecodedTile) -> tuple[float, ...]:
    return tile.index, tile.frame, float(tile.picture.sum())


Run = Callable[..., Tensor]
CASES: dict[str, tuple[Run, Size, dict[str, Any]]] = {
    "seedvr2-encode": (seedvr2_encoded, FRAME, TILES),
    "seedvr2-decode": (seedvr2_decoded, FRAME, TILES),
    "wan": (wan, WAN_FRAME, {"parks": True}),
    "seedvr2-encode-warm": (seedvr2_encoded, FRAME, WARM),
    "seedvr2-decode-warm": (seedvr2_decoded, FRAME, WARM),
    "seedvr2-whole-tiles": (seedvr2_decoded, HIGH, WHOLE),
    "wan-warm": (wan, WAN_FRAME, {"warm_up": 2}),
}
