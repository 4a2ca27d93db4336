"""Case `optimisations-claims`: what documents claim of a VAE and its tiles, and no switch turns on.

Rows are those of `cases.switches`: figures with something over those without it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.accuracy import relative_error
from engine.bench.cases.runs import device_of
from engine.bench.cases.switch_models import MeasuredVae
from engine.bench.cases.switches import ratios
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.profiler import peak_bytes
from engine.core.geometry import Size
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware import devices
from engine.tiling.blend import TileWeights, tile_weights
from engine.tiling.grid import tile_grid

_CLIPS, _QUICK_CLIPS = 20, 5
_SHUFFLED = {"cpu": (5, 512, 32, 32), "cuda": (5, 512, 128, 128)}  # before an upsampler
_CANVAS = {"cpu": Size(512, 384), "cuda": Size(1920, 1080)}
_BLENDED_FRAMES, _OVERLAP = 5, 64


def claim_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each."""
    vae = MeasuredVae(options)
    for dtype in ("float16", "bfloat16"):
        yield {"switch": f"vae.precision={dtype}", **_precision(vae, dtype, options)}
    yield {"switch": "vae.pixel_shuffle", **_pixel_shuffle(options)}
    yield {"switch": "plan.cached_ramps", **_cached_ramps(options)}
    yield {"switch": "plan.separable_blending", **_separable_blending(options)}
    yield {"switch": "plan.repeated", **_repeated(vae, options)}


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
