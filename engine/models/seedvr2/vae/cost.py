"""Operations and bytes of the fast variant of the VAE: for the planner, from sizes alone.

The input is not counted, the result is. On a processor the figures are what torch's allocator is
asked for; oneDNN's own scratch comes on top. On a GPU cuDNN's workspace comes on top; not yet
compared with a GPU. In float64, and for frames of a few pixels in float32, torch convolves in
another pass, which takes more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES, Cost
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
from engine.models.video_vae.workload import (
    Flops,
    VaePass,
    VaePeak,
    VaeWorkload,
    flops_of,
    peak_of,
    slices,
)
from engine.settings.optimisations import VaeSwitches

__all__ = [
    "VaePeak",
    "VaeWorkload",
    "decode_cost",
    "decode_flops",
    "decode_high_cost",
    "decode_high_flops",
    "decode_high_peak",
    "decode_low_cost",
    "decode_low_peak",
    "decode_peak",
    "encode_cost",
    "encode_flops",
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
    vae_pass = _encoding(config, work)
    return peak_of(replace(vae_pass, gather="passed") if passed else vae_pass, work)


def encode_flops(config: VaeConfig, work: VaeWorkload) -> Flops:
    """Operations of encoding a clip."""
    return flops_of(_encoding(config, work), work)


def decode_peak(config: VaeConfig, work: VaeWorkload, *, passed: bool = False) -> VaePeak:
    """Peak memory of decoding, without weights; results are joined, or `passed` on."""
    low, high = decoder_parts(config)
    vae_pass = _decoding([*low, *high], config, work)
    return peak_of(replace(vae_pass, gather="passed") if passed else vae_pass, work)


def decode_flops(config: VaeConfig, work: VaeWorkload) -> Flops:
    """Operations of decoding to `work.frames` frames of `work.size`."""
    low, high = decoder_parts(config)
    return flops_of(_decoding([*low, *high], config, work), work)


def decode_low_peak(config: VaeConfig, work: VaeWorkload, *, park: bool = False) -> VaePeak:
    """As `decode_low_cost`, without weights."""
    low, _ = decoder_parts(config)
    vae_pass = _decoding(low, config, work)
    return peak_of(replace(vae_pass, gather="passed" if park else "listed"), work)


def decode_high_peak(config: VaeConfig, work: VaeWorkload) -> VaePeak:
    """As `decode_high_cost`, without weights."""
    return peak_of(_decoding_high(config, work), work)


def decode_high_flops(config: VaeConfig, work: VaeWorkload) -> Flops:
    """Operations of the same."""
    return flops_of(_decoding_high(config, work), work)


def _decoding_high(config: VaeConfig, work: VaeWorkload) -> VaePass:
    """From the features on."""
    _, high = decoder_parts(config)
    vae_pass = _decoding(high, config, work)
    times = 2 if config.decoder_time[0] else 1
    slices = [(first, times * count - (times - 1) * first) for first, count in vae_pass.slices]
    width, each = config.block_out_channels[-2], config.spatial_factor // 2
    size = Size(work.size.width // each, work.size.height // each)
    return replace(vae_pass, slices=slices, size=size, channels=width, gather="passed")


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


def _encoding(config: VaeConfig, work: VaeWorkload) -> VaePass:
    """From the frames on."""
    return VaePass(
        trace=SeedVr2CostTrace,
        parts=encoder_parts(config),
        slices=list(slices(work.frames, work.slice_frames)),
        size=work.size,
        channels=config.in_channels,
        total=1 + (work.frames - 1) // config.temporal_factor,
        clamped=True,
    )


def _decoding(parts: list[Part], config: VaeConfig, work: VaeWorkload) -> VaePass:
    """From the latent on."""
    step, factor = config.temporal_factor, config.spatial_factor
    each = None if work.slice_frames is None else max(1, work.slice_frames // step)
    return VaePass(
        trace=SeedVr2CostTrace,
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


# --- layers as data, as the fast variant runs them


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
