"""How many floating-point operations a Wan VAE takes, from its sizes alone.

One multiply-add is two. Convolutions, projections and products of the attention count; norms,
activations and the shortcuts of stages do not. A tap that lies on padding counts, as it does for
those who run it.
"""

from __future__ import annotations

from engine.core.geometry import Size
from engine.models.video_vae.layer_specs import (
    TAPS,
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
)
from engine.models.video_vae.workload import Flops, Work, slices
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.layer_specs import (
    Around,
    Down,
    Part,
    Patches,
    Up,
    decoder,
    encoder,
)


def encode_flops(config: WanConfig, work: Work) -> Flops:
    """Operations of encoding a clip."""
    halves, count = encoder(config), _WanCount(work, work.size)
    for first, frames in slices(work.frames, work.slice_frames):
        count.run([*halves.high, *halves.low], frames, first=first)
    return count.flops


def decode_flops(config: WanConfig, work: Work) -> Flops:
    """Operations of decoding to `work.frames` frames of `work.size`, or larger ones of it."""
    step, factor = config.temporal_factor, config.spatial_factor
    each = None if work.slice_frames is None else work.slice_frames // step
    halves = decoder(config)
    count = _WanCount(work, Size(work.size.width // factor, work.size.height // factor))
    for first, latents in slices(1 + (work.frames - 1) // step, each):
        count.run([*halves.low, *halves.high], latents, first=first)
    return count.flops


class _WanCount:
    """A clip on its way through the model, slice by slice: what it took so far."""

    def __init__(self, work: Work, size: Size) -> None:
        self.flops = Flops(0, 0)
        self._switches = work.switches
        self._start = self._size = size
        self._frames, self._first = 0, True
        self._alone: set[str] = set()  # convolutions over time that saw nothing yet

    def run(self, parts: list[Part], frames: int, *, first: bool) -> None:
        """One slice through all parts."""
        self._frames, self._size, self._first = frames, self._start, first
        for part in parts:
            self._part(part)

    def _part(self, part: Part) -> None:
        match part:
            case Entry() | Exit() | Block():
                for conv in part.convolutions:
                    self._conv(conv, self._frames, begins=self._first)
            case Attention(width):
                self._attention(width)
            case Down():
                self._down(part)
            case Up():
                self._up(part)
            case Around(parts):
                for step in parts:
                    self._part(step)
            case Patches(side, False):
                self._size = Size(self._size.width // side, self._size.height // side)

    def _attention(self, width: int) -> None:
        tokens = self._size.pixels
        projections, products = 4 * tokens * width**2, 2 * tokens**2 * width
        self.flops += Flops(0, 2 * self._frames * (projections + products))

    def _down(self, down: Down) -> None:
        """Space, then time: a clip's first frame goes past the convolution over time."""
        self._size = Size(self._size.width // 2, self._size.height // 2)
        self._conv(down.space, self._frames, begins=False)
        if down.time is not None:
            steps = (self._frames - self._first) // 2
            self._add(down.time.kernel * TAPS * steps * self._size.pixels)
            self._frames = steps + self._first

    def _up(self, up: Up) -> None:
        """Time, then space: a clip's first frame goes past the convolution over time."""
        if up.time is not None:
            frames = self._frames - self._first
            begins = self._first or up.time.name in self._alone
            self._conv(up.time, frames, begins=begins)
            if begins:
                (self._alone.discard if frames else self._alone.add)(up.time.name)
            self._frames += frames
        if self._switches.upsampler_fold:
            padded = (self._size.width + 1) * (self._size.height + 1)
            self._add(self._frames * up.space.kernel // 9 * 16 * padded)
            self._size = self._size.scaled(2)
        else:
            self._size = self._size.scaled(2)
            self._conv(up.space, self._frames, begins=False)

    def _conv(self, conv: Conv, frames: int, *, begins: bool) -> None:
        """A convolution that keeps size and number of frames, or has its size already."""
        taps = self._taps(frames, begins=begins) if conv.taps > 1 else frames
        self._add(conv.kernel * taps * self._size.pixels)

    def _add(self, multiplications: int) -> None:
        self.flops += Flops(2 * multiplications, 0)

    def _taps(self, frames: int, *, begins: bool) -> int:
        """Taps over time of so many frames together, those that see nothing but zeros folded."""
        image = self._switches.image_mode and frames == 1
        if not begins or not (self._switches.first_frame_fold or image):
            return self._regular_taps(frames)
        known = min(frames, TAPS - 1)
        return sum(range(1, known + 1)) + self._regular_taps(frames - known)

    def _regular_taps(self, frames: int) -> int:
        """The same for frames with a past."""
        if self._switches.temporal_winograd:
            return frames // 2 * 4 + frames % 2 * TAPS
        return TAPS * frames
