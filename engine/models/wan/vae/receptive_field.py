"""Receptive field of the VAEs in time: what a job resumed inside a shot has to compute again.

Attention and norms see one frame, so only the causal convolutions count, and the resamplers of
time, which treat the first frame of a clip differently. A clip that begins inside a shot
therefore gives some wrong entries first; these functions count them, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.models.wan.vae.split import (
    decode_cut,
    decoder_high_stages,
    encode_cut,
    encoder_high_stages,
)

if TYPE_CHECKING:
    from engine.models.wan.vae.config import Stage, WanConfig

_TAPS = 2  # frames before the present one that a 3x3x3 convolution sees
_BLOCK = 2 * _TAPS
_MIDDLE = 2 * _BLOCK


def encoder_reach(config: WanConfig) -> int:
    """Latents before one that it depends on: 28 in the published models.

    The encoder begins with the last frame of the first of them.
    """
    return _encoded(config.encoder_stages, _TAPS) + _MIDDLE + _TAPS


def decoder_reach(config: WanConfig) -> int:
    """Latents before one that its frames depend on: 38 in the published models."""
    frames = _decoded(config.decoder_stages, _TAPS + _MIDDLE) + _TAPS
    return 1 + _rounded_up(frames - 1, config.temporal_factor)


def encode_warm_up(config: WanConfig) -> int:
    """Latents that encoder tiles begin early to be exact: 5 in the published models."""
    stages = config.encoder_stages[: encoder_high_stages(config)]
    each = config.temporal_factor // encode_cut(config).time
    return _rounded_up(_encoded(stages, _TAPS) - 1, each)


def decode_warm_up(config: WanConfig) -> int:
    """Latents that decoder tiles begin early to be exact: published 8 in 2.1 and 14 in 2.2."""
    time = decode_cut(config).time
    frames = _decoded(decoder_high_stages(config), 0) + _TAPS
    features = 1 + _rounded_up(frames - 1, time)
    return _rounded_up(features, config.temporal_factor // time)


def _encoded(stages: Sequence[Stage], wrong: int) -> int:
    """Wrong entries after some stages of the encoder, of `wrong` ones before them.

    Where time is halved, entry k sees 2k - 2 to 2k, and entry 0 is not what it would be later.
    """
    for stage in stages:
        wrong += stage.blocks * _BLOCK
        if stage.time:
            wrong = 1 + _rounded_up(wrong, 2)
    return wrong


def _decoded(stages: Sequence[Stage], wrong: int) -> int:
    """Wrong entries after some stages of the decoder, of `wrong` ones before them.

    Where time is doubled, entry k sees k - 2 to k but never entry 0, and becomes 2k - 1 and 2k.
    """
    for stage in stages:
        wrong += stage.blocks * _BLOCK
        if stage.time:
            wrong = 1 + 2 * (max(wrong, 1) + _TAPS - 1)
    return wrong


def _rounded_up(count: int, each: int) -> int:
    """Number of `each` that hold n."""
    return -(-count // each)
