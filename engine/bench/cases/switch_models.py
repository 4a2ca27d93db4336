"""Models whose optimisations are measured: small ones on a processor, the published ones on a card.

On a processor the VAE is half as wide as the published one (a quarter where it has to be quick) and
the transformer has four layers of 256 channels: the same kinds of work, in seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from engine.bench.cases import dit_runs
from engine.bench.cases.vae_models import VaeRun
from engine.bench.cases.vae_runs import (
    base_run,
    build,
    capability_of,
    random_weights,
    work_of,
)
from engine.bench.options import BenchOptions
from engine.core.geometry import Box, Size
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.models.seedvr2.dit.random_dit import build as build_dit
from engine.models.seedvr2.dit.random_dit import work_of as work_of_dit
from engine.models.video_vae.measured import Side
from engine.ops.compiler import require_compiler
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
_TRUTH_PX = {"cpu": 32, "cuda": 128}  # float64 is slow on cards
_DIT_TRUTH = Size(192, 112)
_DIT = {
    "cpu": replace(
        DIT_3B, dim=256, heads=2, layers=4, separate_layers=2, mlp_hidden=768, text_in_dim=256
    ),
    "cuda": replace(DIT_3B, layers=4, separate_layers=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One form of a model, and what it is asked to do.

    Attributes:
        clip: A clip that times and memory are about.
        image: One frame; the clip where the model has no form of its own for it.
        check: Less of both, whose results are compared with the truth.
    """

    clip: Work
    image: Work
    check: Work


class Subject(ABC):
    """A model with its random weights, and the truth about it."""

    name: str  # before a switch: "vae", "dit"
    device: str
    usual: Any  # switches that users have

    @abstractmethod
    def built(self, switches: Any) -> Built:
        """The fast form with some switches."""

    @property
    @abstractmethod
    def about(self) -> str:
        """What is measured, in words."""

    @cached_property
    def truth(self) -> Results:
        """What `check` gives when the plain form computes it in float64."""
        return [result.cpu() for result in self._plain().check()]

    @abstractmethod
    def _plain(self) -> Built:
        """The plain form in float64."""

    def error(self, built: Built) -> float:
        """Relative error: RMS of the difference from the truth over the RMS of the truth."""
        pairs = [
            (found.cpu().double(), truth)
            for found, truth in zip(built.check(), self.truth, strict=True)
        ]
        off = sum(float((found - truth).square().sum()) for found, truth in pairs)
        return float((off / sum(float(truth.square().sum()) for _, truth in pairs)) ** 0.5)


class VaeSubject(Subject):
    """A video VAE: clips and images, there and back."""

    name = "vae"

    usual: Any

    def __init__(self, options: BenchOptions) -> None:
        base = replace(base_run(options, "decode"), form="fast")
        self._parts = 1
        if options.config is None and base.device == "cpu":
            self._parts = 4 if options.quick else 2
            base = replace(base, config=base.config.narrower(self._parts))
        side = _VAE_PX[base.device]
        self.run = replace(base, size=options.size or Size(side, side))
        self.frames = options.frames[0] if options.frames else _VAE_FRAMES
        self.weights = random_weights(base)
        self.device = base.device
        self.usual = VaeSwitches()

    @property
    def about(self) -> str:
        """Width, length and size."""
        width = {1: "", 2: "half as wide, ", 4: "a quarter as wide, "}[self._parts]
        return (
            f"VAE, {width}{self.frames} frames of {self.run.size}, {self.run.dtype}, encoded "
            "and decoded"
        )

    def built(self, switches: Any) -> Built:
        """The fast form with some switches."""
        return self._built(replace(self.run, switches=switches))

    def _plain(self) -> Built:
        return self._built(replace(self.run, form="plain", dtype="float64"))

    def _built(self, run: VaeRun) -> Built:
        vae = build(run, self.weights)
        px = min(_TRUTH_PX[run.device], run.size.width, run.size.height)
        small = replace(run, size=Size(px, px))

        def pieces(run: VaeRun, frames: int) -> list[Callable[[], Tensor]]:
            return [work_of(replace(run, side=side, frames=frames), vae) for side in _SIDES]

        return Built(
            clip=_all_of(pieces(run, self.frames)),
            image=_all_of(pieces(run, 1)),
            check=_all_of([*pieces(small, self.frames), *pieces(small, 1)]),
        )


class DitSubject(Subject):
    """Some layers of the transformer of SeedVR2: one forward."""

    name = "dit"

    def __init__(self, options: BenchOptions) -> None:
        base = replace(dit_runs.base_run(options, "3b"), form="fast")
        size = _DIT_SIZE[base.device]
        if options.quick:
            size = Size(size.width // 2, size.height // 2)
        self.run = replace(
            base,
            config=options.dit or _DIT[base.device],
            size=options.size or size,
            frames=options.frames[0] if options.frames else _DIT_FRAMES,
        )
        self._shared = build_dit(replace(self.run, form="plain"))
        self.device = base.device
        self.usual = DitSwitches()

    @property
    def about(self) -> str:
        """Width, depth and length."""
        config = self.run.config
        return (
            f"transformer, {config.layers} layers of {config.dim} channels, {self.run.tokens} "
            f"tokens, {self.run.dtype}, one forward"
        )

    def built(self, switches: Any) -> Built:
        """The fast form with some switches.

        Raises:
            FeatureMissing: torch cannot compile here.
        """
        if switches.compile:
            require_compiler(torch.device(self.device))
        run = replace(self.run, switches=switches)
        return self._built(run, build_dit(run, self._shared))

    def _plain(self) -> Built:
        run = replace(self.run, form="plain", dtype="float64")
        return self._built(run, build_dit(run))

    def _built(self, run: DitRun, dit: SeedVr2Dit) -> Built:
        size = Size(min(_DIT_TRUTH.width, run.size.width), min(_DIT_TRUTH.height, run.size.height))
        clip = _all_of([work_of_dit(run, dit)])
        check = _all_of([work_of_dit(replace(run, size=size), dit)])
        return Built(clip=clip, image=clip, check=check)


class RunSubject(VaeSubject):
    """What a job does around a model: a clip is decoded in two tiles that leave for the host.

    Under the switches of the machine; what the model itself uses is as usual. Not yet run on a
    card, and nothing there makes a difference on a processor.
    """

    name = "run"

    def __init__(self, options: BenchOptions) -> None:
        super().__init__(options)
        self.usual = RunSwitches.default_on(self.device, capability_of(self.device))

    @property
    def about(self) -> str:
        """Two tiles of the VAE."""
        return f"{super().about}; two tiles that leave for the host"

    def built(self, switches: Any) -> Built:
        """The usual form under some switches."""
        found = self._built(self.run)
        work = work_of(replace(self.run, frames=self.frames), build(self.run, self.weights))

        def tiles() -> Results:
            size = self.run.size
            sink = TileSink(self.frames, Size(size.width, 2 * size.height))
            for top in (0, size.height):
                part = work()[0].transpose(0, 1)
                sink.add(part, Box(0, top, size.width, size.height), 0)
            return [sink.result()]

        def under(some: Work) -> Work:
            def there() -> Results:
                with arithmetic_of(switches):
                    return some()

            return there

        return Built(clip=under(tiles), image=under(tiles), check=under(found.check))


def _all_of(pieces: list[Callable[[], Tensor]]) -> Work:
    return lambda: [piece() for piece in pieces]
