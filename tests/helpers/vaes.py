"""Every VAE in one table: what the contract suite has to know of each.

A new family adds a row to `ROWS`, and gets all tests of `tests/engine/models/vae_contract`. One
without variance, halves, tiles and streams of its own (SwiftVR) adds it to `EVERY` alone: streams,
halves, limits of a variance and norms that are compiled do not concern it, nor does what is counted
without switches, as it folds layers whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae import tiling
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae.fast_layers import GroupNorm
from engine.models.seedvr2.vae.streams import SeedVr2DecodeStream, SeedVr2EncodeStream
from engine.models.seedvr2.vae_memory import VAES as SEEDVR2_VAES
from engine.models.swiftvr.requirements import VAES as SWIFTVR_VAES
from engine.models.swiftvr.vae.config import REAE, ReaeConfig
from engine.models.upscalers import DecodedTile
from engine.models.video_vae.frame_slices import as_clip, as_frames
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.slice_context import keep_last
from engine.models.video_vae.vae_use import Side
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up
from engine.models.wan.vae.split import LATENTS_PER_VISIT, decode_cut, encode_cut, least_tile
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.models.wan.vae_memory import VAES as WAN_VAES
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.parking import Parking
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae
from tests.helpers.swiftvr import TINY_REAE, tiny_reae
from tests.helpers.tensors import FloatSink
from tests.helpers.wan import tiny_wan, tiny_wan_config

SIDES: tuple[Side, Side] = ("encode", "decode")
SPAN = LATENTS_PER_VISIT
Push = Callable[..., Any]  # push(piece, last=): a latent, or frames in parts
Worked = Callable[[float], None]
Watch = Callable[[DecodedTile], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """Tiles that a stream gives to a part of a VAE, 8 latents at a time.

    Attributes:
        frame: Frame that has several of them, px.
        options: Options of the stream, the tile among them.
        reach: Latents that tiles begin early to equal those that keep a carry.
        short: Latents that are visibly too few for that.
        once: Options with which tiles take a shot in one visit.
        exact: Whether tiles equal whole frames, with `VaeRow.frozen` norms.
        high: A frame and a tile that cut it in both directions, where that is exact.
        rounding: Largest difference of spans from one visit.
    """

    frame: Size
    options: dict[str, Any]
    reach: int
    short: int
    once: dict[str, Any]
    exact: bool = True
    high: tuple[Size, Size] | None = None
    rounding: float = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnyVaeRow:
    """One VAE, or an autoencoder without variance.

    Attributes:
        code: Both variants, measured.
        plain_of: Makes a plain VAE with random weights: configuration, dtype, seed.
        config: Very small sizes, in which values are compared.
        published: Published sizes.
        wide: Sizes whose frames outweigh the weights, in which bytes are compared.
        side: Width and height of frames for that, px: torch convolves single ones as large ones.
        slack_bytes: Bytes that may be planned and not taken.
        half: Sizes in which half precision is compared.
        others: Other configurations.
        saving: Switches that change the operations of decoding.
    """

    name: str
    code: MeasuredVae
    plain_of: Callable[..., Any]
    config: Any
    published: Any
    wide: Any
    side: int = 64
    slack_bytes: int = 2**16
    half: Any
    others: tuple[Any, ...]
    saving: tuple[str, ...] = ("upsampler_fold", "first_frame_fold", "temporal_winograd")

    def __repr__(self) -> str:
        return self.name

    def plain(self, config: Any = None, **options: Any) -> Any:
        """A plain VAE with random weights, float64 unless it is asked for in another dtype."""
        return self.plain_of(self.config if config is None else config, **options)

    def fast(self, plain: Any, switches: VaeSwitches | None = None, **options: Any) -> Any:
        """The fast variant of a plain VAE; float64 unless it is asked for in another dtype."""
        weights, options = plain.state_dict(), {"dtype": torch.float64, **options}
        return self.code.loader.fast(plain.config, weights, switches=switches, **options)

    def frames(self, latents: int, config: Any = None) -> int:
        """Frames of a clip of n latents that is encoded."""
        first: int = self.code.loader.plain.first_frames
        return first + (config or self.config).temporal_factor * (latents - 1)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VaeRow(AnyVaeRow):
    """One VAE with halves, and with streams of shots.

    Attributes:
        encode, decode: Makes a stream of a VAE for frames of a size, which takes and gives unscaled
            latents; with options, what is called after each slice, and with each decoded tile.
        tiled: Tiles of each stream, by its side or by a name of its own that begins with the side.
        streamed: Sizes that are streamed.
        alike: Options of streams that change no value.
        counted: Sides whose streams report each slice of a tile.
        frozen: Norms that do not depend on what they see, where those of the VAE do.
        rounding: Largest difference of a stream from the VAE, of values of about 1.
        compiled: Passes that the switch `compile` compiles, by their name.
        last_of_encoder: Weight of its last convolution.
    """

    encode: Callable[..., Push]
    decode: Callable[..., Push]
    tiled: dict[str, Tiled]
    streamed: Any
    alike: tuple[dict[str, Any], ...] = ()
    counted: tuple[Side, ...] = SIDES
    frozen: Callable[[], AbstractContextManager[None]] = nullcontext
    rounding: float = 1e-10
    compiled: dict[str, int]
    last_of_encoder: str


# --- clips and latents


def clip_of(config: Any, frames: int, height: int, width: int, **options: Any) -> Tensor:
    """A random clip [B, 3, T, H, W] of height x width positions of the latent."""
    side, batch = config.spatial_factor, options.pop("batch", 1)
    return random_frames(batch, 3, frames, height * side, width * side, **options)


def latent_of(config: Any, steps: int, height: int, width: int, **options: Any) -> Tensor:
    """A random latent [B, L, t, h, w]."""
    options = {"seed": 3, **options}
    batch = options.pop("batch", 1)
    return random_frames(batch, config.latent_channels, steps, height, width, **options)


def frames_of(row: AnyVaeRow, steps: Sequence[int], config: Any = None) -> list[int]:
    """Frames of slices of n latents each, the first of which begins a clip."""
    each = (config or row.config).temporal_factor
    return [row.frames(steps[0], config), *(each * count for count in steps[1:])]


def in_slices(step: Callable[..., tuple[Tensor, Carry]], whole: Tensor, cuts: list[int]) -> Tensor:
    """A clip or latent through a call, slice by slice."""
    carry, parts = Carry(), []
    for part in whole.split(cuts, dim=2):
        result, carry = step(part, carry)
        parts.append(result)
    return torch.cat(parts, dim=2)


# --- streams of shots


def streamed(
    row: VaeRow, side: str, vae: Any, given: Tensor, pieces: Sequence[int] = (1,), **about: Any
) -> Tensor:
    """A shot through a stream.

    Args:
        row: Row of the VAE.
        side: "encode" or "decode", or a name that begins so.
        vae: VAE.
        given: Frames [T, 3, H, W], or a latent [1, L, t, h, w].
        pieces: Latents of each piece that is pushed; the first has one more, the last size is used
            for all that follow.
        about: Passed to the stream.

    Returns:
        A latent [1, L, t, h, w], or frames [T, 3, H, W], on the CPU.
    """
    config, encodes = vae.config, side.startswith("encode")
    each = config.temporal_factor
    sides = given.shape[-2:] if encodes else [n * config.spatial_factor for n in given.shape[-2:]]
    push = (row.encode if encodes else row.decode)(vae, Size(sides[1], sides[0]), **about)
    latents = 1 + (len(given) - 1) // each if encodes else given.shape[2]
    found, end, number = [], 0, 0
    while end < latents:
        start, end = end, min(latents, end + pieces[min(number, len(pieces) - 1)] + (not number))
        number, last = number + 1, end == latents
        if encodes:
            first = 1 + each * (start - 1) if start else 0
            found.append(push(given[first : 1 + each * (end - 1)], last=last).cpu())
        else:
            found += [part.cpu() for part in push(given[:, :, start:end], last=last)]
    return torch.cat(found, dim=2 if encodes else 0)


def shot_of(row: VaeRow, side: str, latents: int, frame: Size) -> Tensor:
    """Frames [T, 3, H, W] of a shot of n latents that is encoded, or a latent that is decoded."""
    config = row.streamed
    if side.startswith("encode"):
        count = 1 + config.temporal_factor * (latents - 1)
        return random_frames(count, 3, frame.height, frame.width)
    places = (n // config.spatial_factor for n in (frame.height, frame.width))
    return latent_of(config, latents, *places)


def whole_of(vae: Any, side: str, given: Tensor) -> Tensor:
    """Such a shot in one call of the VAE, as `streamed` gives it."""
    if side.startswith("encode"):
        found: Tensor = vae.encode(as_clip(given))
        return found
    return as_frames(vae.decode(given))


def in_lanes(row: VaeRow, side: str, at_once: int, device: str, **options: Any) -> Tensor:
    """A shot of two visits in float32, some tiles at a time; and the tiles that are reported."""
    latents, options = SPAN + 1, {**row.tiled[side].options, **options}
    if "span" in options:
        latents, options["span"] = 3, 2
    plain = row.plain(row.streamed, dtype=torch.float32)
    switches = VaeSwitches(convolution="3d")
    vae = row.fast(plain, switches, dtype=torch.float32, device=device)
    given = shot_of(row, side, latents, row.tiled[side].frame).float().to(device)
    parking, seen = Parking(10**9), list[float]()

    def watch(tile: DecodedTile) -> None:
        seen.extend((tile.index, tile.frame, float(tile.picture.sum())))

    about = {**options, "at_once": at_once, "parking": parking, "watch": watch}
    found = streamed(row, side, vae, given, (4,), **about)
    parking.release()
    return torch.cat([found.flatten(), torch.tensor(seen)])


def _wan_encode(vae: Any, frame: Size, *, worked: Worked = lambda _: None, **options: Any) -> Push:
    for name in ("watch", "first"):
        options.pop(name, None)
    return WanEncodeStream(vae, frame, Streaming(**options), lambda: worked(0)).push


def _wan_decode(
    vae: Any, frame: Size, *, watch: Watch = lambda _: None, first: int = 0, **options: Any
) -> Push:
    options.pop("worked", None)
    return WanDecodeStream(vae, frame, Streaming(**options), watch, first=first).push


def _seedvr2_encode(
    vae: Any, frame: Size, *, worked: Worked = lambda _: None, **options: Any
) -> Push:
    parking, *_ = (options.pop(name, None) for name in ("parking", "watch", "first"))
    stream = SeedVr2EncodeStream(
        vae, frame, _tiling(options), parking, advance=lambda _, frames: worked(frames)
    )
    scale = vae.config.scaling_factor

    def push(frames: Tensor, *, last: bool) -> Tensor:
        return stream.push(frames, last=last).permute(3, 0, 1, 2).unsqueeze(0) / scale

    return push


def _seedvr2_decode(
    vae: Any,
    frame: Size,
    *,
    watch: Watch = lambda _: None,
    worked: Worked = lambda _: None,
    first: int = 0,
    **options: Any,
) -> Push:
    parking = options.pop("parking", None)
    stream = SeedVr2DecodeStream(
        vae,
        frame,
        _tiling(options),
        watch,
        parking,
        first=first,
        advance=lambda _, frames: worked(frames),
    )
    scale = vae.config.scaling_factor

    def push(latent: Tensor, *, last: bool) -> Iterator[Tensor]:
        return stream.push(latent[0].permute(1, 2, 3, 0) * scale, last=last)

    return push


def _tiling(options: dict[str, Any]) -> tiling.Tiling | None:
    return tiling.Tiling(**options) if options.get("tile") else None


class ExactSink(FloatSink):
    """A canvas whose codes are not rounded and not clipped."""

    def result(self) -> Tensor:
        return (super().result().permute(0, 2, 3, 1) + 1) / 2 * 65535


@contextmanager
def _frozen_seedvr2() -> Iterator[None]:
    """Norms that do not depend on what they see, and sinks that do not round."""

    def write(self: Any, given: Any, out: Tensor, context: Any, **options: Any) -> None:
        frames = given.finished() * 1.3 - 0.1
        frames = F.silu(frames) if options.get("silu", True) else frames
        keep_last(out.copy_(frames), options.get("kept"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupNorm, "write", write)
        patch.setattr("engine.models.seedvr2.vae.streams.TileSink", ExactSink)
        yield


# --- the rows

WAN_TIMES = [(False, True, True), (True, False), (False,), (True, True)]
TIMES = [*WAN_TIMES, (), (False, True), (False, False, True)]


def _other_seedvr2(time: tuple[bool, ...], groups: int, layers: int, quant: bool) -> VaeConfig:
    sizes = {"norm_groups": groups, "layers_per_block": layers}
    return tiny_config(time, **sizes, quant_conv=quant, post_quant_conv=quant)


def _seedvr2() -> VaeRow:
    shallow = VaeConfig(
        latent_channels=3, block_out_channels=(4, 4, 4, 4), layers_per_block=0, norm_groups=2
    )
    wide = VaeConfig(
        block_out_channels=(16, 32, 64, 64), norm_groups=8, latent_channels=4, layers_per_block=1
    )
    span, once = {"span": SPAN}, {"span": 99}
    decode: dict[str, Any] = {
        "reach": tiling.decoder_reach(shallow),
        "short": 2,
        "once": once,
        "rounding": 2.1 / 65535,  # codes of a canvas of 16 bits
    }
    return VaeRow(
        name="seedvr2",
        code=SEEDVR2_VAES,
        plain_of=tiny_vae,
        config=tiny_config(),
        published=VAE,
        wide=wide,
        half=replace(wide, block_out_channels=(16, 16, 32, 32), norm_groups=4),
        others=tuple(_other_seedvr2(*one) for one in product(TIMES, (2, 4), (1, 2), (False, True))),
        encode=_seedvr2_encode,
        decode=_seedvr2_decode,
        streamed=shallow,
        tiled={
            "encode": Tiled(
                frame=Size(48, 16),
                options={"tile": Size(32, 16), **span},
                reach=tiling.encoder_reach(shallow),
                short=2,
                once=once,
                exact=False,
                rounding=1e-6,
            ),
            "decode": Tiled(
                frame=Size(88, 8),
                options={"tile": Size(60, 60), "blend": 2, **span},
                high=(Size(88, 72), Size(60, 60)),
                **decode,
            ),
            "decode whole": Tiled(
                frame=Size(240, 8),
                options={"tile": Size(208, 208), "is_whole": True, **span},
                exact=False,
                **decode,
            ),
        },
        frozen=_frozen_seedvr2,
        rounding=1e-6,
        compiled={"group_norm": 3, "add": 1},
        last_of_encoder="encoder.conv_out.weight",
    )


def _other_wan(layout: Any, time: tuple[bool, ...], blocks: int) -> WanConfig:
    multipliers = (1, 2, 4, 4)[-len(time) - 1 :]
    sizes = {"multipliers": multipliers, "residual_blocks": blocks}
    return tiny_wan_config(layout, time_down=time, **sizes)


def _wan(layout: Any, published: WanConfig, **about: Any) -> VaeRow:
    """A row of a Wan VAE, whose tiles are a feature wider than need be."""
    streamed = tiny_wan_config(layout, residual_blocks=1, dim=4, dec_dim=4)
    frame = Size(288, 16) if layout == "2.2" else Size(80, 8)
    tiled = {}
    for side, cut, scale, early in (
        ("encode", encode_cut(streamed), 1, encode_warm_up(streamed)),
        ("decode", decode_cut(streamed), streamed.upscale, decode_warm_up(streamed)),
    ):
        least = Size(least_tile(cut), least_tile(cut)).scaled(cut.factor * scale)
        more = cut.factor * scale
        tiled[side] = Tiled(
            frame=frame,
            options={"tile": Size(least.width + more, 99 * more)},
            reach=early,
            short=early - 1,
            once={},
            high=(Size(88, 88), Size(least.width + 2 * more, least.height + more))
            if layout == "2.1"
            else None,
        )
    wide = {"dim": 16, "dec_dim": 16, "residual_blocks": 1}
    return VaeRow(
        name=f"wan {layout}",
        code=WAN_VAES,
        plain_of=tiny_wan,
        config=tiny_wan_config(layout, residual_blocks=1),
        published=published,
        wide=tiny_wan_config(layout, **wide),
        half=tiny_wan_config(layout, **{**wide, "dim": 8}),
        others=tuple(_other_wan(layout, *one) for one in product(WAN_TIMES, (1, 2))),
        encode=_wan_encode,
        decode=_wan_decode,
        streamed=streamed,
        alike=({"slice_latents": 2}, {"slice_latents": 3, "parks": True}),
        counted=("encode",),
        tiled=tiled,
        compiled={"rms_norm": 2},
        last_of_encoder="conv1.weight",
        **about,
    )


ROWS = {
    row.name: row
    for row in (
        _seedvr2(),
        _wan("2.1", WAN21),
        _wan("2.2", WAN22, side=128, slack_bytes=2**18),
        _wan("2x", WAN2X),
    )
}
SWIFTVR = AnyVaeRow(
    name="swiftvr",
    code=SWIFTVR_VAES,
    plain_of=tiny_reae,
    config=TINY_REAE,
    published=REAE,
    wide=ReaeConfig(encoder_width=16, decoder_widths=(32, 32, 16, 16), latent_channels=8),
    side=128,
    half=ReaeConfig(encoder_width=16, decoder_widths=(16, 16, 8, 8), latent_channels=8),
    others=(ReaeConfig(encoder_width=4, decoder_widths=(6, 8, 4, 10), latent_channels=3),),
    saving=("upsampler_fold", "first_frame_fold"),  # no layer has three taps over time
)
EVERY: dict[str, AnyVaeRow] = {**ROWS, SWIFTVR.name: SWIFTVR}
EACH = pytest.mark.parametrize("row", ROWS.values(), ids=str)
EACH_OF_ALL = pytest.mark.parametrize("row", EVERY.values(), ids=str)
TILED = [(row, side) for row in ROWS.values() for side in row.tiled]
EACH_TILED = pytest.mark.parametrize(("row", "side"), TILED, ids=str)


@cache
def fast_of(name: str) -> Any:
    """The fast variant of a row that is streamed, float64, made once."""
    row = ROWS[name]
    return row.fast(row.plain(row.streamed))
