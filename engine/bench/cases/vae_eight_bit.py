"""Case `vae-8bit`: what a VAE loses where its convolutions multiply in 8 bits, and what that takes.

Convolutions of the plain variant are replaced but for the first and the last of encoder and
decoder; all else is in float16. docs/benchmarks/vae-8bit.md has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.accuracy import relative_error
from engine.bench.cases.vae import clip_run, weights_of
from engine.bench.eight_bit_conv import (
    EightBit,
    EightBitConv,
    add_in_float32,
    convolve_in_eight_bits,
)
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import measure
from engine.bench.workload import (
    VaeRun,
    device_of,
    dit_run,
    vae_run,
)
from engine.core.geometry import Size
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.sampler import condition, sample, seeded_noise
from engine.models.video_vae.measured import Side
from engine.ops.linear.formats import working

_HALF = "float16"
_HOW = [EightBit(kind, scales) for kind in ("int8", "fp8") for scales in ("tensor", "row")]
_FRAMES, _SIDE = 5, {"cpu": 64, "cuda": 256}
_OUTLIERS, _EVERY = 20.0, 64
_WIDTHS, _QUICK_WIDTH = (128, 256, 512), 32  # channels of both sides of a convolution
_SPEED_SIDE = 512

Build = Callable[[VaeRun], Any]


def eight_bit_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each side of a VAE and each way to round, then the time of single convolutions.

    `error` is relative (RMS) to the same weights in float32, `db` the same in dB. With a clip it is
    encoded, with the weights of a file as in `round-trip`; else weights and clip are random: as
    they are, and with one channel in 64 of each norm 20 times as large. For scale: what rounding to
    the 8 bits of a file loses, and how far apart two seeds of the noise are after a transformer
    with random weights. `of_float` is the time of one convolution over that of torch's own, on a
    GPU.
    """
    options = replace(options, frames=options.frames or (_FRAMES,))
    for title, run, clip, build in _models(options):
        found = _Losses(options, run, clip, build)
        yield from ({"weights": title, **row} for row in found.rows())
    if device_of(options) == "cuda":
        yield from speed_rows(options)


def _models(options: BenchOptions) -> Iterator[tuple[str, VaeRun, Tensor, Build]]:
    """Name of the weights, the run of a clip through the encoder, the clip, and what loads them."""
    path = options.clip
    if path is not None and not options.random_weights:
        file = weights_of(options)
        options = replace(options, config=options.vae_model.config_of(file))
        run, clip = clip_run(options, path)
        yield file.path.name, run, clip, lambda one: one.loaded(file.path)
        return
    if path is not None:
        run, clip = clip_run(options, path)
    else:
        run, device = vae_run(options, "encode"), device_of(options)
        size = options.size or Size(_SIDE[device], _SIDE[device])
        run = replace(run, frames=options.frames[0], size=size)
        clip = run.input()
    weights = run.weights()
    yield "random", run, clip, partial(VaeRun.built, weights=weights)
    outliers = {name: _with_outliers(name, value) for name, value in weights.items()}
    yield "random, outliers", run, clip, partial(VaeRun.built, weights=outliers)


def _with_outliers(name: str, weight: Tensor) -> Tensor:
    """The factors of a norm with some channels larger, as trained networks have them."""
    if not ("norm" in name and name.endswith("weight")) and not name.endswith("gamma"):
        return weight
    larger = weight.clone()
    larger.flatten()[::_EVERY] *= _OUTLIERS
    return larger


@dataclass(frozen=True, slots=True)
class _Losses:
    """Errors of a VAE with some weights on a clip [1, 3, T, H, W]."""

    options: BenchOptions
    run: VaeRun
    clip: Tensor
    build: Build

    def rows(self) -> Iterator[Row]:
        """A row for each way to round and each side."""
        vae, given, exact = self._built("float32"), dict[Side, Tensor](), dict[Side, Tensor]()
        given["encode"] = self.clip
        exact["encode"] = self._through(vae, "encode", given["encode"])
        given["decode"] = exact["encode"] if self.options.clip else self._side("decode").input()
        exact["decode"] = self._through(vae, "decode", given["decode"])
        del vae
        sides = self.options.vae_model.sides
        for name, built in self._variants():
            for side in sides:
                yield self._row(side, name, self._through(built, side, given[side]), exact[side])
        frames = exact["decode"]
        yield self._row("decode", "frames in 8 bits", frames.mul(127.5).round() / 127.5, frames)
        if self.options.model == "seedvr2-vae":
            yield self._row("decode", "two seeds", *self._two_seeds(exact["encode"]))

    def _variants(self) -> Iterator[tuple[str, Any]]:
        """float16, then 8 bits between layers in float16."""
        yield _HALF, self._built(_HALF)
        here = working(self.run.device) if self.run.device == "cuda" else ()
        for how in _HOW:
            vae = self._built(_HALF)
            for part in (vae.encoder, vae.decoder):
                convolve_in_eight_bits(part, replace(how, imitated=how.product not in here))
            yield how.name, vae

    def _two_seeds(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """What two seeds make of the same clip, decoded in float16."""
        of_dit = replace(self.options, size=self.run.size, dtype="float32")
        run = replace(dit_run(of_dit, "3b"), frames=self.run.frames)
        if self.options.dit is None:
            run = replace(run, config=random_dit.MIDDLE["3b"])
        dit, (_, text) = random_dit.build(run), random_dit.inputs_of(run)
        vae, scale = self._built(_HALF), self.run.config.scaling_factor
        known = condition(latent[0].movedim(0, -1).float() * scale)
        shape = known[..., :-1].shape
        first, second = (
            sample(dit, seeded_noise((*shape,), seed).to(known), known, text) for seed in (1, 2)
        )
        pair = [one.movedim(-1, 0)[None] / scale for one in (first, second)]
        other, wanted = (self._through(vae, "decode", one) for one in pair)
        return other, wanted

    def _built(self, dtype: str) -> Any:
        vae = self.build(replace(self.run, dtype=dtype, form="plain"))
        if dtype == _HALF and self.run.device == "cpu":
            add_in_float32(vae)
        return vae

    def _side(self, side: Side) -> VaeRun:
        return replace(self.run, side=side)

    def _through(self, vae: Any, side: Side, given: Tensor) -> Tensor:
        dtype = next(vae.parameters()).dtype
        return self._side(side).work_of(vae, given.to(self.run.device, dtype))().double()

    def _row(self, side: Side, name: str, found: Tensor, exact: Tensor) -> Row:
        error = relative_error(found, exact)
        about: Row = {"frames": self.run.frames, "size": str(self.run.size)}
        return {
            "side": side,
            "format": name,
            **about,
            "error": error,
            "db": -20 * math.log10(error),
        }


def speed_rows(options: BenchOptions) -> Iterator[Row]:
    """Time of a convolution of each width in float16, with what this GPU multiplies itself."""
    side = _SPEED_SIDE // (32 if options.quick else 1)
    runs = options.runs or 10
    for width in (_QUICK_WIDTH,) if options.quick else _WIDTHS:
        clip = torch.randn(1, width, _FRAMES, side, side, device="cuda").half()
        clip = clip.contiguous(memory_format=torch.channels_last_3d)
        weight = torch.randn(width, width, 3, 3, 3, device="cuda").half() / (27 * width) ** 0.5
        laid_out = weight.contiguous(memory_format=torch.channels_last_3d)
        usual = partial(F.conv3d, clip, laid_out, padding=(0, 1, 1))
        base = measure(usual, "cuda", runs=runs, warm_ups=2).seconds
        for how in (how for how in _HOW if how.product in working("cuda")):
            work = partial(EightBitConv(weight, None, (1, 1, 1), (0, 1, 1), how).apply, clip[0])
            seconds = measure(work, "cuda", runs=runs, warm_ups=2).seconds
            about = {"layers": f"{width} channels", "size": f"{side}x{side}"}
            yield {"format": how.name, **about, "of_float": seconds / base}
