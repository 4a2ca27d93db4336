"""Case `optimisations-around`: what is no switch of a model but promised by documents.

Switches of the machine around the models, slices, tiles, the attention of the VAE, the steps of
sampling, and products in narrow numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from engine.bench.cases.matmul_formats import narrow_error, narrow_speed
from engine.bench.cases.optimisations import ALL, Lab, effort_of
from engine.bench.cases.switch_models import DitSubject, RunSubject, VaeSubject
from engine.bench.cases.vae_runs import build, clip_of, device_of
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.paired_timing import Ratio, compare
from engine.bench.timing.peak_allocations import peak_bytes
from engine.core.geometry import Size
from engine.models.seedvr2.sampler import condition, sample
from engine.ops.attention.single_head import attend_single_head
from engine.ops.linear.formats import PRODUCTS, working
from engine.settings.optimisations import RunSwitches
from tests.reference.tiled_vae import tiled_decode

Work = Callable[[], object]

_POSITIONS, _CHANNELS = {"cpu": 2048, "cuda": 14400}, 512  # of the VAE's attention; 720p on a card
_TILE_FRAMES = 5


def around_rows(options: BenchOptions) -> Iterator[Row]:
    """A line for each; the columns are those of `optimisation_rows`."""
    yield from _run_rows(options)
    contests = _Contests(options)
    vae = VaeSubject(options)
    yield {"switch": "plan.slices", **contests.slices(vae)}
    yield {"switch": "plan.tiles", **contests.tiles(vae)}
    yield {"switch": "vae.attention", **contests.attention()}
    yield {"switch": "dit.sampling", **contests.sampling(DitSubject(options))}
    for form in PRODUCTS:
        yield {"switch": f"dit.matmul={form}", **contests.products(form)}


def _run_rows(options: BenchOptions) -> Iterator[Row]:
    """Switches of the machine: on a processor they do nothing, or count from the start."""
    if device_of(options) == "cuda":
        rows = Lab(RunSubject(options), options).rows()
        yield from (row for row in rows if row["switch"] != f"run.{ALL}")
        return
    for entry in RunSwitches.optimisations():
        note = f"set at the start: compare two runs, {entry.variable}=on and =off"
        yield {
            "switch": entry.key,
            "note": note if "cpu" in entry.devices else "needs an NVIDIA card",
        }


@dataclass(frozen=True, slots=True)
class _Contests:
    """Two ways to do the same, in turns."""

    options: BenchOptions

    @property
    def _device(self) -> str:
        return device_of(self.options)

    def slices(self, subject: VaeSubject) -> Row:
        """A clip that is decoded slice by slice, beside the same at once."""
        sliced, whole = (build(subject.run, subject.weights) for _ in range(2))
        whole.disable_slicing()
        run = replace(subject.run, side="decode", frames=2 * subject.frames - 1)
        latent = clip_of(run)
        note = f"{run.frames} frames decoded in slices of {run.slice_frames}"
        pair = partial(sliced.decode, latent), partial(whole.decode, latent)
        return self._row(*pair) | {"note": note}

    def tiles(self, subject: VaeSubject) -> Row:
        """A frame that is decoded in four blended tiles, beside the same at once."""
        side = subject.run.size.width
        run = replace(
            subject.run, side="decode", frames=_TILE_FRAMES, size=Size(2 * side, 2 * side)
        )
        tiled, whole = (build(run, subject.weights) for _ in range(2))
        latent = clip_of(run)
        step = run.config.spatial_factor
        tile, overlap = side + side // 4 // step * step, side // 4 // step * step
        sizes = (tile, tile), (overlap, overlap)
        work, other = partial(tiled_decode, tiled, latent, *sizes), partial(whole.decode, latent)
        row = self._row(work, other)
        found, wanted = work(), other()
        note = (
            f"{run.size} decoded in tiles of {tile} px; error beside the whole frame, as norms and "
            "attention see a tile alone; random weights know no smooth pictures"
        )
        return row | {"error": _relative(found, wanted), "note": note}

    def attention(self) -> Row:
        """Attention of one wide head block by block, beside a matrix of all scores."""
        q, k, v = torch.randn(3, 1, _POSITIONS[self._device], _CHANNELS, device=self._device)

        blocks, scores = partial(attend_single_head, q, k, v), partial(_by_scores, q, k, v)
        truth = _by_scores(q.double(), k.double(), v.double())
        return self._row(blocks, scores) | {
            "error": _relative(blocks(), truth),
            "error_without": _relative(scores(), truth),
            "note": f"one head of {_CHANNELS} channels, {q.shape[1]} positions: no flash kernel "
            "takes that width, ours goes block by block",
        }

    def sampling(self, subject: DitSubject) -> Row:
        """What could be saved at most: a forward beside a forward with the sums around it."""
        run = subject.run
        forward = subject.built(subject.usual).clip
        latent = torch.randn(*run.latent_shape, 16, device=run.device).to(run.torch_dtype)
        seen, text = condition(latent), latent[0]

        def sums() -> Tensor:
            return sample(lambda latent, text, time: latent[..., :16], latent, seen, text)

        forward()
        sums()
        share = compare(sums, forward, self._device, effort_of(self.options))
        best = Ratio(value=1 / (1 + share.value), scatter=share.scatter, turns=share.turns)
        return _time(best) | {
            "note": f"at best, if the sums around a forward, {share.value:.2%} of it, were free"
        }

    def products(self, form: str) -> Row:
        """One large product in narrow numbers, beside one in floats."""
        device = torch.device(self._device)
        if form not in working(device):
            return {"note": "not computed by this card or processor"}
        found = narrow_speed(form, device, self.options)
        note = f"one product, {found['work']}; error of the product"
        return {"time": found["of_float"], "error": narrow_error(form, device), "note": note}

    def _row(self, work: Work, other: Work) -> Row:
        """Time and memory of the first over those of the second, which are new models."""
        peaks = [peak_bytes(one, self._device) for one in (work, other)]
        ratio = compare(work, other, self._device, effort_of(self.options))
        return _time(ratio) | {"memory": peaks[0] / peaks[1]}


def _by_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The formula: [T, L, C], with a matrix of all scores."""
    scores = torch.matmul(q, k.transpose(1, 2)) * _CHANNELS**-0.5
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def _time(ratio: Ratio) -> Row:
    row: Row = {"time": ratio.value, "turns": ratio.turns}
    return row if ratio.scatter is None else row | {"scatter": ratio.scatter}


def _relative(found: Tensor, wanted: Tensor) -> float:
    difference = found.double() - wanted.double()
    return float(difference.square().mean().sqrt() / wanted.double().square().mean().sqrt())
