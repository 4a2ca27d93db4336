"""Cases `optimisations-vae`, `-dit`, `-around` and `-claims`: each switch and promise, one by one.

`-around` is what documents promise and no switch of a model does: switches of the computer, slices,
tiles, the attention of the VAE, the steps of sampling, matrix products in narrow formats. `-claims`
is what they claim of a VAE and its tiles, and no switch turns on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.accuracy import relative_error
from engine.bench.cases.operators import matmul_error, matmul_speed
from engine.bench.cases.switch_models import (
    BuiltModel,
    MeasuredDit,
    MeasuredModel,
    MeasuredTiles,
    MeasuredVae,
)
from engine.bench.memory import peak_bytes
from engine.bench.report import USUAL, Row
from engine.bench.run import BenchOptions
from engine.bench.timing import Effort, Ratio, compare
from engine.bench.workload import capability_of, device_of
from engine.core.errors import FeatureMissing
from engine.core.geometry import Box, Size
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware import devices
from engine.models.seedvr2.sampler import condition, sample
from engine.ops.attention import attention
from engine.ops.attention.single_head import attend_single_head
from engine.ops.compiler import Compilation, reporting
from engine.ops.linear.formats import PRODUCTS, working
from engine.settings.optimisations import ALL, Optimisation, RunSwitches
from engine.tiling.blend import Blender, TileWeights, tile_weights
from engine.tiling.grid import tile_grid

Work = Callable[[], object]

_OF_IMAGES = ("image_mode",)  # no effect on a clip
_CLAIMED_ATTENTION = ("cudnn", "sage2", "sage3-fp4")
_EFFORT = Effort(least=3, most=7)
_QUICK_ROUNDS = 3
_POSITIONS, _CHANNELS = {"cpu": 2048, "cuda": 14400}, 512  # of the VAE's attention; cuda: 720p
_TILE_FRAMES = 5
_CLIPS, _QUICK_CLIPS = 20, 5
_SHUFFLED = {"cpu": (5, 512, 32, 32), "cuda": (5, 512, 128, 128)}  # before an upsampler
_CANVAS = {"cpu": Size(512, 384), "cuda": Size(1920, 1080)}
_BLENDED_FRAMES, _OVERLAP = 5, 64


def vae_switch_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each switch of the VAE; those without effect on this device have a note.

    Each is compared with the defaults, in alternation: a switch that is on is turned off, one that
    is off is turned on. `time` is the time with the switch over the time without it: below 1 it
    helps; `scatter` its standard error, from `turns` rounds. `memory` is the same ratio of the peak
    of all tensors above the loaded model. `error` is the relative error (RMS) with the switch
    against the plain variant in float64, `error_without` the same without the switch.
    """
    comparison = SwitchComparison(MeasuredVae(options), options)
    yield from comparison.rows()
    for value in ("2d", "3d"):
        yield comparison.choice("convolution", value)


def dit_switch_rows(options: BenchOptions) -> Iterator[Row]:
    """Rows as of the VAE for the transformer: some layers of the 3B kind, one forward pass."""
    model = MeasuredDit(options)
    comparison = SwitchComparison(model, options)
    yield from comparison.rows()
    run = model.run
    here = attention.working(run.device, run.torch_dtype, run.config.head_dim)
    for name in here:
        yield comparison.choice("attention", name)
    for name in (name for name in _CLAIMED_ATTENTION if name not in here):
        yield {"switch": f"dit.attention={name}", "note": message("bench.no-attention")}


def other_switch_rows(options: BenchOptions) -> Iterator[Row]:
    """Rows as of the VAE for what is no switch of a model."""
    yield from _machine_rows(options)
    vae = MeasuredVae(options)
    yield {"switch": "slices", **_slices(vae, options)}
    yield {"switch": "tiles", **_tiles(vae, options)}
    yield {"switch": "wide-head-attention", **_vae_attention(options)}
    yield {"switch": "sampling-sums", **_sampling(MeasuredDit(options), options)}
    for name in PRODUCTS:
        yield {"switch": f"dit.matmul={name}", **_matmul(name, options)}


def effort_of(options: BenchOptions) -> Effort:
    """Number of rounds that are timed."""
    if options.runs or options.quick:
        return Effort.exactly(options.runs or _QUICK_ROUNDS)
    return _EFFORT


@dataclass(frozen=True, slots=True)
class _Measured:
    """A model with some switches, its peak and its error."""

    model: BuiltModel
    clip_peak: int
    error: float


class SwitchComparison:
    """Compares a model with the default switches to the same with others."""

    def __init__(self, model: MeasuredModel, options: BenchOptions) -> None:
        self._model = model
        self._effort = effort_of(options)
        self._is_quick = options.quick
        model.built(model.default).clip()  # allocates what torch and this program keep
        self._default = self._measured(model.default)

    def rows(self) -> Iterator[Row]:
        """The model, all switches together, then each."""
        model = self._model
        yield {**self._name(USUAL), "about": model.description, "error": self._default.error}
        yield {**self._name(ALL), **self._compare(model.default.all_off(), is_added=False)}
        for entry in model.default.optimisations():
            yield {**self._name(entry.name), **self._row(entry)}

    def choice(self, name: str, value: str) -> Row:
        """A value of a choice that is not the default."""
        switches = replace(self._model.default, **{name: value})
        return {**self._name(f"{name}={value}"), **self._compare(switches, is_added=True)}

    def _name(self, name: str) -> Row:
        return {"switch": f"{self._model.name}.{name}"}

    def _row(self, entry: Optimisation) -> Row:
        device = self._model.device
        missing = entry.missing(True, device, capability_of(device))
        if missing is not None:
            return {"note": missing}
        if entry.at_start:
            return {"note": message("bench.at-start", variable=entry.variable)}
        if entry.name == "compile" and self._is_quick:
            return {"note": message("bench.compile-not-quick")}
        is_on = bool(getattr(self._model.default, entry.name))
        switches = self._model.default.changed(entry.name, not is_on)
        try:
            first = first_call(self._model.built(switches).clip) if entry.name == "compile" else {}
            row = self._compare(switches, is_added=not is_on, of_images=entry.name in _OF_IMAGES)
            return row | first
        except torch.OutOfMemoryError:
            return {"note": message("bench.out-of-memory")}
        except FeatureMissing as err:
            return {"note": err.as_message}

    def _compare(self, switches: Any, *, is_added: bool, of_images: bool = False) -> Row:
        """Figures with something over those without it; `is_added`: the default is without it."""
        other, default = self._measured(switches), self._default
        with_it, without_it = (other, default) if is_added else (default, other)
        first, second = with_it.model, without_it.model
        if of_images:
            for model in (first, second):
                model.image()  # makes tables for images; the clip has run already
            row = _time(compare(first.image, second.image, self._model.device, self._effort))
            row["note"] = message("bench.one-frame")
        else:
            row = _time(compare(first.clip, second.clip, self._model.device, self._effort))
            row["memory"] = with_it.clip_peak / without_it.clip_peak
        return row | {"error": with_it.error, "error_without": without_it.error}

    def _measured(self, switches: Any) -> _Measured:
        """Build and warm up; buffers that stay count in the peak of the first run."""
        model = self._model.built(switches)
        peak = peak_bytes(model.clip, self._model.device)
        return _Measured(model, peak, self._model.error(model))


def _machine_rows(options: BenchOptions) -> Iterator[Row]:
    """Switches of the computer: on a CPU none can be compared within one process."""
    if device_of(options) == "cuda":
        rows = SwitchComparison(MeasuredTiles(options), options).rows()
        yield from (row for row in rows if row["switch"] != f"run.{ALL}")
        return
    for entry in RunSwitches.optimisations():
        at_start = message("bench.at-start", variable=entry.variable)
        note = at_start if entry.works_on("cpu") else message("bench.needs-gpu")
        yield {"switch": entry.key, "note": note}


def _slices(vae: MeasuredVae, options: BenchOptions) -> Row:
    """A clip decoded slice by slice over the same at once."""
    sliced, whole = (vae.run.built(vae.weights) for _ in range(2))
    whole.disable_slicing()
    run = replace(vae.run, side="decode", frames=2 * vae.frames - 1)
    latent = run.input()
    row = ratios(partial(sliced.decode, latent), partial(whole.decode, latent), options)
    return row | {"note": message("bench.slices", frames=run.frames, slice=run.slice_frames)}


def _tiles(vae: MeasuredVae, options: BenchOptions) -> Row:
    """A frame decoded in four blended tiles over the same at once."""
    side, factor = vae.run.size.width, vae.run.config.spatial_factor
    run = replace(vae.run, side="decode", frames=_TILE_FRAMES, size=Size(2 * side, 2 * side))
    tiled, whole = (run.built(vae.weights) for _ in range(2))
    latent, overlap = run.input(), side // 4 // factor * factor
    spans = ((0, side + overlap), (side, side))  # start and length of the tiles of a side

    def tiles() -> Tensor:
        blender = Blender(run.size, margin=0)
        for y, height in spans:
            rows = latent[..., y // factor : (y + height) // factor, :]
            for x, width in spans:
                part = tiled.decode(rows[..., x // factor : (x + width) // factor])[0]
                blender.add(part.transpose(0, 1).float(), Box(x, y, width, height), overlap)
        return blender.result().transpose(0, 1)[None]

    at_once = partial(whole.decode, latent)
    row = ratios(tiles, at_once, options)
    note = message("bench.tiles", size=run.size, tile=side + overlap)
    return row | {"error": relative_error(tiles(), at_once()), "note": note}


def _vae_attention(options: BenchOptions) -> Row:
    """Attention of one wide head block by block over that with a matrix of all scores."""
    device = device_of(options)
    q, k, v = torch.randn(3, 1, _POSITIONS[device], _CHANNELS, device=device)
    blocks, scores = partial(attend_single_head, q, k, v), partial(_by_scores, q, k, v)
    exact = _by_scores(q.double(), k.double(), v.double())
    return ratios(blocks, scores, options) | {
        "error": relative_error(blocks(), exact),
        "error_without": relative_error(scores(), exact),
        "note": message("bench.wide-head", channels=_CHANNELS, positions=q.shape[1]),
    }


def _by_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The formula: [B, L, C], with a matrix of all scores."""
    scores = torch.matmul(q, k.transpose(1, 2)) * _CHANNELS**-0.5
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def _sampling(dit: MeasuredDit, options: BenchOptions) -> Row:
    """Upper bound of what fused sampling saves: a forward pass over one with the sums."""
    run = dit.run
    forward = dit.built(dit.default).clip
    latent = torch.randn(*run.latent_shape, 16, device=run.device).to(run.torch_dtype)
    known, text = condition(latent), latent[0]

    def sums() -> Tensor:
        return sample(lambda latent, text, time: latent[..., :16], latent, known, text)

    forward()
    sums()
    share = compare(sums, forward, run.device, effort_of(options))
    best = replace(share, value=1 / (1 + share.value))
    return _time(best) | {"note": message("bench.sampling", share=f"{share.value:.2%}")}


def _matmul(name: str, options: BenchOptions) -> Row:
    """One large matrix product in a narrow format over one in the device's dtype."""
    device = torch.device(device_of(options))
    if name not in working(device):
        return {"note": message("bench.no-matmul")}
    found = matmul_speed(name, device, options)
    note = message("bench.one-matmul", work=found["work"])
    return {"time": found["of_float"], "error": matmul_error(name, device), "note": note}


def first_call(work: Work) -> Row:
    """Note on the time that compiling takes, nothing of it kept from before.

    Raises:
        FeatureMissing: torch cannot compile all of it.
    """
    from torch import _dynamo
    from torch._inductor.utils import fresh_cache  # takes a second

    found: list[Compilation] = []
    _dynamo.reset()
    with fresh_cache(), reporting(found.append):
        work()
    failure = next((one.failure for one in found if one.failure), "")
    if failure:
        raise FeatureMissing("compile-failed", reason=failure)
    seconds = sum(one.seconds for one in found)
    return {"note": message("bench.first-call", seconds=f"{seconds:.1f}", count=len(found))}


def ratios(work: Work, other: Work, options: BenchOptions) -> Row:
    """Time and memory of the first over those of the second, both run for the first time."""
    device = device_of(options)
    peaks = [peak_bytes(one, device) for one in (work, other)]
    ratio = compare(work, other, device, effort_of(options))
    return _time(ratio) | {"memory": peaks[0] / peaks[1]}


def _time(ratio: Ratio) -> Row:
    row: Row = {"time": ratio.value, "turns": ratio.rounds}
    return row if ratio.scatter is None else row | {"scatter": ratio.scatter}


# --- claims


def claim_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each claim."""
    vae = MeasuredVae(options)
    for dtype in ("float16", "bfloat16"):
        yield {"switch": f"vae.precision={dtype}", **_precision(vae, dtype, options)}
    yield {"switch": "pixel-shuffle", **_pixel_shuffle(options)}
    yield {"switch": "cached-ramps", **_cached_ramps(options)}
    yield {"switch": "separable-blending", **_separable_blending(options)}
    yield {"switch": "repeated-clips", **_repeated(vae, options)}


def _precision(vae: MeasuredVae, dtype: str, options: BenchOptions) -> Row:
    """A VAE in half precision over the same in float32."""
    is_fast = dtype == "bfloat16" and devices.cpu_has_bf16()
    if vae.device == "cpu" and not is_fast:  # takes minutes
        return {"note": message("bench.needs-gpu")}
    half, single = vae.in_dtype(dtype), vae.in_dtype("float32")
    return ratios(half.clip, single.clip, options) | {
        "error": vae.error(half),
        "error_without": vae.error(single),
    }


def _pixel_shuffle(options: BenchOptions) -> Row:
    """One call that makes pixels of channels over views that are copied."""
    device = device_of(options)
    x = torch.randn(_SHUFFLED[device], device=device)
    frames, channels, height, width = x.shape

    def by_views() -> Tensor:
        split = x.view(frames, channels // 4, 2, 2, height, width)
        return split.permute(0, 1, 4, 2, 5, 3).reshape(frames, -1, 2 * height, 2 * width)

    shuffle = partial(F.pixel_shuffle, x, 2)
    return ratios(shuffle, by_views, options) | {"error": relative_error(shuffle(), by_views())}


def _cached_ramps(options: BenchOptions) -> Row:
    """A clip blended with weights that are kept over the same with weights made for each clip."""
    tiles = _Tiles(options)
    kept = partial(tiles.blended, tiles.weights(), is_separable=False)
    return ratios(kept, lambda: tiles.blended(tiles.weights(), is_separable=False), options)


def _separable_blending(options: BenchOptions) -> Row:
    """A clip blended by rows and by columns over the same by a weight for each pixel."""
    tiles = _Tiles(options)
    weights = tiles.weights()
    by_axes, by_pixels = (
        partial(tiles.blended, weights, is_separable=separable) for separable in (True, False)
    )
    return ratios(by_axes, by_pixels, options) | {"error": relative_error(by_axes(), by_pixels())}


class _Tiles:
    """Four tiles of a clip, to be blended on the device."""

    def __init__(self, options: BenchOptions) -> None:
        device = device_of(options)
        self._canvas = _CANVAS[device]
        side = Size(self._canvas.width * 5 // 8, self._canvas.height * 5 // 8)
        self._boxes = tile_grid(self._canvas, side, _OVERLAP)
        box = self._boxes[0]
        self._tile = torch.rand(_BLENDED_FRAMES, 3, box.height, box.width, device=device)

    def weights(self) -> list[TileWeights]:
        """Ramps of each tile."""
        return tile_weights(self._canvas, self._boxes, blend=_OVERLAP)

    def blended(self, weights: list[TileWeights], *, is_separable: bool) -> Tensor:
        """The canvas [T, 3, H, W], weights not yet divided out."""
        canvas, tile = self._canvas, self._tile
        result = tile.new_zeros((*tile.shape[:2], canvas.height, canvas.width))
        for box, weight in zip(self._boxes, weights, strict=True):
            window = weight.window
            top, left = window.y - box.y, window.x - box.x
            part = tile[..., top : top + window.height, left : left + window.width]
            rows, columns = weight.rows.to(tile.device)[:, None], weight.columns.to(tile.device)
            weighted = (part * rows).mul_(columns) if is_separable else part * (rows * columns)
            result[..., window.y : window.bottom, window.x : window.right] += weighted
        return result


def _repeated(vae: MeasuredVae, options: BenchOptions) -> Row:
    """Peak of the clip that took most over that of the one that took least, of some in a row."""
    model = vae.built(vae.default)
    model.clip()  # allocates what stays
    process = psutil.Process()
    before = process.memory_info().rss
    count = _QUICK_CLIPS if options.quick else _CLIPS
    peaks = [peak_bytes(model.clip, vae.device) for _ in range(count)]
    deviation = statistics.pstdev(peaks) / statistics.mean(peaks)
    grown = max(0, process.memory_info().rss - before)
    note = message(
        "bench.repeated", count=count, deviation=f"{deviation:.2%}", grown=bytes_text(grown)
    )
    return {"memory": max(peaks) / min(peaks), "note": note}
