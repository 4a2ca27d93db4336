"""Operations and bytes of the fast variant of a Wan VAE: for the planner, from sizes alone.

The input is not counted, the result is. On a processor the figures are what torch's allocator is
asked for; oneDNN's own scratch comes on top. On a GPU cuDNN's workspace comes on top; not yet
compared with a GPU. In float64, and for frames of a few pixels in float32, torch convolves in
another pass, which takes more.

`work.size` is always that of the frames that are encoded, or could be; the decoder that enlarges
makes larger ones of it.
"""

from __future__ import annotations

from dataclasses import replace

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES, Cost
from engine.models.video_vae.layer_specs import (
    Attention,
    Conv,
)
from engine.models.video_vae.workload import (
    Flops,
    VaePass,
    VaePeak,
    VaeWorkload,
    flops_of,
    peak_of,
    slices,
)
from engine.models.wan.vae import split
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.layer_specs import (
    Part,
    ShortcutLayer,
    WanCostTrace,
    WanUpsampleLayer,
    decoder,
    encoder,
)
from engine.settings.optimisations import VaeSwitches

__all__ = [
    "VaePeak",
    "VaeWorkload",
    "decode_cost",
    "decode_flops",
    "decode_high_cost",
    "decode_high_peak",
    "decode_low_cost",
    "decode_low_peak",
    "decode_peak",
    "decoded_features",
    "encode_cost",
    "encode_flops",
    "encode_high_cost",
    "encode_high_peak",
    "encode_low_cost",
    "encode_low_peak",
    "encode_peak",
    "encoded_features",
    "weights_bytes",
]


def encode_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of encoding `work.frames` frames to mean and log-variance."""
    halves = encoder(config)
    vae_pass = _encoding([*halves.high, *halves.low], config, work)
    return _cost(config, work, peak_of(vae_pass, work))


def decode_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of decoding to `work.frames` frames."""
    halves = decoder(config)
    vae_pass = _decoding([*halves.low, *halves.high], config, work)
    return _cost(config, work, peak_of(vae_pass, work))


def encode_high_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of the half of the encoder that sees a tile, `work.size` with its halo.

    Of the features, which are its result, two slices are counted.
    """
    return _cost(config, work, encode_high_peak(config, work))


def encode_low_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of the half of the encoder that sees whole frames, the features left out."""
    return _cost(config, work, encode_low_peak(config, work))


def decode_low_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of the half of the decoder that sees whole frames; of the features, two slices."""
    return _cost(config, work, decode_low_peak(config, work))


def decode_high_cost(config: WanConfig, work: VaeWorkload) -> Cost:
    """Of the half of the decoder that sees a tile, `work.size` with its halo.

    The features are not part of it; of the result, two slices.
    """
    return _cost(config, work, decode_high_peak(config, work))


def encode_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """Peak memory of encoding slices whose results are passed on, without weights."""
    halves = encoder(config)
    vae_pass = _encoding([*halves.high, *halves.low], config, work)
    return peak_of(replace(vae_pass, gather="passed"), work)


def decode_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """The same of decoding."""
    halves = decoder(config)
    vae_pass = _decoding([*halves.low, *halves.high], config, work)
    return peak_of(replace(vae_pass, gather="passed"), work)


def encode_high_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """As `encode_high_cost`, without weights."""
    vae_pass = _encoding(encoder(config).high, config, work)
    return peak_of(replace(vae_pass, gather="passed"), work)


def encode_low_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """As `encode_low_cost`, without weights."""
    parts, cut = encoder(config).low, split.encode_cut(config)
    vae_pass = _encoding(parts, config, work)
    slices = [(first, (count - first) // cut.time + first) for first, count in vae_pass.slices]
    vae_pass = replace(vae_pass, slices=slices)
    return peak_of(_from_features(vae_pass, work, cut, _features(parts)), work)


def decode_low_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """As `decode_low_cost`, without weights."""
    vae_pass = _decoding(decoder(config).low, config, work)
    return peak_of(replace(vae_pass, gather="passed"), work)


def decode_high_peak(config: WanConfig, work: VaeWorkload) -> VaePeak:
    """As `decode_high_cost`, without weights."""
    return peak_of(_decoding_high(config, work), work)


def _decoding_high(config: WanConfig, work: VaeWorkload) -> VaePass:
    """From the features on."""
    parts, cut = decoder(config).high, split.decode_cut(config)
    vae_pass, times = _decoding(parts, config, work), config.temporal_factor // cut.time
    slices = [(first, times * count - (times - 1) * first) for first, count in vae_pass.slices]
    vae_pass = replace(vae_pass, slices=slices, gather="passed")
    return _from_features(vae_pass, work, cut, _features(parts))


def encoded_features(config: WanConfig) -> int:
    """Channels of what passes between the halves of the encoder."""
    return _features(encoder(config).low)


def decoded_features(config: WanConfig) -> int:
    """The same of the decoder."""
    return _features(decoder(config).high)


def weights_bytes(
    config: WanConfig,
    dtype: str,
    switches: VaeSwitches,
    *,
    encoding: bool = True,
    decoding: bool = True,
) -> int:
    """Bytes of the tables that are kept once everything is loaded.

    Args:
        config: Of the VAE.
        dtype: Of the convolutions; norms keep float32.
        switches: Folds have tables of their own.
        encoding: Count the encoder's.
        decoding: Count the decoder's.
    """
    parts: list[Part] = []
    for wanted, halves in ((encoding, encoder(config)), (decoding, decoder(config))):
        parts += [*halves.low, *halves.high] if wanted else []
    values = sum(_numbers(part, switches) for part in parts)
    norms = sum(width for part in parts for width in part.norm_widths)
    return values * DTYPE_BYTES[dtype] + norms * max(4, DTYPE_BYTES[dtype])


def _cost(config: WanConfig, work: VaeWorkload, peak: VaePeak) -> Cost:
    return peak.cost(weights_bytes(config, work.dtype, work.switches))


def _encoding(parts: list[Part], config: WanConfig, work: VaeWorkload) -> VaePass:
    """From the frames on."""
    return VaePass(
        trace=WanCostTrace,
        parts=parts,
        slices=list(slices(work.frames, work.slice_frames)),
        size=work.size,
        channels=config.in_channels,
        total=1 + (work.frames - 1) // config.temporal_factor,
    )


def _decoding(parts: list[Part], config: WanConfig, work: VaeWorkload) -> VaePass:
    """From the latent on."""
    step, factor = config.temporal_factor, config.spatial_factor
    each = None if work.slice_frames is None else work.slice_frames // step
    return VaePass(
        trace=WanCostTrace,
        parts=parts,
        slices=list(slices(1 + (work.frames - 1) // step, each)),
        size=Size(work.size.width // factor, work.size.height // factor),
        channels=config.latent_channels,
        total=work.frames,
    )


def _from_features(vae_pass: VaePass, work: VaeWorkload, cut: split.Cut, channels: int) -> VaePass:
    """The same from where encoder or decoder is cut."""
    size = Size(work.size.width // cut.factor, work.size.height // cut.factor)
    return replace(vae_pass, size=size, channels=channels)


def _features(half: list[Part]) -> int:
    """Channels that a half takes which does not come first."""
    return half[0].convolutions[0].inner


def _numbers(part: Part, switches: VaeSwitches) -> int:
    """Values of the tables of a part, norms apart."""
    match part:
        case Attention(width):
            return 4 * width * (width + 1)
        case ShortcutLayer(parts):
            return sum(_numbers(step, switches) for step in parts)
        case WanUpsampleLayer(time, space) if switches.upsampler_fold:
            folded = 4 * (4 * space.inner * space.outer + space.outer)
            return folded + (_table(time, switches) if time is not None else 0)
    return sum(_table(conv, switches) for conv in part.convolutions)


def _table(conv: Conv, switches: VaeSwitches) -> int:
    """Of a convolution; zeros before a clip are folded into views of the same table."""
    winograd = switches.temporal_winograd and conv.taps > 1 and conv.time_stride == 1
    return (conv.taps + 4 * winograd) * conv.kernel + conv.outer


def encode_flops(config: WanConfig, work: VaeWorkload) -> Flops:
    """Operations of encoding a clip."""
    halves = encoder(config)
    return flops_of(_encoding([*halves.high, *halves.low], config, work), work)


def decode_flops(config: WanConfig, work: VaeWorkload) -> Flops:
    """Operations of decoding to `work.frames` frames of `work.size`, or larger ones of it."""
    halves = decoder(config)
    return flops_of(_decoding([*halves.low, *halves.high], config, work), work)
