"""Operations and bytes of the fast variant of the VAE: for the planner, from sizes alone.

The input is not counted, the result is. On a processor the figures are what torch's allocator is
asked for; oneDNN's own scratch comes on top. On a GPU cuDNN's workspace comes on top; not yet
compared with a GPU. In float64, and for frames of a few pixels in float32, torch convolves in
another pass, which takes more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES, Cost
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.layer_specs import (
    Part,
    SeedVr2MemoryTrace,
    SeedVr2UpsampleLayer,
    decoder_parts,
    encoder_parts,
)
from engine.models.video_vae.layer_specs import Attention, Conv
from engine.models.video_vae.workload import (
    Flops,
    VaePass,
    VaePeak,
    VaeWorkload,
    peak_of,
    slices,
)
from engine.settings.optimisations import VaeSwitches

__all__ = [
    "VaePeak",
    "VaeWorkload",
    "decode_cost",
    "decode_high_cost",
    "decode_high_peak",
    "decode_low_cost",
    "decode_low_peak",
    "decode_peak",
    "encode_cost",
    "encode_peak",
    "weights_bytes",
]


def encode_cost(config: VaeConfig, work: VaeWorkload) -> Cost:
    """Of encoding `work.frames` frames of `work.size` px to mean and log-variance."""
    return _cost(config, work, encode_peak(config, work))


def decode_cost(config: VaeConfig, work: VaeWorkload) -> Cost:
    """Of decoding to `work.frames` frames of `work.size` px."""
    return _cost(config, work, decode_peak(config, work))


def decode_low_cost(config: VaeConfig, work: VaeWorkload, *, park: bool = False) -> Cost:
    """Of the part of a split decode that sees the whole frame, `work.size` px when decoded.

    The features of all slices are part of it, or of two where they are parked in host memory.
    """
    return _cost(config, work, decode_low_peak(config, work, park=park))


def decode_high_cost(config: VaeConfig, work: VaeWorkload) -> Cost:
    """Of the part of a split decode that sees a tile, `work.size` px with its halo when decoded.

    The features are not part of it; of the result, two slices.
    """
    return _cost(config, work, decode_high_peak(config, work))


def encode_peak(config: VaeConfig, work: VaeWorkload, *, passed: bool = False) -> VaePeak:
    """Peak memory of encoding, without weights; results are joined, or `passed` on."""
    vae_pass = VaePass(
        trace=SeedVr2MemoryTrace,
        parts=encoder_parts(config),
        slices=list(slices(work.frames, work.slice_frames)),
        size=work.size,
        channels=config.in_channels,
        gather="passed" if passed else "joined",
        total=1 + (work.frames - 1) // config.temporal_factor,
        clamped=True,
    )
    return peak_of(vae_pass, work)


def decode_peak(config: VaeConfig, work: VaeWorkload, *, passed: bool = False) -> VaePeak:
    """Peak memory of decoding, without weights; results are joined, or `passed` on."""
    low, high = decoder_parts(config)
    vae_pass = _decoding([*low, *high], config, work)
    return peak_of(replace(vae_pass, gather="passed") if passed else vae_pass, work)


def decode_low_peak(config: VaeConfig, work: VaeWorkload, *, park: bool = False) -> VaePeak:
    """As `decode_low_cost`, without weights."""
    low, _ = decoder_parts(config)
    vae_pass = _decoding(low, config, work)
    return peak_of(replace(vae_pass, gather="passed" if park else "listed"), work)


def decode_high_peak(config: VaeConfig, work: VaeWorkload) -> VaePeak:
    """As `decode_high_cost`, without weights."""
    _, high = decoder_parts(config)
    vae_pass = _decoding(high, config, work)
    times = 2 if config.decoder_time[0] else 1
    slices = [(first, times * count - (times - 1) * first) for first, count in vae_pass.slices]
    width, each = config.block_out_channels[-2], config.spatial_factor // 2
    size = Size(work.size.width // each, work.size.height // each)
    vae_pass = replace(vae_pass, slices=slices, size=size, channels=width, gather="passed")
    return peak_of(vae_pass, work)


def weights_bytes(
    config: VaeConfig,
    dtype: str,
    switches: VaeSwitches,
    *,
    encoder: bool = True,
    decoder: bool = True,
    image: bool = False,
) -> int:
    """Bytes of the tables that are kept once everything is loaded.

    Args:
        config: Of the VAE.
        dtype: Of the convolutions; norms keep float32.
        switches: Folds have tables of their own.
        encoder: Count its tables.
        decoder: Count its tables.
        image: Count those that are made when the first image comes.
    """
    parts: list[Part] = encoder_parts(config) if encoder else []
    if decoder:
        parts += chain(*decoder_parts(config))
    values = sum(_numbers(part, switches, image=image) for part in parts)
    norms = sum(2 * width for part in parts for width in part.norm_widths)
    return values * DTYPE_BYTES[dtype] + norms * max(4, DTYPE_BYTES[dtype])


def _cost(config: VaeConfig, work: VaeWorkload, peak: VaePeak) -> Cost:
    image = work.frames == 1
    return peak.cost(weights_bytes(config, work.dtype, work.switches, image=image))


def _decoding(parts: list[Part], config: VaeConfig, work: VaeWorkload) -> VaePass:
    """From the latent on."""
    step, factor = config.temporal_factor, config.spatial_factor
    each = None if work.slice_frames is None else max(1, work.slice_frames // step)
    return VaePass(
        trace=SeedVr2MemoryTrace,
        parts=parts,
        slices=list(slices(1 + (work.frames - 1) // step, each)),
        size=Size(work.size.width // factor, work.size.height // factor),
        channels=config.latent_channels,
        total=work.frames,
    )


def _numbers(part: Part, switches: VaeSwitches, *, image: bool) -> int:
    """Values of the tables of a part, norms apart."""
    if isinstance(part, Attention):
        return 4 * part.width * (part.width + 1)
    if isinstance(part, SeedVr2UpsampleLayer) and switches.upsampler_fold:
        return _folded_numbers(part)
    return sum(_table_numbers(conv, switches, image=image) for conv in part.convolutions)


def _folded_numbers(up: SeedVr2UpsampleLayer) -> int:
    """Tables of an upsampler on its source's grid, see `engine.ops.conv.folds.UpsamplerFold`."""
    matrix, width, times = up.conv.inner * up.conv.outer, up.conv.outer, up.times
    reach = 1 + (up.conv.taps - 1) // times
    kernels = 4 * 4 * matrix * (times * reach + 1 + times)
    inside, borders = 4 * width, 12 * width
    return kernels + (1 + 2 * times) * (inside + borders) + 2 * times * inside


def _table_numbers(conv: Conv, switches: VaeSwitches, *, image: bool) -> int:
    taps, folds = conv.taps, switches.first_frame_fold or switches.image_mode
    if conv.taps > 1:
        taps += folds and image
        if conv.time_stride == 1:
            taps += folds + 4 * switches.temporal_winograd
    return taps * conv.kernel + conv.outer


__all__ = ["Flops", "VaeWorkload", "decode_flops", "encode_flops"]

_TAPS = 3  # per axis


def encode_flops(config: VaeConfig, work: VaeWorkload) -> Flops:
    """Operations of encoding a clip."""
    total = Flops(0, 0)
    for first, frames in slices(work.frames, work.slice_frames):
        count = _Count(work, first, frames, work.size)
        _encode(config, count)
        total += count.flops
    return total


def decode_flops(config: VaeConfig, work: VaeWorkload) -> Flops:
    """Operations of decoding to `work.frames` frames of `work.size`."""
    step = config.temporal_factor
    grid = Size(work.size.width // config.spatial_factor, work.size.height // config.spatial_factor)
    total = Flops(0, 0)
    for first, frames in slices(work.frames, work.slice_frames):
        count = _Count(work, first, (frames - first) // step + first, grid)
        _decode(config, count)
        total += count.flops
    return total


def _encode(config: VaeConfig, count: _Count) -> None:
    widths = config.block_out_channels
    count.conv(config.in_channels, widths[0])
    inner = widths[0]
    for level, width in enumerate(widths):
        for _ in range(config.layers_per_block):
            count.block(inner, width)
            inner = width
        if level < len(config.encoder_time):
            count.down(width, config.encoder_time[level])
    count.middle(inner)
    count.conv(inner, 2 * config.latent_channels)
    if config.quant_conv:
        count.point(2 * config.latent_channels, 2 * config.latent_channels)


def _decode(config: VaeConfig, count: _Count) -> None:
    widths = config.block_out_channels[::-1]
    if config.post_quant_conv:
        count.point(config.latent_channels, config.latent_channels)
    count.conv(config.latent_channels, widths[0])
    inner = widths[0]
    count.middle(inner)
    for level, width in enumerate(widths):
        for _ in range(config.layers_per_block + 1):
            count.block(inner, width)
            inner = width
        if level < len(config.decoder_time):
            count.up(width, config.decoder_time[level])
    count.conv(inner, config.out_channels)


class _Count:
    """One slice on its way through the model: its frames and size, and what it took so far."""

    def __init__(self, work: VaeWorkload, first: bool, frames: int, size: Size) -> None:
        self.flops = Flops(0, 0)
        self._switches = work.switches
        self._first, self._frames, self._size = first, frames, size

    def conv(self, inner: int, outer: int) -> None:
        """A causal 3x3x3 convolution."""
        self._add(inner * outer * _TAPS**2 * self._taps() * self._size.pixels)

    def point(self, inner: int, outer: int) -> None:
        """A 1x1x1 convolution."""
        self._add(inner * outer * self._frames * self._size.pixels)

    def block(self, inner: int, outer: int) -> None:
        """A residual block."""
        self.conv(inner, outer)
        self.conv(outer, outer)
        if inner != outer:
            self.point(inner, outer)

    def middle(self, width: int) -> None:
        """The mid block: attention of every frame between two residual blocks."""
        self.block(width, width)
        tokens = self._size.pixels
        projections, products = 4 * tokens * width**2, 2 * tokens**2 * width
        self.flops += Flops(0, 2 * self._frames * (projections + products))
        self.block(width, width)

    def down(self, width: int, time: bool) -> None:
        """A downsampler of space, and of time too."""
        self._size = Size(self._size.width // 2, self._size.height // 2)
        if time:
            self._frames = (self._frames - self._first) // 2 + self._first
        taps = self._down_taps() if time else self._frames
        self._add(width**2 * _TAPS**2 * taps * self._size.pixels)

    def up(self, width: int, time: bool) -> None:
        """An upsampler of space, and of time too."""
        subframes = 2 if time else 1
        if self._switches.upsampler_fold:
            padded = (self._size.width + 1) * (self._size.height + 1)
            self._add(self._folded_up(subframes) * 4 * width**2 * 4 * padded)
        else:
            self.point(width, 4 * subframes * width)
        self._frames = subframes * self._frames - (subframes - 1) * self._first
        self._size = self._size.scaled(2)
        if not self._switches.upsampler_fold:
            self.conv(width, width)

    def _add(self, multiplications: int) -> None:
        self.flops += Flops(2 * multiplications, 0)

    @property
    def _folds(self) -> bool:
        """Whether the copies before the clip are folded away."""
        image = self._switches.image_mode and self._frames == 1
        return self._first and (self._switches.first_frame_fold or image)

    def _taps(self) -> int:
        """Temporal taps of all frames together, for a convolution that keeps their number."""
        if not self._folds:
            return self._regular_taps(self._frames)
        if self._frames == 1:
            return 1
        return 3 + self._regular_taps(self._frames - 2)  # one product is for both of the first two

    def _regular_taps(self, frames: int) -> int:
        """The same for frames with a true past."""
        if self._switches.temporal_winograd:
            return frames // 2 * 4 + frames % 2 * _TAPS
        return _TAPS * frames

    def _down_taps(self) -> int:
        """The same for one that halves it, of which the first frame alone sees copies."""
        if not self._folds:
            return _TAPS * self._frames
        return 1 if self._frames == 1 else _TAPS * self._frames - 2

    def _folded_up(self, subframes: int) -> int:
        """Folded kernels that run: see `engine.ops.conv.folds.UpsamplerFold`."""
        sources = 1 + (_TAPS - 1) // subframes
        if not self._first:
            return subframes * sources * self._frames
        second = 2 * subframes if self._frames > 1 else 0
        return 1 + second + subframes * sources * max(0, self._frames - 2)
