"""Seconds of a piece of work, and upper bounds of the device's speed to compare them with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from engine.core.messages import Message
from engine.ops.trials import gpu_seconds

_ENOUGH_S = 0.4  # of work for `cost_of`
_BUSY_S = 0.02  # of work between two events of a GPU, of which launches are a small part
_MOST_CALLS = 50
REFERENCE_CALIBRATION = 0.69  # CPU s of `calibration` on the computer of the public figures
CALIBRATION_FLOPS = 2 * 128 * 128 * 27 * 5 * 128 * 128  # with the zeros of the padding
_MATMULS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "_linear_pointwise")
_ATTENTION = "_scaled_dot_product"

Work = Callable[[], object]
Costs = dict[str, float]
Step = tuple[Message, Callable[[], Costs]]  # of the speed test: its name, and its work


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of some runs."""

    seconds: float  # CPU seconds of all threads of the process, or seconds of the GPU
    wall_s: float


def measure(work: Work, device: str = "cpu", *, runs: int, warm_ups: int = 0) -> Timing:
    """Time a piece of work.

    Args:
        work: Runs once; on a GPU it is called again where it is short.
        device: "cuda" measures with events of the GPU, everything else in CPU seconds.
        runs: Runs of which the median counts.
        warm_ups: Runs before them that do not count.
    """
    once = _on_gpu if device == "cuda" else _on_cpu
    for _ in range(warm_ups):
        work()
    found = [once(work) for _ in range(runs)]
    return Timing(
        seconds=statistics.median(one.seconds for one in found),
        wall_s=statistics.median(one.wall_s for one in found),
    )


def _on_cpu(work: Work) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(seconds=time.process_time() - cpu, wall_s=time.perf_counter() - wall)


def _on_gpu(work: Work) -> Timing:
    """Short work is called several times, so that the GPU need not wait for the host's launches."""
    once = _between_events(work, 1)
    calls = min(_MOST_CALLS, int(_BUSY_S / max(once.seconds, 1e-7)))
    return once if calls < 2 else _between_events(work, calls)


def _between_events(work: Work, calls: int) -> Timing:
    """Mean time of one of n calls."""
    torch.cuda.synchronize()  # work before it, a warm-up for example, is not its own
    wall = time.perf_counter()
    seconds = gpu_seconds(work, calls)
    return Timing(seconds=seconds, wall_s=(time.perf_counter() - wall) / calls)


def cost_of(work: Work, units: float, *, device: str = "cpu", runs: int = 5) -> float:
    """Median seconds of a unit of work.

    Args:
        work: Runs once; its first run counts only if `runs` is 1.
        units: Units of work in one run.
        device: Device of `measure`.
        runs: Runs at most; 0.4 s of work are enough.
    """
    first = measure(work, device, runs=1).seconds
    if runs == 1:
        return first / units
    found: list[float] = []
    while len(found) < runs and (not found or sum(found) < _ENOUGH_S):
        found.append(measure(work, device, runs=1).seconds)
    return max(statistics.median(found), 1e-9) / units


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Number of rounds in which two pieces of work are timed against each other."""

    least: int = 3  # in any case; the scatter is known from two on
    most: int = 9
    scatter: float = 0.01  # rounds end once the standard error is below this share of the ratio
    seconds: float = 8.0  # after which no round begins, once there were `least`

    @classmethod
    def exactly(cls, rounds: int) -> Effort:
        """A number of rounds that does not depend on the scatter."""
        return cls(least=rounds, most=rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Time of one piece of work over that of another."""

    value: float  # median of the ratios of all rounds
    scatter: float | None  # standard error of that median; None after a single round
    rounds: int

    @classmethod
    def of(cls, found: list[float]) -> Ratio:
        """The ratio of some rounds."""
        return cls(value=statistics.median(found), scatter=_scatter(found), rounds=len(found))


def compare(work: Work, other: Work, device: str, effort: Effort) -> Ratio:
    """Time of `work` over that of `other`; the caller warms both up.

    Both run in each round, each first in turn, so that other load slows both.
    """
    found: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(found) < effort.least or (
        len(found) < effort.most and not _is_settled(found, effort) and time.perf_counter() < end
    ):
        found.append(_round(work, other, device, is_first=len(found) % 2 == 0))
    return Ratio.of(found)


def _round(work: Work, other: Work, device: str, *, is_first: bool) -> float:
    order = (work, other) if is_first else (other, work)
    seconds = [measure(one, device, runs=1).seconds for one in order]
    numerator, denominator = seconds if is_first else reversed(seconds)
    return numerator / max(denominator, 1e-9)


def _is_settled(found: list[float], effort: Effort) -> bool:
    scatter = _scatter(found)
    return scatter is not None and scatter < effort.scatter * statistics.median(found)


def _scatter(found: list[float]) -> float | None:
    """Standard error of a median: that of the mean, times 1.25."""
    if len(found) < 2:
        return None
    return float(1.25 * statistics.stdev(found) / len(found) ** 0.5)


# --- upper bounds of the device


def calibration(*, quick: bool = False) -> float:
    """CPU seconds of a convolution that compares the CPU with that of the public figures.

    128 to 128 channels, 3x3x3, on 5 frames of 128x128, float32, at most two threads.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(min(2, threads))
    try:
        layer = torch.nn.Conv3d(128, 128, 3, padding=1)
        frames = torch.randn(1, 128, 5, 128, 128)
        runs, warm_ups = (3, 1) if quick else (15, 3)
        with torch.inference_mode():
            return measure(lambda: layer(frames), runs=runs, warm_ups=warm_ups).seconds
    finally:
        torch.set_num_threads(threads)


def matrix_ceiling(device: str, dtype: torch.dtype, *, quick: bool = False) -> float:
    """Floating-point operations of a large matrix product, per CPU second or GPU second."""
    on_gpu = device == "cuda"
    side = (8192 if on_gpu else 2048) // (4 if quick else 1)
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    runs, warm_ups = (10, 3) if on_gpu else (3, 1)
    with torch.inference_mode():
        timing = measure(lambda: left @ right, device, runs=runs, warm_ups=warm_ups)
    return float(2 * side**3 / timing.seconds)


class MatmulRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Records every matrix product and attention inside, to run them again without the rest.

    Weights stay the tensors they are; all others are replaced by one of the same shape and layout,
    so that a recording takes little memory. Attention by packages that register no operators of
    torch is not recorded. An activation fused into a product is left out.

    Args:
        weights: Tensors that are not replaced.

    Attributes:
        flops: Multiplications and additions of all recorded calls.
        attention_calls: Number of recorded calls of attention.
    """

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.flops = self.attention_calls = 0
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._calls: list[Callable[[], Any]] = []
        self._substitutes: dict[tuple[Any, ...], Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().rpartition("::")[2].partition(".")[0]
        result = func(*args, **kwargs)
        if name.startswith(_ATTENTION):
            self.attention_calls += 1
            q, k = args[:2]
            self.flops += 4 * prod(q.shape) * k.shape[-2]
            self._record(func, args, kwargs)
        elif name in _MATMULS:
            product = result if isinstance(result, Tensor) else result[0]
            left = args[1] if name in ("addmm", "baddbmm") else args[0]
            self.flops += 2 * prod(product.shape) * int(left.shape[-1])
            if name == "_linear_pointwise":
                args = (*args[:3], "none", *args[4:])
            self._record(func, args, kwargs)
        return result

    def run(self) -> None:
        """Run all recorded calls in the same order."""
        for call in self._calls:
            call()

    def _record(self, func: Any, args: Any, kwargs: Any) -> None:
        args, kwargs = tree_map(self._substitute, (args, kwargs))
        self._calls.append(lambda: func(*args, **kwargs))

    def _substitute(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.untyped_storage().data_ptr() in self._weights:
            return value
        key = (tuple(value.shape), value.stride(), value.dtype, value.device)
        if key not in self._substitutes:
            tensor = torch.empty_strided(*key[:2], dtype=key[2], device=key[3])
            self._substitutes[key] = tensor.copy_(value)
        return self._substitutes[key]
