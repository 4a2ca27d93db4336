"""Case `attention`: each backend that works here, on windows of the transformer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import clocked
from engine.ops.attention import attention
from engine.ops.attention.backends import BACKENDS

_HEADS, _HEAD_DIM = 20, 128  # of the 3B transformer
_LENGTHS = {2: 463, 5: 926, 20: 2546}  # latent steps: tokens of a 16:9 window with its text


def measure_attention(device: str, *, quick: bool = False) -> Iterator[Row]:
    """A row for each dtype, length and backend: seconds, TFLOP/s, error beside the exact result."""
    on_card, runs = device == "cuda", 3 if quick else 9
    for dtype in (torch.float16, torch.bfloat16) if on_card else (torch.float32,):
        names = attention.working(device, dtype, _HEAD_DIM)
        errors = {name: attention.error_of(name, device, dtype, _HEAD_DIM) for name in names}
        for length in list(_LENGTHS.values())[: 1 if quick or not on_card else 3]:
            windows, heads = (9, _HEADS) if on_card else (1, 2)
            shape = 3, windows, length, heads, _HEAD_DIM
            q, k, v = torch.randn(shape, device=device).to(dtype).transpose(2, 3)
            flops = 4 * windows * heads * length**2 * _HEAD_DIM
            for name in names:
                work = partial(attention.attend, q, k, v, backend=name)
                seconds = clocked(work, device, runs=runs, warm_ups=2).seconds
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
