"""A SeedVR2 transformer with random weights at work on random latents: for the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.contracts import BenchRequest, BenchWork
from engine.models.load import Form, shapes_alone
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.cost import forward_flops
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, read_dit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.dit.random_file import RandomFile
from engine.settings.optimisations import DitSwitches

Kind = Literal["3b", "7b"]
KINDS: tuple[Kind, ...] = ("3b", "7b")

TIMESTEP = 1000.0  # the only one that the upscaler uses
TEXT_LENGTH = 58  # of the published text
_SEED = 20261120
_SIZE_ON_CPU = Size(1280, 720)
_SIZE_ON_GPU = Size(1920, 1088)
_SIZE_QUICK = Size(640, 368)

# As wide as a CPU can measure in minutes; heads, windows and text are those of the models.
MIDDLE: dict[Kind, DitConfig] = {
    "3b": replace(DIT_3B, dim=512, heads=4, layers=8, separate_layers=3, mlp_hidden=1536),
    "7b": replace(DIT_7B, dim=512, heads=4, layers=8, separate_layers=8, mlp_hidden=2048),
}
_FULL: dict[Kind, DitConfig] = {"3b": DIT_3B, "7b": DIT_7B}


@dataclass(frozen=True, slots=True, kw_only=True)
class DitRun:
    """A transformer at work, with random weights; plain data, so that another process can do it."""

    form: Form
    switches: DitSwitches
    frames: int
    size: Size  # size of a frame; a latent has an even number of positions for it
    dtype: str
    device: str
    threads: int
    config: DitConfig

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Positions in time, height and width."""
        height, width = (2 * -(-side // 16) for side in (self.size.height, self.size.width))
        return (self.frames - 1) // 4 + 1, height, width

    @property
    def tokens(self) -> int:
        """Tokens of the clip, without the text."""
        time, height, width = self.latent_shape
        return time * height * width // 4

    @property
    def operations(self) -> float:
        """Floating-point operations of a forward."""
        return float(forward_flops(self.config, self.latent_shape, TEXT_LENGTH).total)

    def built(self, weights: SeedVr2Dit | None = None) -> SeedVr2Dit:
        """The model, ready.

        Args:
            weights: Model to share weights with, unless they will be changed; None makes new ones,
                the same each time.
        """
        dit = weights or replace(self, form="plain").loaded()
        if self.form == "plain":
            return dit
        with shapes_alone():
            fast = FastDit(self.config, self.switches)
        state = dit.state_dict()
        if self.switches.folded_modulation:
            state = {name: value.clone() for name, value in state.items()}
        fast.load_state_dict(state, assign=True)
        fast.eval().requires_grad_(False)
        fast.finish_loading()
        return fast

    def loaded(self, options: LoadOptions | None = None, stored: str = "") -> SeedVr2Dit:
        """The model as it is read from a file, with random weights.

        Args:
            options: Places of the weights, and products; the switches are those of the run.
            stored: Format of the matrices in the blocks; see `RandomFile`.
        """
        return read_dit(
            RandomFile(self.config, self.dtype, stored, self.device),
            self.config,
            form=self.form,
            device=self.device,
            dtype=self.torch_dtype,
            options=replace(options or LoadOptions(), switches=self.switches),
        )

    def input(self) -> tuple[Tensor, Tensor]:
        """A latent with its condition, and a text; their values have a variance of one."""
        generator, config = torch.Generator().manual_seed(_SEED), self.config
        shapes = (*self.latent_shape, config.in_channels), (TEXT_LENGTH, config.text_in_dim)
        latent, text = (torch.randn(shape, generator=generator) for shape in shapes)
        return latent.to(self.device, self.torch_dtype), text.to(self.device, self.torch_dtype)

    def work_of(self, dit: SeedVr2Dit) -> Callable[[], Tensor]:
        """The work, to be called as often as needed."""
        latent, text = self.input()

        def work() -> Tensor:
            with torch.inference_mode():
                return torch.as_tensor(dit(latent, text, TIMESTEP))

        return work

    def ready(self) -> Callable[[], Tensor]:
        """The work, with a model of its own."""
        return self.work_of(self.built())


def usual_run(request: BenchRequest, kind: Kind) -> DitRun:
    """Usual run for a device: the plain variant, five frames."""
    on_gpu = request.device == "cuda"
    size = _SIZE_QUICK if request.quick else _SIZE_ON_GPU if on_gpu else _SIZE_ON_CPU
    return DitRun(
        form="plain",
        switches=DitSwitches(),
        frames=5,
        size=request.size or size,
        dtype=request.dtype or ("bfloat16" if on_gpu else "float32"),
        device=request.device,
        threads=request.threads,
        config=(_FULL if on_gpu else MIDDLE)[kind],
    )


def dit_benchmarks(request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
    """One forward of each kind: the published sizes on a GPU, narrower ones on a CPU."""

    def work(kind: Kind) -> BenchWork:
        small = replace(request, quick=request.quick or request.device == "cpu")
        run = replace(usual_run(small, kind), form="fast")
        return BenchWork(
            compute=run.ready(),
            dtype=run.dtype,
            megapixels=run.frames * run.size.pixels / 1e6,
            operations=run.operations,
        )

    for kind in KINDS:
        yield f"SeedVR2 transformer, {kind} kind", partial(work, kind)
