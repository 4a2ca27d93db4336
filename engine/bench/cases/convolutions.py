"""Case `convolutions`: our kernel beside torch's convolutions, for kinds of layers of the VAEs.

Each kind is computed by torch in three dimensions (cuDNN on a GPU), and on a GPU by our kernel with
sums in float32, in half precision that are promoted, and in half precision alone; there also by
comfy-kitchen (sums in half precision alone) if that package is installed. Shares are those of what
matrix units reach that do nothing else, with the same sums, in the same run. The error is the RMS
of the difference from float64 at some pixels, in units of the result's RMS.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import measure
from engine.bench.workload import device_of
from engine.ops.kernels import build, conv
from engine.ops.kernels.conv import Work
from engine.ops.kernels.conv_tiles import Program, Taps, tile_for
from engine.ops.precision import exact_arithmetic

LAYERS = {
    "128, 3x3x3": Taps(128, 128, 3, 3, 3),
    "256, 3x3x3": Taps(256, 256, 3, 3, 3),
    "512, 3x3x3": Taps(512, 512, 3, 3, 3),
    "Wan 2.1, 96, 3x3x3": Taps(96, 96, 3, 3, 3),
    "Wan 2.2, 320, 3x3x3": Taps(320, 320, 3, 3, 3),
    "phases, 512, 3x2x2": Taps(512, 512, 3, 2, 2),
    "downsampler, 256, stride 2": Taps(256, 256, 3, 3, 3, 2),
    "shortcut, 512 to 256": Taps(256, 512, 1, 1, 1),
    "last, 128 to 3": Taps(3, 128, 3, 3, 3),
}
_NEVER = 2**20  # products
_STEPS = 4  # output frames, as of a slice
_VALUES = {"cuda": 2**23, "cpu": 2**14}  # of a frame
_SPOTS = 64  # pixels that are compared with float64
_ROUNDS, _CHAINS, _THREADS, _BLOCKS = 2000, 8, 256, 4  # of product_rate.cu; blocks of a processor
_OPERATIONS = 2 * 16 * 8 * 16  # of one product of a warp


def convolution_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each kind of layer and way: seconds, TFLOP/s, share of the ceiling, error."""
    device = torch.device(device_of(options))
    on_gpu, runs = device.type == "cuda", options.runs or (3 if options.quick else 9)
    kinds = dict(list(LAYERS.items())[: 2 if options.quick else None])
    ceilings: dict[bool, float] = {}
    if on_gpu and conv.find(next(iter(kinds.values())), device) is not None:
        for half in (False, True):
            ceilings[half] = product_rate(device, half=half)
            sums = "half precision" if half else "float32"
            yield {"layer": "products alone", "sums": sums, "tflops": ceilings[half] / 1e12}
    with torch.inference_mode(), exact_arithmetic():
        for name, taps in kinds.items():
            for way, row in _layer_rows(taps, device, runs, quick=options.quick):
                speed = row["tflops"] * 1e12
                ceiling = ceilings.get(way not in ("torch", "float32"))
                share = {} if ceiling is None else {"of_ceiling": speed / ceiling}
                yield {"layer": name, "sums": way, **row, **share}


def sums_on(device: torch.device) -> dict[str, int]:
    """Kinds of sums of our kernel on a GPU, with their `Program.promote`."""
    usual = conv.promote_on(device)
    return {"float32": 0, f"promoted every {usual}": usual, "half precision": _NEVER}


def _layer_rows(
    taps: Taps, device: torch.device, runs: int, *, quick: bool
) -> Iterator[tuple[str, dict[str, float]]]:
    """Seconds, TFLOP/s and error of each way to compute a layer."""
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    side = math.isqrt(_VALUES[device.type] // max(taps.outer, taps.inner) // (16 if quick else 1))
    random = torch.Generator().manual_seed(1)
    shape = taps.reach + _STEPS - 1, side, side, taps.inner
    weight = torch.randn(taps[:5], generator=random) / math.sqrt(math.prod(taps[1:5]))
    x = torch.randn(shape, generator=random).to(device, dtype).permute(0, 3, 1, 2)
    weight = weight.to(device, dtype)
    above, left = taps.rows // 2, taps.columns // 2
    clip = x.movedim(0, 1)[None]
    plain = weight.contiguous(memory_format=torch.channels_last_3d)
    stride, padding = (1, taps.stride, taps.stride), (0, above, left)
    by_torch = partial(F.conv3d, clip, plain, None, stride, padding)
    result = by_torch()[0].movedim(1, 0)
    sizes = torch.tensor([result.shape[0], *result.shape[2:]])
    spots = (torch.rand(_SPOTS, 3, generator=random) * sizes).long()
    wanted = _exact(x, weight, taps, spots)
    ways: dict[str, tuple[Callable[[], object], Tensor]] = {"torch": (by_torch, result)}
    out = torch.empty_like(result, memory_format=torch.channels_last)
    work = Work(
        frames=x[taps.reach - 1 :], past=x[: taps.reach - 1], out=out, above=above, left=left
    )
    if taps.reach == 1:
        work = Work(frames=x, out=out, above=above, left=left)
    for sums, promote in sums_on(device).items() if device.type == "cuda" else ():
        program = Program(
            taps=taps, tile=tile_for(taps.outer), promote=promote, store=work.store or 1
        )
        kernel = conv.load(device, program) if work.store else None
        if kernel is not None:
            ways[sums] = partial(kernel.convolve, program.packed(weight), work), out
    if device.type == "cuda" and (theirs := _comfy_kitchen()) is not None:
        padded = F.pad(clip, (left, left, above, above))  # they convolve without padding
        padded = padded.contiguous(memory_format=torch.channels_last_3d)
        by_theirs = partial(theirs, padded, plain, stride=stride)
        ways["comfy-kitchen"] = by_theirs, by_theirs()[0].movedim(1, 0)
    operations = 2 * result.numel() * math.prod(taps[1:5])
    for way, (compute, found) in ways.items():
        seconds = measure(compute, device.type, runs=runs, warm_ups=2).seconds
        difference = _at(found, spots) - wanted
        yield (
            way,
            {
                "seconds": seconds,
                "tflops": operations / seconds / 1e12,
                "error": float(difference.norm() / wanted.norm()),
            },
        )


def _comfy_kitchen() -> Callable[..., Tensor] | None:
    """The convolution of comfy-kitchen, which calls torch's for shapes that its kernel declines."""
    with contextlib.suppress(ImportError, AttributeError):
        found: Callable[..., Tensor] = importlib.import_module("comfy_kitchen").fp16_conv3d
        return found
    return None


def _at(result: Tensor, spots: Tensor) -> Tensor:
    """Channels [S, O] of some pixels, [S, 3]: step, row, column; float64 on the CPU."""
    step, row, column = spots.to(result.device).unbind(1)
    return result[step, :, row, column].double().cpu()


def _exact(x: Tensor, weight: Tensor, taps: Taps, spots: Tensor) -> Tensor:
    """The truth at some pixels, as `_at`."""
    above, left = taps.rows // 2, taps.columns // 2
    padded = F.pad(x, (left, left, above, above))
    patches = []
    for step, row, column in spots.tolist():
        top, first = taps.stride * row, taps.stride * column
        seen = padded[
            step : step + taps.reach, :, top : top + taps.rows, first : first + taps.columns
        ]
        patches.append(seen.double().cpu())
    return torch.einsum("stiyx,oityx->so", torch.stack(patches), weight.double().cpu())


def product_rate(device: torch.device, *, half: bool) -> float:
    """Operations a second of matrix units that do nothing else; `half`: sums in half precision.

    Raises:
        NvrtcMissing: As `build.compiled`, which says the others.
    """
    options = build.macros(torch.float16, HALF_SUMS=int(half))
    module = build.compiled(device, "product_rate", options)
    blocks = build.processors(device) * _BLOCKS
    out = torch.empty(blocks * _THREADS, dtype=torch.int32, device=device)
    arguments = build.pointer(out), ctypes.c_int(_ROUNDS)
    grid = (blocks, 1, 1), (_THREADS, 1, 1), 0
    launch = partial(module.launch, "multiply_only", grid, arguments)
    seconds = measure(launch, device.type, runs=5, warm_ups=1).seconds
    return blocks * _THREADS // 32 * _ROUNDS * _CHAINS * _OPERATIONS / seconds
