"""Models whose switches are measured, with random weights.

On a GPU the VAE has its published size. On a CPU it has half the channels (a quarter with
--quick) and the transformer four layers of 256 channels: the same kinds of work, in seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from engine.bench.run import BenchOptions
from engine.bench.workload import VaeRun, capability_of, dit_run, vae_run
from engine.core.geometry import Box, Size
from engine.core.messages import Message, message
from engine.models.planning.candidates import AT_ONCE
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.models.video_vae.frame_slices import as_frames
from engine.models.video_vae.runner import FastSlicedVae
from engine.models.video_vae.slicing import SlicedVae, slices
from engine.models.video_vae.vae_use import Side
from engine.ops.compiler import require_compiler
from engine.ops.conv.causal_conv import Carry
from engine.ops.lanes import Lanes
from engine.ops.precision import arithmetic_of
from engine.ops.transfer.tile_canvas import TileSink
from engine.settings.optimisations import DitSwitches, RunSwitches, VaeSwitches

Results = list[Tensor]
Work = Callable[[], Results]

_SIDES: tuple[Side, ...] = ("encode", "decode")
_VAE_FRAMES = 9  # two slices: some switches only help in the second
_DIT_FRAMES = 5
_VAE_PX = {"cpu": 48, "cuda": 512}
_DIT_SIZE = {"cpu": Size(640, 368), "cuda": Size(1920, 1088)}
_CHECK_PX = {"cpu": 32, "cuda": 128}  # float64 is slow on GPUs
_DIT_CHECK_SIZE = Size(192, 112)
_DIT = {
    "cpu": replace(
        DIT_3B, dim=256, heads=2, layers=4, separate_layers=2, mlp_hidden=768, text_in_dim=256
    ),
    "cuda": replace(DIT_3B, layers=4, separate_layers=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model with some switches, and its work."""

    clip: Work  # its time and memory are measured
    image: Work  # one frame; the clip where the model treats images like clips
    check: Work  # less of both; its results are compared with the exact ones


class MeasuredModel(ABC):
    """A model whose switches are measured."""

    name: str  # group of the switches: "vae", "dit", "run"
    device: str
    default: Any  # the default switches

    @abstractmethod
    def built(self, switches: Any) -> BuiltModel:
        """The fast variant with some switches."""

    @property
    @abstractmethod
    def description(self) -> Message:
        """Description of what is measured."""

    @abstractmethod
    def _exact_model(self) -> BuiltModel:
        """The plain variant in float64."""

    @cached_property
    def _exact(self) -> Results:
        return [result.cpu() for result in self._exact_model().check()]

    def error(self, model: BuiltModel) -> float:
        """Relative error (RMS) of `check` against the plain variant in float64."""
        pairs = list(zip(model.check(), self._exact, strict=True))
        off = sum(float((found.cpu().double() - exact).square().sum()) for found, exact in pairs)
        return float((off / sum(float(exact.square().sum()) for _, exact in pairs)) ** 0.5)


class MeasuredVae(MeasuredModel):
    """A video VAE that encodes and decodes clips and images."""

    name = "vae"

    default: Any

    def __init__(self, options: BenchOptions) -> None:
        base = replace(vae_run(options, "decode"), form="fast")
        self._divisor = 1
        if options.config is None and base.device == "cpu":
            self._divisor = 4 if options.quick else 2
            base = replace(base, config=base.config.narrower(self._divisor))
        side = _VAE_PX[base.device]
        self.run = replace(base, size=options.size or Size(side, side))
        self.frames = options.frames[0] if options.frames else _VAE_FRAMES
        self.weights = base.weights()
        self.device = base.device
        self.default = VaeSwitches()

    @property
    def description(self) -> Message:
        """Width, length and size."""
        width = {1: "whole", 2: "half", 4: "quarter"}[self._divisor]
        return message(
            f"bench.model.vae-{width}",
            frames=self.frames,
            size=self.run.size,
            dtype=self.run.dtype,
        )

    def built(self, switches: Any) -> BuiltModel:
        """The fast variant with some switches."""
        return self._built(replace(self.run, switches=switches))

    def in_dtype(self, dtype: str) -> BuiltModel:
        """The fast variant with the default switches, computing in another dtype."""
        return self._built(replace(self.run, dtype=dtype))

    def _exact_model(self) -> BuiltModel:
        return self._built(replace(self.run, form="plain", dtype="float64"))

    def _built(self, run: VaeRun) -> BuiltModel:
        vae = run.built(self.weights)
        px = min(_CHECK_PX[run.device], run.size.width, run.size.height)
        small = replace(run, size=Size(px, px))

        def both_sides(run: VaeRun, frames: int) -> list[Callable[[], Tensor]]:
            return [replace(run, side=side, frames=frames).work_of(vae) for side in _SIDES]

        return BuiltModel(
            clip=_joined(both_sides(run, self.frames)),
            image=_joined(both_sides(run, 1)),
            check=_joined([*both_sides(small, self.frames), *both_sides(small, 1)]),
        )


class MeasuredDit(MeasuredModel):
    """Some layers of the SeedVR2 transformer: one forward pass."""

    name = "dit"

    def __init__(self, options: BenchOptions) -> None:
        base = replace(dit_run(options, "3b"), form="fast")
        size = _DIT_SIZE[base.device]
        if options.quick:
            size = Size(size.width // 2, size.height // 2)
        self.run = replace(
            base,
            config=options.dit or _DIT[base.device],
            size=options.size or size,
            frames=options.frames[0] if options.frames else _DIT_FRAMES,
        )
        self._weights = replace(self.run, form="plain").built()
        self.device = base.device
        self.default = DitSwitches()

    @property
    def description(self) -> Message:
        """Width, depth and length."""
        config = self.run.config
        return message(
            "bench.model.dit",
            layers=config.layers,
            dim=config.dim,
            tokens=self.run.tokens,
            dtype=self.run.dtype,
        )

    def built(self, switches: Any) -> BuiltModel:
        """The fast variant with some switches.

        Raises:
            FeatureMissing: torch cannot compile here.
        """
        if switches.compile:
            require_compiler(torch.device(self.device))
        run = replace(self.run, switches=switches)
        return self._built(run, run.built(self._weights))

    def _exact_model(self) -> BuiltModel:
        run = replace(self.run, form="plain", dtype="float64")
        return self._built(run, run.built())

    def _built(self, run: DitRun, dit: SeedVr2Dit) -> BuiltModel:
        most, size = _DIT_CHECK_SIZE, run.size
        small = replace(run, size=Size(min(most.width, size.width), min(most.height, size.height)))
        clip, check = (_joined([one.work_of(dit)]) for one in (run, small))
        return BuiltModel(clip=clip, image=clip, check=check)


class MeasuredTiles(MeasuredVae):
    """Work of a job around a model: two tiles are decoded and transferred to the host.

    Measures the switches of the computer; those of the VAE keep their defaults. On a CPU they
    make no difference; it has not yet run on a GPU.
    """

    name = "run"

    def __init__(self, options: BenchOptions) -> None:
        super().__init__(options)
        self.default = RunSwitches.default_on(self.device, capability_of(self.device))

    @property
    def description(self) -> Message:
        """The VAE, and that its tiles are transferred."""
        return message("bench.model.tiles", vae=super().description)

    def built(self, switches: Any) -> BuiltModel:
        """The default variant under some switches of the computer."""
        model, size = self._built(self.run), self.run.size
        vae = self.run.built(self.weights)
        assert isinstance(vae, FastSlicedVae)
        latent = replace(self.run, frames=self.frames).input()
        lanes = Lanes(torch.device(self.device), AT_ONCE if switches.two_tiles else 1)

        def tiles() -> Results:
            sink = TileSink(self.frames, Size(size.width, AT_ONCE * size.height))
            forms = vae.apart(lanes.count)

            def tile(number: int, lane: int) -> Generator[None, None, None]:
                box = Box(0, number * size.height, size.width, size.height)
                for start, part in _slices(forms[lane], latent):
                    sink.add(part, box, start)
                    yield

            for _ in lanes.run([partial(tile, number) for number in range(AT_ONCE)]):
                pass
            return [sink.result()]

        def with_switches(work: Work) -> Work:
            def run() -> Results:
                with arithmetic_of(switches):
                    return work()

            return run

        decoded = with_switches(tiles)
        return BuiltModel(clip=decoded, image=decoded, check=with_switches(model.check))


def _slices(vae: SlicedVae, latent: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Frames [T, 3, H, W] of each slice of [1, L, t, h, w], and the number of the first."""
    carry, done, length = Carry(), 0, latent.shape[2]
    for start, end in slices(length, vae.config.slice_latents):
        carry = carry.handed_over(last=end == length)
        frames, carry = vae.decode_slice(latent[:, :, start:end], carry)
        yield done, as_frames(frames)
        done += frames.shape[2]


def _joined(pieces: list[Callable[[], Tensor]]) -> Work:
    return lambda: [piece() for piece in pieces]
