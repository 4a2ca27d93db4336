"""How many floating-point operations the VAE takes, from its sizes alone.

One multiply-add is two. Convolutions, projections and products of the attention count; norms and
activations do not. A tap that lies on padding counts, as it does for those who run it.
"""

from __future__ import annotations

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.workload import Flops, Work, slices

__all__ = ["Flops", "Work", "decode_flops", "encode_flops"]

_TAPS = 3  # per axis


def encode_flops(config: VaeConfig, work: Work) -> Flops:
    """Operations of encoding a clip."""
    total = Flops(0, 0)
    for first, frames in slices(work.frames, work.slice_frames):
        count = _Count(work, first, frames, work.size)
        _encode(config, count)
        total += count.flops
    return total


def decode_flops(config: VaeConfig, work: Work) -> Flops:
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

    def __init__(self, work: Work, first: bool, frames: int, size: Size) -> None:
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
