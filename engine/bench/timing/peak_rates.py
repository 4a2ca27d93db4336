"""What a device can do at most, and how it compares with the machine of the public figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

REFERENCE_CALIBRATION = 0.69  # CPU s of `calibration` on the machine of the public figures
CALIBRATION_FLOPS = 2 * 128 * 128 * 27 * 5 * 128 * 128  # zeros around the frames counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """Medians of some runs."""

    seconds: float  # of all threads on a processor; of the device on a card
    wall_s: float


def clocked(work: Callable[[], object], device: str, *, runs: int, warm_ups: int) -> Clocked:
    """Time a piece of work on the clock that suits its device."""
    once = _on_card if device == "cuda" else _on_processor
    for _ in range(warm_ups):
        work()
    found = [once(work) for _ in range(runs)]
    return Clocked(
        seconds=statistics.median(one.seconds for one in found),
        wall_s=statistics.median(one.wall_s for one in found),
    )


def _on_processor(work: Callable[[], object]) -> Clocked:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Clocked(seconds=time.process_time() - cpu, wall_s=time.perf_counter() - wall)


def _on_card(work: Callable[[], object]) -> Clocked:
    torch.cuda.synchronize()
    wall = time.perf_counter()
    cuda: Any = torch.cuda  # its events have no types
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return Clocked(seconds=begin.elapsed_time(end) / 1000, wall_s=time.perf_counter() - wall)


def calibration(*, quick: bool = False) -> float:
    """CPU seconds of one convolution that tells how fast a processor is beside another.

    128 to 128 channels, 3x3x3, on 5 frames of 128x128, float32, two threads where there are two.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(min(2, threads))
    try:
        layer = torch.nn.Conv3d(128, 128, 3, padding=1)
        frames = torch.randn(1, 128, 5, 128, 128)
        runs, warm_ups = (3, 1) if quick else (15, 3)
        with torch.inference_mode():
            return clocked(lambda: layer(frames), "cpu", runs=runs, warm_ups=warm_ups).seconds
    finally:
        torch.set_num_threads(threads)


def matrix_ceiling(device: str, dtype: torch.dtype, *, quick: bool = False) -> float:
    """Floating-point operations a second of one large product of matrices.

    Per CPU second on a processor, per device second on a card: the clocks of `clocked`.
    """
    on_card = device == "cuda"
    side = (8192 if on_card else 2048) // (4 if quick else 1)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    with torch.inference_mode():
        timing = clocked(
            lambda: left @ right, device, runs=10 if on_card else 3, warm_ups=3 if on_card else 1
        )
    return float(2 * side**3 / timing.seconds)
