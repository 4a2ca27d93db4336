"""How far back in time the VAE looks: what a job that begins again inside a shot has to redo.

Attention and norms look at one frame, so only the causal convolutions count: one with three taps
in time looks two frames back, at the rate of its level.
"""

from __future__ import annotations

from engine.models.seedvr2.vae.config import VaeConfig

_TAPS = 2  # frames before the present one that a 3x3x3 convolution sees
_MIDDLE = 4 * _TAPS  # two residual blocks of two convolutions


def decoder_reach(config: VaeConfig) -> int:
    """Latents before one that its frames depend on: 37 in the published model.

    Counted backwards from the picture; an upsampler that doubles time halves the number.
    """
    layers = config.layers_per_block + 1
    reach = _TAPS  # conv_out
    for level in reversed(range(len(config.block_out_channels))):
        if level < len(config.decoder_time):
            reach += _TAPS  # the upsampler's convolution
            if config.decoder_time[level]:
                reach = -(-reach // 2)
        reach += 2 * layers * _TAPS
    return reach + _MIDDLE + _TAPS


def encoder_reach(config: VaeConfig) -> int:
    """Latents before one that it depends on: 28 in the published model.

    Counted backwards from the latent; a downsampler that halves time doubles the number.
    """
    reach = _TAPS + _MIDDLE
    for level in reversed(range(len(config.block_out_channels))):
        if level < len(config.encoder_time) and config.encoder_time[level]:
            reach = 2 * reach + _TAPS
        reach += 2 * config.layers_per_block * _TAPS
    return -(-(reach + _TAPS) // config.temporal_factor)
