"""Cases `kernels`, `kernel-errors` and `attention`: single operators of the models.

`kernels`: how fast passes over frames and tokens move bytes, compared with a copy. Passes over
frames are those of the VAEs (a norm and SiLU: GroupNorm in SeedVR2, an RMS norm of each position in
Wan), passes over tokens those between the matrix products of the transformer. `kernel-errors`: each
family of CUDA kernels against PyTorch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.bench.cases.runs import device_of, require_gpu
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.ops.attention import attention
from engine.ops.attention.backends import BACKENDS
from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.kernels import build, channel_norm, group_norm, heads, quantize, token_rows
from engine.ops.norm import group_norm as norm
from engine.ops.norm.rms_norm import rms_norm_silu
from engine.ops.norm.token_passes import add_gated, rms_modulate, swiglu

_GROUPS = 32
_EPS = 1e-6
_DIM, _HEADS, _HEAD_DIM, _HIDDEN = 2560, 20, 128, 6912  # of the 3B transformer
_WINDOW = 405  # tokens of a window of a 16:9 picture
_PAIRS = 63  # pairs of channels that RoPE rotates
_LENGTHS = (463, 926, 2546)  # tokens of 16:9 windows of 2, 5 and 20 latent steps with the text


@dataclass(frozen=True, slots=True)
class MemoryPass:
    """Work and the bytes that it has to read and write."""

    step: str
    moved_bytes: int
    work: Callable[[], object]


def kernel_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each dtype and step: seconds, GB/s, and their share of what a copy reaches.

    On a GPU each step is measured with CUDA kernels and without. Bytes are those that have to be
    read and written: a step that reads twice has half the GB/s.
    """
    device = device_of(options)
    on_gpu, quick, runs = device == "cuda", options.quick, 3 if options.quick else 15
    side = (1024 if on_gpu else 256) // (4 if quick else 1)
    tokens = _WINDOW * (40 if on_gpu else 2) // (2 if quick else 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32) if on_gpu else (torch.float32,):
        for channels in (128,) if quick else (128, 512):
            x = torch.randn(5, channels, side, side * 128 // channels, device=device)
            frames = x.to(dtype).to(memory_format=torch.channels_last)
            has_kernels = all(
                family.working(x.device, dtype) for family in (group_norm, channel_norm)
            )
            yield from _rows(frames, _frame_passes, has_kernels, runs)
        x = torch.randn(tokens, _DIM, device=device).to(dtype)
        has_kernels = all(family.working(x.device, dtype) for family in (token_rows, heads))
        yield from _rows(x, _token_passes, has_kernels, runs)


def _rows(
    x: Tensor, passes: Callable[[Tensor, bool], list[MemoryPass]], has_kernels: bool, runs: int
) -> Iterator[Row]:
    """A copy of x, then the passes without and with kernels."""
    size = {"device": x.device.type, "dtype": str(x.dtype).removeprefix("torch.")}
    size["frames" if x.dim() == 4 else "tokens"] = "x".join(map(str, x.shape))
    copy = MemoryPass("copy", 2 * x.nbytes, partial(torch.empty_like(x).copy_, x))
    ceiling = _speed(copy, x, runs)
    yield {**size, "step": "copy", "form": "torch", **ceiling, "of_copy": 1.0}
    for form in ("torch", "kernels")[: 1 + has_kernels]:
        for one in passes(x, form == "kernels"):
            speed = _speed(one, x, runs)
            share = speed["gb_a_second"] / ceiling["gb_a_second"]
            yield {**size, "step": one.step, "form": form, **speed, "of_copy": share}


def _frame_passes(x: Tensor, kernels: bool) -> list[MemoryPass]:
    """GroupNorm and SiLU of frames [T, C, H, W]: statistics, scaling, both; then the RMS norm."""
    weight, bias = torch.rand(2, x.shape[1], device=x.device).to(x.dtype)
    gamma, out = weight.float(), torch.empty_like(x)
    of_groups = norm.group_statistics(x, _GROUPS, kernels=kernels)
    scale, shift = norm.scale_and_shift(of_groups, weight, bias, _EPS)
    statistics: Callable[[], object] = partial(norm.group_statistics, x, _GROUPS)
    found = group_norm.find(x, _GROUPS, out) if kernels else None
    if found is not None:  # the kernel alone, without the sum over its blocks
        statistics = partial(found[0].statistics, x, found[1])
    write = partial(norm.normalise, x, scale, shift, out, silu=True, kernels=kernels)
    whole = partial(norm.group_norm_silu, x, weight, bias, _GROUPS, _EPS, out, kernels=kernels)
    positions = partial(rms_norm_silu, x, gamma, out, kernels=kernels)
    return [
        MemoryPass("moments", x.nbytes, statistics),
        MemoryPass("normalise", 2 * x.nbytes, write),
        MemoryPass("both", 3 * x.nbytes, whole),
        MemoryPass("positions", 2 * x.nbytes, positions),
    ]


def _token_passes(x: Tensor, kernels: bool) -> list[MemoryPass]:
    """Steps between the matrix products of a layer, for tokens [N, dim]."""
    tokens = len(x)
    scale, shift = torch.rand(2, _DIM, device=x.device)
    out, residual = torch.empty_like(x), torch.zeros_like(x)
    gate, value = x.new_ones(tokens, 2 * _HIDDEN).chunk(2, dim=1)
    qkv = x.new_ones(tokens, 3, _HEADS, _HEAD_DIM)
    weights = torch.rand(2, _HEAD_DIM, device=x.device)
    head_norm = HeadNorm(weights[0], weights[1], _EPS)
    rows = (torch.empty_like(qkv[:, 0]), torch.empty_like(qkv[:, 1]), torch.empty_like(qkv[:, 2]))
    modulate = partial(rms_modulate, x, scale, shift, _EPS, out, kernels=kernels)
    add = partial(add_gated, residual, x, scale, kernels=kernels)
    placement = _reversed_windows(tokens, x.device)
    gather = partial(gather_qk, qkv, placement, head_norm, rows, kernels=kernels)
    return [
        MemoryPass("rms_modulate", 2 * x.nbytes, modulate),
        MemoryPass("add_gated", 3 * x.nbytes, add),
        MemoryPass("swiglu", 3 * gate.nbytes, partial(swiglu, gate, value, gate, kernels=kernels)),
        MemoryPass("gather_qk", 2 * qkv.nbytes, gather),
    ]


def _reversed_windows(tokens: int, device: torch.device) -> Placement:
    """Tokens that go to other rows, rotated as in windows of one shape."""
    angles = torch.rand(_WINDOW, _PAIRS, device=device)
    angle = torch.arange(tokens, device=device) % _WINDOW
    target = torch.arange(tokens - 1, -1, -1, device=device)
    return Placement(target, angles.cos(), angles.sin(), angle)


def _speed(one: MemoryPass, x: Tensor, runs: int) -> dict[str, float]:
    timing = measure(one.work, x.device.type, runs=runs, warm_ups=2)
    return {"seconds": timing.seconds, "gb_a_second": one.moved_bytes / timing.seconds / 1e9}


def kernel_error_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each family of CUDA kernels and dtype: whether it works, and why not.

    `found` is what the family's own trial logs: its error, or what failed. `seconds` are of the
    clock, with compiling unless the kernels are in the cache.

    Raises:
        NoUsableGpu: torch has none.
    """
    device = torch.device(require_gpu(options))
    trial, lines = logging.getLogger(build.__name__), _LogLines()
    before = trial.level
    trial.addHandler(lines)
    trial.setLevel(logging.INFO)
    try:
        for family in (group_norm, channel_norm, token_rows, heads, quantize):
            for dtype in build.DTYPES:
                begin = time.perf_counter()
                works = "yes" if family.working(device, dtype) else "NO"
                row: Row = {"kernels": family.__name__.rpartition(".")[2]}
                row |= {"dtype": str(dtype).removeprefix("torch."), "works": works}
                row["seconds"] = time.perf_counter() - begin
                yield row | {"found": "; ".join(lines.taken())}
    finally:
        trial.removeHandler(lines)
        trial.setLevel(before)


class _LogLines(logging.Handler):
    """Keeps messages until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self._kept.append(record.getMessage())

    def taken(self) -> list[str]:
        """Those since the last call."""
        found, self._kept = self._kept, []
        return found


def attention_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each dtype, length and backend: seconds, TFLOP/s, error against float64."""
    device = device_of(options)
    on_gpu, runs = device == "cuda", 3 if options.quick else 9
    for dtype in (torch.float16, torch.bfloat16) if on_gpu else (torch.float32,):
        names = attention.working(device, dtype, _HEAD_DIM)
        errors = {name: attention.error_of(name, device, dtype, _HEAD_DIM) for name in names}
        for length in _LENGTHS if on_gpu and not options.quick else _LENGTHS[:1]:
            windows, heads_ = (9, _HEADS) if on_gpu else (1, 2)
            shape = 3, windows, length, heads_, _HEAD_DIM
            q, k, v = torch.randn(shape, device=device).to(dtype).transpose(2, 3)
            flops = 4 * windows * heads_ * length**2 * _HEAD_DIM
            for name in names:
                work = partial(attention.attend, q, k, v, backend=name)
                seconds = measure(work, device, runs=runs, warm_ups=2).seconds
                yield {
                    "device": device,
                    "dtype": str(dtype).removeprefix("torch."),
                    "windows": "x".join(map(str, q.shape)),
                    "backend": name,
                    "seconds": seconds,
                    "tflops": flops / seconds / 1e12,
                    "error": errors[name],
                    "exact": "yes" if BACKENDS[name].is_exact else "no",
                }
