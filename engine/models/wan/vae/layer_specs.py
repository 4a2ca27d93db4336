"""Layers of the Wan VAEs as data, as the fast variant runs them, and the bytes they take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.core.geometry import Size
from engine.models.video_vae.cost_trace import CostTrace
from engine.models.video_vae.layer_specs import (
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
    blocks,
    middle,
    point,
)
from engine.models.wan.vae import split
from engine.models.wan.vae.config import Stage, WanConfig


@dataclass(frozen=True, slots=True)
class Down:
    """Half the height and width, and with `time` half the frames but the first."""

    space: Conv
    time: Conv | None

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has."""
        return (self.space,) if self.time is None else (self.space, self.time)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


@dataclass(frozen=True, slots=True)
class WanUpsampleLayer:
    """With `time` twice the frames but the first; then twice the height and width."""

    time: Conv | None
    space: Conv

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has when unfolded."""
        return (self.space,) if self.time is None else (self.time, self.space)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


@dataclass(frozen=True, slots=True)
class Patches:
    """Squares of pixels become channels, or with `back` channels become squares."""

    side: int
    back: bool

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """None."""
        return ()

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """None."""
        return ()


@dataclass(frozen=True, slots=True)
class ShortcutLayer:
    """Layers of a stage of Wan 2.2 and its shortcut, which has no weights.

    Attributes:
        parts: In order.
        repeats: The shortcut repeats its input to the shape of the result, else it averages it.
    """

    parts: tuple[Block | Down | WanUpsampleLayer, ...]
    repeats: bool

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """Those of all parts."""
        return tuple(conv for part in self.parts for conv in part.convolutions)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Those of all parts."""
        return tuple(width for part in self.parts for width in part.norm_widths)


Part = Entry | Exit | Block | Attention | Down | WanUpsampleLayer | Patches | ShortcutLayer
Steps = list[Block | Down | WanUpsampleLayer]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitLayers:
    """The parts of encoder or decoder: those that see whole frames, those that may see tiles."""

    low: list[Part]
    high: list[Part]


def encoder(config: WanConfig) -> SplitLayers:
    """Layers from frames to mean and log-variance; the high half comes first."""
    stages, whole = config.encoder_stages, split.encoder_high_stages(config)
    first, last = stages[0].inner, stages[-1].result
    high: list[Part] = [Patches(config.patch, back=False)] if config.patch > 1 else []
    colours = config.in_channels * config.patch**2
    high.append(Entry(Conv(name="conv1", inner=colours, outer=first)))
    low: list[Part] = []
    for index, stage in enumerate(stages):
        steps = _residuals(f"{index}", stage)
        if stage.space:
            steps.append(_down(f"{index}.down", stage))
        half = high if index < whole else low
        half += (
            [ShortcutLayer(tuple(steps), repeats=False)] if config.has_stage_shortcuts else steps
        )
    outer = 2 * config.latent_channels
    low += middle(last)
    low.append(Exit(Conv(name="head", inner=last, outer=outer)))
    low.append(Entry(point("top", outer, outer)))
    return SplitLayers(low=low, high=high)


def decoder(config: WanConfig) -> SplitLayers:
    """From a latent to frames; the low half comes first."""
    stages, whole = config.decoder_stages, split.decoder_low_stages(config)
    latent, first = config.latent_channels, stages[0].inner
    low: list[Part] = [Entry(point("top", latent, latent))]
    low += [Entry(Conv(name="conv1", inner=latent, outer=first)), *middle(first)]
    high: list[Part] = []
    for index, stage in enumerate(stages):
        steps = _residuals(f"{index}", stage)
        if index == whole and split.is_cut_inside(config):
            low += steps
            steps = []
        if stage.space:
            steps.append(_up(f"{index}.up", stage))
        has_shortcut = config.has_stage_shortcuts and stage.space
        half = low if index < whole else high
        half += [ShortcutLayer(tuple(steps), repeats=True)] if has_shortcut else steps
    colours = config.out_channels * config.patch**2
    high.append(Exit(Conv(name="head", inner=stages[-1].result, outer=colours)))
    if config.patch * config.upscale > 1:
        high.append(Patches(config.patch * config.upscale, back=True))
    return SplitLayers(low=low, high=high)


def _residuals(name: str, stage: Stage) -> Steps:
    return [*blocks(name, (stage.inner, stage.outer), stage.blocks)]


def _down(name: str, stage: Stage) -> Down:
    widths = {"inner": stage.outer, "outer": stage.result}
    time = Conv(name=f"{name}.time", **widths, side=1, time_stride=2) if stage.time else None
    return Down(Conv(name=name, **widths, taps=1, space_stride=2), time)


def _up(name: str, stage: Stage) -> WanUpsampleLayer:
    wide = 2 * stage.outer
    time = Conv(name=f"{name}.time", inner=stage.outer, outer=wide, side=1) if stage.time else None
    return WanUpsampleLayer(time, Conv(name=name, inner=stage.outer, outer=stage.result, taps=1))


_PHASE_BYTES = 96 * 2**20  # as in enlarge
_PHASES = 4  # sub-pixels of a pixel, each with as many taps


class WanCostTrace(CostTrace):
    """One slice on its way through a Wan VAE."""

    past = "zeros"

    def norm_bytes(self, channels: int, *, silu: bool = True) -> int:
        """What a norm takes in addition to its input and its result."""
        if self.switches.fused_norm:
            return super().norm_bytes(channels, silu=silu)
        return 2 * self.frames * self.frame_bytes(channels + 1)  # and lengths of positions

    def part(self, part: object) -> None:
        """Through one part."""
        match part:
            case Down():
                self._down(part)
            case WanUpsampleLayer():
                self._up(part)
            case Patches(side, back):
                self._patches(side, back=back)
            case ShortcutLayer():
                self._around(part)
            case _:
                super().part(part)

    def _patches(self, side: int, *, back: bool) -> None:
        """The same values in another order."""
        whole, squares = self.stream_bytes, side * side
        with self.live.held("stream", whole, "patches"):
            pass
        if back:
            self.channels, self.size = self.channels // squares, self.size.scaled(side)
        else:
            self.channels *= squares
            self.size = Size(self.size.width // side, self.size.height // side)

    def _down(self, down: Down) -> None:
        self.entry(down.space)
        if down.time is None:
            return
        conv, frame, before = down.time, self.frame_bytes(self.channels), self.stream_bytes
        steps = (self.frames - self.first) // conv.time_stride
        self.count(conv, conv.kernel * conv.taps * steps * self.size.pixels)
        if self.first:  # nothing stands before it, and frame 0 goes past it
            self.keep(conv.name, conv.history * frame)
            self.apply(conv, conv.taps, steps, "stream")
            with self.live.held("stream", (1 + steps) * frame, conv.name):
                pass
        else:
            with self.window(conv, norm=False):
                self.apply(conv, conv.taps, steps, "stream")
        self.frames = steps + self.first
        self.live.drop("stream", before + steps * frame - self.stream_bytes)

    def _up(self, up: WanUpsampleLayer) -> None:
        source, count, head = self.stream_bytes, self.frames, 0
        if up.time is not None:
            head = int(self.first)
            self.frames += count - head
        result = 4 * self.frames * self.frame_bytes(up.space.outer)
        self.live.take("stream", result, up.space.name)
        if head or up.time is None:
            self._enlarge(up.space, head or count)
        if up.time is not None and count > head:
            self._double(up.time, up.space, count - head)
        self.live.drop("stream", source)
        self.size, self.channels = self.size.scaled(2), up.space.outer

    def _double(self, conv: Conv, space: Conv, count: int) -> None:
        """Frames that are to become two each, and both halves of them enlarged."""
        half = count * self.frame_bytes(conv.inner)
        with self._clip(conv, count), self.window(conv, norm=False):
            self.over(conv, "inner")
        with self.live.held("inner", half, conv.name):
            self._enlarge(space, count)
            self._count_enlarged(space, count)
            with self.live.held("inner", half, conv.name):
                pass
        self.live.drop("inner", 2 * half)

    @contextmanager
    def _clip(self, conv: Conv, count: int) -> Iterator[None]:
        """Inside, the slice has so many frames, and is the first if a convolution saw none yet."""
        frames, first = self.frames, self.first
        self.frames, self.first = count, first or conv.name not in self.live.carry
        yield
        self.frames, self.first = frames, first

    def _enlarge(self, conv: Conv, count: int) -> None:
        """Twice the size, some frames at a time."""
        self._count_enlarged(conv, count)
        if not self.switches.upsampler_fold:
            each = 1 if self.switches.chunked_upsampling else count
            doubled, frame = self.frame_bytes(conv.inner), self.frame_bytes(conv.outer)
            extra = self.extra_bytes(conv.kernel, 1, 4 * each * doubled, 0)
            self._phases(conv, 4 * each * (doubled + frame), extra)
            return
        one = _PHASES * self.frame_bytes(conv.outer, 1)
        chunk = max(1, _PHASE_BYTES // one) if self.switches.chunked_upsampling else count
        chunk = min(chunk, count)
        kernel = _PHASES * _PHASES * conv.inner * conv.outer * self.work.item
        extra = kernel + (not self.switches.channels_last) * chunk * self.frame_bytes(conv.inner)
        self._phases(conv, chunk * one, extra)

    def _count_enlarged(self, conv: Conv, count: int) -> None:
        """Operations of frames of twice the size."""
        if not self.switches.upsampler_fold:
            self.count(conv, 4 * conv.kernel * count * self.size.pixels)
            return
        padded = (self.size.width + 1) * (self.size.height + 1)
        self.count(conv, _PHASES * _PHASES * conv.inner * conv.outer * count * padded)

    def _phases(self, conv: Conv, phases: int, extra: int) -> None:
        live = self.live
        with live.held("sums", extra), live.held("phases", phases, conv.name):
            pass

    def _around(self, stage: ShortcutLayer) -> None:
        """Parts, while their input waits, or its means."""
        kept = self.stream_bytes
        if not stage.repeats:
            kept = self._means(stage)
        with self.live.held("inner", kept, "shortcut"):
            self.run(stage.parts)
            with self.live.held("sums", kept if stage.repeats else 0, "shortcut"):
                pass

    def _means(self, stage: ShortcutLayer) -> int:
        """Bytes of a stage's input, averaged to the size of its result."""
        downs = [part for part in stage.parts if isinstance(part, Down)]
        pooled = self.stream_bytes >> (2 * len(downs))
        if all(down.time is None for down in downs):
            return pooled
        pairs = (self.frames + self.first) * pooled // self.frames
        with self.live.held("inner", pooled + pairs, "shortcut"):
            pass
        return pairs
