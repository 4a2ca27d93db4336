"""Layers of the VAE as data, as the fast variant runs them, and the bytes they take. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.cost_trace import CostTrace
from engine.models.video_vae.layer_specs import (
    TAPS,
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
    blocks,
    middle,
    point,
)


@dataclass(frozen=True, slots=True)
class SeedVr2UpsampleLayer:
    """An upsampler: what it is when unfolded."""

    widen: Conv
    conv: Conv
    times: int  # frames of each frame

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has when unfolded."""
        return (self.widen, self.conv)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


Part = Entry | Exit | Block | Attention | SeedVr2UpsampleLayer


def encoder_parts(config: VaeConfig) -> list[Part]:
    """Layers from frames to mean and log-variance."""
    widths = config.block_out_channels
    parts: list[Part] = [Entry(Conv(name="conv_in", inner=config.in_channels, outer=widths[0]))]
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        parts += blocks(f"{level}", (inner, width), config.layers_per_block)
        if level < len(config.encoder_time):
            parts.append(_down(f"{level}.down", width, time=config.encoder_time[level]))
    parts += middle(widths[-1])
    outer = 2 * config.latent_channels
    parts.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=outer)))
    if config.quant_conv:
        parts.append(Entry(point("quant_conv", outer, outer)))
    return parts


def decoder_parts(config: VaeConfig) -> tuple[list[Part], list[Part]]:
    """From latent to frames: the part that sees whole frames, and the part that may see tiles."""
    widths, latent = config.block_out_channels[::-1], config.latent_channels
    low: list[Part] = []
    if config.post_quant_conv:
        low.append(Entry(point("post_quant_conv", latent, latent)))
    low.append(Entry(Conv(name="conv_in", inner=latent, outer=widths[0])))
    low += middle(widths[0])
    high: list[Part] = []
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        part = low if level < 2 else high
        part += blocks(f"{level}", (inner, width), config.layers_per_block + 1)
        if level < len(config.decoder_time):
            up = _up(f"{level}.up", width, time=config.decoder_time[level])
            (low if level < 1 else high).append(up)
    high.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=config.out_channels)))
    return low, high


def _down(name: str, width: int, *, time: bool) -> Entry:
    taps, stride = (TAPS, 2) if time else (1, 1)
    shape = {"taps": taps, "time_stride": stride, "space_stride": 2}
    return Entry(Conv(name=name, inner=width, outer=width, **shape))


def _up(name: str, width: int, *, time: bool) -> SeedVr2UpsampleLayer:
    times = 2 if time else 1
    conv = Conv(name=name, inner=width, outer=width)
    return SeedVr2UpsampleLayer(point(f"{name}.widen", width, 4 * times * width), conv, times)


_PHASE_BYTES = 96 * 2**20  # as in fast_resample


class SeedVr2CostTrace(CostTrace):
    """One slice on its way through a VAE of SeedVR2."""

    def part(self, part: object) -> None:
        """Through one part."""
        match part:
            case SeedVr2UpsampleLayer():
                self._folded_up(part) if self.switches.upsampler_fold else self._up(part)
            case _:
                super().part(part)

    def _up(self, up: SeedVr2UpsampleLayer) -> None:
        live = self.live
        before, wide = self.stream_bytes, self.frames * self.frame_bytes(up.widen.outer)
        self.point(up.widen, "inner")
        live.drop("stream", before)
        self.frames, self.size = up.times * self.frames, self.size.scaled(2)
        live.take("stream", self.stream_bytes, up.conv.name)
        live.drop("inner", wide)
        dropped = self.frame_bytes(up.conv.inner) if self.first and up.times > 1 else 0
        if dropped:
            self.frames -= 1
        self.entry(up.conv)
        live.drop("stream", dropped)

    def _folded_up(self, up: SeedVr2UpsampleLayer) -> None:
        live, frame, source = self.live, self.frame_bytes(self.channels), self.stream_bytes
        kept = (up.conv.taps - 1) // up.times
        frames = self.frames
        self._count_phases(up)
        total = up.times * frames - (up.times - 1) * self.first
        live.take("stream", 4 * total * frame, up.conv.name)
        if not self.first:
            live.take("inner", (kept + frames) * frame, up.conv.name)
        self.keep(up.conv.name, kept * frame)
        if not self.first:
            live.drop("stream", source)
        self._phases(up, kept + 1)
        if self.first:
            live.drop("stream", source)
        else:
            live.drop("inner", (kept + frames) * frame)
        self.frames, self.size = total, self.size.scaled(2)

    def _count_phases(self, up: SeedVr2UpsampleLayer) -> None:
        """Operations of a folded upsampler, see `engine.ops.conv.folds.UpsamplerFold`."""
        kernels = up.times * (1 + (up.conv.taps - 1) // up.times)  # for each source frame
        used = kernels * self.frames
        if self.first:
            pair = 2 * up.times if self.frames > 1 else 0
            used = 1 + pair + kernels * max(0, self.frames - 2)
        padded = (self.size.width + 1) * (self.size.height + 1)
        self.count(up.conv, used * 4 * 4 * up.conv.inner * up.conv.outer * padded)

    def _phases(self, up: SeedVr2UpsampleLayer, reach: int) -> None:
        """The small convolutions of a folded upsampler, some source frames at a time."""
        one = up.times * 4 * self.frame_bytes(self.channels, 1)
        kernel = up.times * 4 * 4 * up.conv.kernel // up.conv.side**2
        rest = self.frames
        if self.first:
            rest = max(0, rest - 2)
            self._phases_of_two(up, one, kernel)
        if not rest:
            return
        chunk = max(1, _PHASE_BYTES // one) if self.switches.chunked_upsampling else rest
        chunk = min(chunk, rest)
        inner = self.frame_bytes(self.channels)
        extra = self.extra_bytes(kernel, reach, chunk * inner, (chunk + reach - 1) * inner)
        if self.work.adds_up and not self.work.adds_in_place:
            extra += chunk * one
        with (
            self.live.held("sums", extra),
            self.live.held("phases", chunk * one, up.conv.name),
        ):
            pass

    def _phases_of_two(self, up: SeedVr2UpsampleLayer, one: int, kernel: int) -> None:
        """The phases of a clip's first two source frames, one after the other."""
        work = self.work
        if self.frames == 1:
            extra, phases = 2 * kernel * work.item // up.times, one // up.times
        else:
            extra, phases = 4 * kernel * work.item, one
            if not work.is_3d:
                extra += 2 * self.frame_bytes(self.channels)
            extra += one if work.adds_up and not work.adds_in_place else 0
        with self.live.held("sums", extra), self.live.held("phases", phases, up.conv.name):
            pass
