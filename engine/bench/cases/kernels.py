"""Case `kernels`: how fast passes over frames and tokens move bytes, beside a copy.

Passes over frames are those of the VAEs (a norm and SiLU: GroupNorm in SeedVR2, of each position in
Wan), passes over tokens those between the products of the transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import clocked
from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.kernels import channel_norm, group_norm, heads, token_rows
from engine.ops.linear.swiglu import swiglu
from engine.ops.norm import group_norm as norm
from engine.ops.norm.modulate import add_gated, rms_modulate
from engine.ops.norm.rms_norm import rms_norm_silu

_GROUPS = 32
_EPS = 1e-6
_DIM, _HEADS, _HIDDEN = 2560, 20, 6912  # of the 3B transformer
_WINDOW, _PAIRS = (
    405,
    63,
)  # tokens of a window of a 16:9 picture; channels that are turned, in pairs


@dataclass(frozen=True, slots=True)
class Pass:
    """Work and the bytes that it has to read and write."""

    step: str
    moved: int
    work: Callable[[], object]


def measure_bandwidth(device: str, *, quick: bool = False) -> Iterator[Row]:
    """A row for each dtype and step: seconds, GB/s, and their share of what a copy reaches.

    On a card each step is measured with kernels and without. Bytes are those that have to be read
    and written: a step that reads twice has half the GB/s.
    """
    on_card, runs = device == "cuda", 3 if quick else 15
    side = (1024 if on_card else 256) // (4 if quick else 1)
    tokens = _WINDOW * (40 if on_card else 2) // (2 if quick else 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32) if on_card else (torch.float32,):
        for channels in (128,) if quick else (128, 512):
            x = torch.randn(5, channels, side, side * 128 // channels, device=device)
            frames = x.to(dtype).to(memory_format=torch.channels_last)
            works = group_norm.working(x.device) and channel_norm.working(x.device)
            forms = [False, True] if works else [False]
            yield from _rows(frames, [partial(_over_frames, frames, form) for form in forms], runs)
        x = torch.randn(tokens, _DIM, device=device).to(dtype)
        forms = (
            [False, True] if token_rows.working(x.device) and heads.working(x.device) else [False]
        )
        yield from _rows(x, [partial(_over_tokens, x, form) for form in forms], runs)


def _rows(x: Tensor, forms: list[Callable[[], list[Pass]]], runs: int) -> Iterator[Row]:
    """A copy of x, then the passes of each form; the second form is that with kernels."""
    size = {"device": x.device.type, "dtype": str(x.dtype).removeprefix("torch.")}
    size["frames" if x.dim() == 4 else "tokens"] = "x".join(map(str, x.shape))
    copy = Pass("copy", 2 * x.nbytes, partial(torch.empty_like(x).copy_, x))
    ceiling = _speed(copy, x, runs)
    yield {**size, "step": "copy", "form": "torch", **ceiling, "of_copy": 1.0}
    for form, passes in zip(("torch", "kernels"), forms, strict=False):
        for one in passes():
            speed = _speed(one, x, runs)
            share = speed["gb_a_second"] / ceiling["gb_a_second"]
            yield {**size, "step": one.step, "form": form, **speed, "of_copy": share}


def _over_frames(x: Tensor, kernels: bool) -> list[Pass]:
    """GroupNorm and SiLU of frames [T, C, H, W], its parts and the whole; the norm of positions."""
    weight, bias = torch.rand(2, x.shape[1], device=x.device).to(x.dtype)
    gamma, out = weight.float(), torch.empty_like(x)
    moments = norm.group_statistics(x, _GROUPS, kernels=kernels)
    scale, shift = norm.scale_and_shift(moments, weight, bias, _EPS)
    statistics: Callable[[], object] = partial(norm.group_statistics, x, _GROUPS)
    found = group_norm.find(x, _GROUPS, out) if kernels else None
    if found is not None:  # without putting the parts together
        statistics = partial(found[0].statistics, x, found[1])
    write = partial(norm.normalise, x, scale, shift, out, silu=True, kernels=kernels)
    whole = partial(norm.group_norm_silu, x, weight, bias, _GROUPS, _EPS, out, kernels=kernels)
    return [
        Pass("moments", x.nbytes, statistics),
        Pass("normalise", 2 * x.nbytes, write),
        Pass("both", 3 * x.nbytes, whole),
        Pass("positions", 2 * x.nbytes, partial(rms_norm_silu, x, gamma, out, kernels=kernels)),
    ]


def _over_tokens(x: Tensor, kernels: bool) -> list[Pass]:
    """What lies between the products of a layer, for tokens [N, dim]."""
    tokens = len(x)
    scale, shift = torch.rand(2, _DIM, device=x.device)
    out, residual = torch.empty_like(x), torch.zeros_like(x)
    joined = x.new_ones(tokens, 2 * _HIDDEN)
    gate, value = joined.chunk(2, dim=1)
    qkv = x.new_ones(tokens, 3, _HEADS, _DIM // _HEADS)
    place = partial(gather_qk, qkv, _windows(tokens, x.device), _head_norm(x.device))
    rows = (torch.empty_like(qkv[:, 0]), torch.empty_like(qkv[:, 1]), torch.empty_like(qkv[:, 2]))
    return [
        Pass(
            "rms_modulate",
            2 * x.nbytes,
            partial(rms_modulate, x, scale, shift, _EPS, out, kernels=kernels),
        ),
        Pass("add_gated", 3 * x.nbytes, partial(add_gated, residual, x, scale, kernels=kernels)),
        Pass("swiglu", 3 * gate.nbytes, partial(swiglu, gate, value, gate, kernels=kernels)),
        Pass("gather_qk", 2 * qkv.nbytes, partial(place, rows, kernels=kernels)),
    ]


def _windows(tokens: int, device: torch.device) -> Placement:
    """Tokens that go to other rows, turned as in windows of one shape."""
    angles = torch.rand(_WINDOW, _PAIRS, device=device)
    angle = torch.arange(tokens, device=device) % _WINDOW
    target = torch.arange(tokens - 1, -1, -1, device=device)
    return Placement(target, angles.cos(), angles.sin(), angle)


def _head_norm(device: torch.device) -> HeadNorm:
    weights = torch.rand(2, _DIM // _HEADS, device=device)
    return HeadNorm(weights[0], weights[1], _EPS)


def _speed(one: Pass, x: Tensor, runs: int) -> dict[str, float]:
    timing = clocked(one.work, x.device.type, runs=runs, warm_ups=2)
    return {"seconds": timing.seconds, "gb_a_second": one.moved / timing.seconds / 1e9}
