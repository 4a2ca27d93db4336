"""Case `kernels`: how fast GroupNorm and SiLU move bytes, beside a copy on the same device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from engine.bench.ceilings import clocked
from engine.bench.report import Row
from engine.ops import norm
from engine.ops.kernels import group_norm

_GROUPS = 32
_EPS = 1e-6


def measure_bandwidth(device: str, *, quick: bool = False) -> Iterator[Row]:
    """A row for each dtype and step: seconds, GB/s, and their share of what a copy reaches.

    On a card each step is measured with kernels and without. Bytes are those that have to be read
    and written: a step that reads twice has half the GB/s.
    """
    on_card = device == "cuda"
    side = (1024 if on_card else 256) // (4 if quick else 1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32) if on_card else (torch.float32,):
        for channels in (128,) if quick else (128, 512):
            x = torch.randn(5, channels, side, side * 128 // channels, device=device)
            frames = x.to(dtype).to(memory_format=torch.channels_last)
            yield from _rows(frames, runs=3 if quick else 15)


def _rows(x: Tensor, runs: int) -> Iterator[Row]:
    out = torch.empty_like(x)
    size = {"device": x.device.type, "dtype": str(x.dtype).removeprefix("torch.")}
    size["frames"] = "x".join(map(str, x.shape))
    work: Callable[[], object] = partial(out.copy_, x)
    copy = _speed(work, 2 * x.nbytes, x, runs)
    yield {**size, "step": "copy", "form": "torch", **copy, "of_copy": 1.0}
    forms = [False, True] if group_norm.working(x.device) else [False]
    for kernels in forms:
        for step, (passes, work) in _steps(x, out, kernels).items():
            speed = _speed(work, passes * x.nbytes, x, runs)
            share = speed["gb_a_second"] / copy["gb_a_second"]
            form = "kernels" if kernels else "torch"
            yield {**size, "step": step, "form": form, **speed, "of_copy": share}


def _steps(x: Tensor, out: Tensor, kernels: bool) -> dict[str, tuple[int, Callable[[], object]]]:
    """How often each step has to pass over the frames, and its work."""
    weight, bias = torch.rand(2, x.shape[1], device=x.device).to(x.dtype)
    moments = norm.group_moments(x, _GROUPS, kernels=kernels)
    scale, shift = norm.scale_and_shift(moments, weight, bias, _EPS)
    statistics: Callable[[], object] = partial(norm.group_moments, x, _GROUPS)
    found = group_norm.find(x, _GROUPS, out) if kernels else None
    if found is not None:  # without putting the parts together
        statistics = partial(found[0].moments, x, found[1])
    whole = partial(norm.group_norm_silu, x, weight, bias, _GROUPS, _EPS, out)
    return {
        "moments": (1, statistics),
        "normalise": (
            2,
            partial(norm.normalise, x, scale, shift, out, silu=True, kernels=kernels),
        ),
        "both": (3, partial(whole, kernels=kernels)),
    }


def _speed(work: Callable[[], object], moved: int, x: Tensor, runs: int) -> dict[str, float]:
    timing = clocked(work, x.device.type, runs=runs, warm_ups=2)
    return {"seconds": timing.seconds, "gb_a_second": moved / timing.seconds / 1e9}
