"""The faster dtype of convolutions on a CPU: bfloat16 where it is right, found by a trial.

Processors with AMX or AVX-512-BF16 multiply bfloat16 values faster than float32 ones, by how much
differs: on some not at all. What a processor says that it can do is no proof.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.serialization import ResultFile
from engine.hardware import devices
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.conv.temporal_conv import Form, TemporalConv, laid_out
from engine.ops.trials import first_line, machine

logger = logging.getLogger(__name__)

RESULTS = ResultFile("cpu_dtypes.json")
_CHANNELS, _SIDE, _STEPS, _REACH = 128, 24, 2, 3
_RUNS = 3  # of which the shortest counts
_MOST_S = 0.4  # on the clock for all runs, but for the first one that counts
_SPOTS = 48  # output pixels that are compared with float64
_LIMIT = 3e-2  # largest error that one rounding to bfloat16 explains, in RMS of the result
# Norms and copies of a VAE gain nothing, so its convolutions must gain more than that.
_WORTH_IT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeChoice:
    """Result of the trial.

    Attributes:
        dtype: "bfloat16" or "float32".
        ratio: Seconds of float32 over those of bfloat16; 0 where bfloat16 does not work.
        reason: For people: a clause without a full stop.
    """

    dtype: str
    ratio: float
    reason: str


def fastest_dtype() -> DtypeChoice:
    """The dtype in which this CPU convolves fastest.

    Measured once for each CPU, its instructions and version of torch, in at most half a second,
    and kept in a file of the cache folder. A failure means float32, never an exception.
    """
    if not devices.cpu_has_bf16():
        return DtypeChoice(dtype="float32", ratio=0.0, reason="no instructions for bfloat16")
    return _remembered()


@cache
def _remembered() -> DtypeChoice:
    key = f"{devices.cpu_name()}, {devices.cpu_flags()}, {machine(torch.device('cpu'))}"
    match RESULTS.get(key):
        case {"dtype": "bfloat16" | "float32" as dtype, "ratio": float(ratio), "reason": str(text)}:
            return DtypeChoice(dtype=dtype, ratio=ratio, reason=text)
    try:
        with torch.inference_mode():
            choice = _tried()
    except RuntimeError as err:
        if is_out_of_memory(err):  # no verdict
            return DtypeChoice(dtype="float32", ratio=0.0, reason=first_line(err))
        choice = DtypeChoice(dtype="float32", ratio=0.0, reason=f"it fails: {first_line(err)}")
    RESULTS.put(key, {"dtype": choice.dtype, "ratio": choice.ratio, "reason": choice.reason})
    logger.info("convolutions of %s: %s, %s", key, choice.dtype, choice.reason)
    return choice


def _tried() -> DtypeChoice:
    generator = torch.Generator().manual_seed(1)
    frames = torch.randn(_STEPS + _REACH - 1, _CHANNELS, _SIDE, _SIDE, generator=generator)
    weight = torch.randn(_CHANNELS, _CHANNELS, _REACH, 3, 3, generator=generator)
    work = {dtype: _work(frames, weight, dtype) for dtype in (torch.float32, torch.bfloat16)}
    error = _error(work[torch.bfloat16](), frames.bfloat16(), weight.bfloat16())
    if not error <= _LIMIT:  # not a number is a fault too
        reason = f"bfloat16 computes wrong results (error {error:.1e})"
        return DtypeChoice(dtype="float32", ratio=0.0, reason=reason)
    return decide(*_seconds(*work.values()))


def decide(wide: float, half: float) -> DtypeChoice:
    """Weigh seconds in float32 against those in bfloat16."""
    ratio = wide / half
    dtype = "bfloat16" if half <= _WORTH_IT * wide else "float32"
    reason = f"bfloat16 convolves {ratio:.2f} times as fast as float32"
    return DtypeChoice(dtype=dtype, ratio=ratio, reason=reason)


def _work(frames: Tensor, weight: Tensor, dtype: torch.dtype) -> Callable[[], Tensor]:
    """A convolution in the form that VAEs have on a CPU."""
    form: Form = "2d" if dtype is torch.float32 else "3d"
    taps = TemporalConv(laid_out(weight.to(dtype), form), None, padding=1, form=form)
    given = frames.to(dtype).contiguous(memory_format=torch.channels_last)
    return partial(taps.apply, given)


def _seconds(*work: Callable[[], Tensor]) -> list[float]:
    """Shortest wall-clock seconds of each, run in turns."""
    least, start = [float("inf")] * len(work), time.perf_counter()
    for run in range(1 + _RUNS):
        if run > 1 and time.perf_counter() - start > _MOST_S:
            break
        for number, one in enumerate(work):
            begin = time.perf_counter()
            one()
            if run:  # the first one prepares
                least[number] = min(least[number], time.perf_counter() - begin)
    return least


def _error(result: Tensor, frames: Tensor, weight: Tensor) -> float:
    """Largest error at some pixels, in RMS of the exact result."""
    generator = torch.Generator().manual_seed(2)
    spots = (
        torch.rand(_SPOTS, 3, generator=generator) * torch.tensor(result.shape)[[0, 2, 3]]
    ).long()
    spots[0] = 0  # a corner sees the padding
    padded = F.pad(frames, (1, 1, 1, 1))
    patches = [padded[t : t + _REACH, :, y : y + 3, x : x + 3] for t, y, x in spots.tolist()]
    exact = torch.einsum("stiyx,oityx->so", torch.stack(patches).double(), weight.double())
    step, row, column = spots.unbind(1)
    difference = (result[step, :, row, column].double() - exact).abs().max()
    return float(difference / exact.square().mean().sqrt())
