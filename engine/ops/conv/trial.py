"""Method of convolutions over time on a device: chosen by a trial on a small one, and cached.

cuDNN 9.8 to 9.14 computes 3-D convolutions in half precision through a copy of the input that is
27 times as large, or not at all. Versions are no proof, so memory and result are checked.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core import atomic_file
from engine.core.paths import cache_folder
from engine.ops.conv.temporal_conv import Form, TemporalConv
from engine.ops.torch_flags import current

logger = logging.getLogger(__name__)

MOST_WORKSPACE = (
    4.0  # sizes of the input that a sound convolution may need in addition to its result
)
_WORTH_IT = 0.97  # 3-D takes at most this share of the time of 2-D sums, or we keep the sums
_SPOTS = 48  # output pixels that are compared with float64
_RUNS = 5  # on a GPU, whose choice depends on them

# Largest error that rounding explains, in units of the result's RMS.
_LIMITS = {
    torch.float64: 1e-10,
    torch.float32: 1e-3,
    torch.float16: 2e-2,
    torch.bfloat16: 1.5e-1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionChoice:
    """The method to use, and why."""

    form: Form
    reason: str  # for users: a clause without a full stop
    ratio: float | None = None  # time of 3-D over that of 2-D sums; None where not compared
    is_sound: bool = True  # False when no method was right

    @property
    def text(self) -> str:
        """One line for users."""
        compared = "" if self.ratio is None else f" (3-D takes {self.ratio:.2f} x the time of 2-D)"
        return f"{self.form.upper()}: {self.reason}{compared}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of one method."""

    error: float = 0.0  # largest, in units of the exact result's RMS
    workspace: float = (
        0.0  # most bytes in addition to the result, in sizes of the input; 0 if unknown
    )
    seconds: float = 0.0
    failure: str = ""  # the message when it did not run


@dataclass(frozen=True, slots=True)
class _Problem:
    """A convolution [O, I, 3, 3, 3] of frames [N, I, H, W], and the truth at some pixels of it."""

    frames: Tensor
    weight: Tensor
    spots: Tensor  # [S, 3]: step, row, column of the result
    exact: Tensor = field(repr=False)  # [S, O] float64 on the CPU


def choose_convolution(device: torch.device | str, dtype: torch.dtype) -> ConvolutionChoice:
    """The method of convolutions over time that is right and fastest on a device.

    Measured once for each GPU, version of torch and cuDNN, and dtype, and kept in a file of the
    cache folder; a processor is tried by each process, for right or wrong only. What fails while
    measuring leads to 2-D sums, never to an exception.

    Memory: on a GPU about 150 MB for a moment, the first time.
    """
    device = torch.device(device)
    return _choose(device, dtype, device.type == "cpu" or current().cudnn_benchmark)


@cache
def _choose(device: torch.device, dtype: torch.dtype, benchmark: bool) -> ConvolutionChoice:
    if device.type == "cpu":
        return probe_convolution(device, dtype)
    key = _key(device, dtype) + ("" if benchmark else ", no benchmark")
    known = _remembered(key)
    if known is not None:
        return known
    choice = probe_convolution(device, dtype)
    if choice.is_sound and choice.ratio is not None:  # a passing lack of memory is not kept
        _remember(key, choice)
    logger.info("convolutions over time on %s: %s", key, choice.text)
    return choice


def probe_convolution(device: torch.device | str, dtype: torch.dtype) -> ConvolutionChoice:
    """As `choose_convolution`, but measured now, without the cache; some milliseconds."""
    device = torch.device(device)
    try:
        with torch.inference_mode(), _as_models_do():
            problem = _problem(device, dtype)
            two, three = (_try(problem, form) for form in ("2d", "3d"))
    except RuntimeError as err:
        return ConvolutionChoice(form="2d", reason=f"the self-test failed: {_first_line(err)}")
    return decide(two, three, dtype=dtype, on_card=device.type == "cuda")


def decide(two: Trial, three: Trial, *, dtype: torch.dtype, on_card: bool) -> ConvolutionChoice:
    """Weigh 2-D sums against 3-D.

    Args:
        two: What sums of 2-D convolutions did.
        three: What the 3-D convolution did.
        dtype: Of the frames.
        on_card: A GPU uses the faster one. On a processor both take the same time, so it takes
            what needs no copies: sums in place, or in half precision, where they would round too
            often, 3-D.
    """
    faults = _fault(two, _LIMITS[dtype]), _fault(three, _LIMITS[dtype])
    if all(faults):
        reason = f"neither form is right here: sums {faults[0]}; 3-D {faults[1]}"
        return ConvolutionChoice(form="2d", reason=reason, is_sound=False)
    ratio = three.seconds / two.seconds if three.seconds and two.seconds else None
    if faults[1]:
        return ConvolutionChoice(form="2d", reason=f"3-D {faults[1]}", ratio=ratio)
    if faults[0]:
        return ConvolutionChoice(form="3d", reason=f"a sum of 2-D {faults[0]}", ratio=ratio)
    if not on_card and dtype.itemsize < 4:
        return ConvolutionChoice(form="3d", reason="it rounds once and copies nothing", ratio=ratio)
    if not on_card:
        return ConvolutionChoice(form="2d", reason="a processor adds up in place", ratio=ratio)
    form: Form = "3d" if ratio is not None and ratio < _WORTH_IT else "2d"
    return ConvolutionChoice(form=form, reason="both are right, it is the faster", ratio=ratio)


def _fault(trial: Trial, limit: float) -> str:
    if trial.failure:
        return f"does not run ({trial.failure})"
    if not trial.error <= limit:  # not a number is a fault too
        return f"computes wrongly (error {trial.error:.1e})"
    if trial.workspace > MOST_WORKSPACE:
        return f"takes {trial.workspace:.0f} times its input as workspace"
    return ""


# --- the trial


def _as_models_do() -> AbstractContextManager[None]:
    """The settings of cuDNN under which models compute; its own benchmark runs in a first call."""
    benchmark = current().cudnn_benchmark
    return torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, allow_tf32=False)


def _problem(device: torch.device, dtype: torch.dtype) -> _Problem:
    channels, steps, height, width = (256, 4, 96, 96) if device.type == "cuda" else (32, 2, 20, 24)
    generator = torch.Generator().manual_seed(1)
    frames = torch.randn(steps + 2, channels, height, width, generator=generator)
    weight = torch.randn(channels, channels, 3, 3, 3, generator=generator) / channels**0.5
    frames, weight = frames.to(dtype), weight.to(dtype)
    sizes = torch.tensor([steps, height, width])
    spots = (torch.rand(_SPOTS, 3, generator=generator) * sizes).long()
    spots[0], spots[1] = 0, sizes - 1  # corners see the padding
    exact = _exact(frames, weight, spots)
    frames = frames.to(device).to(memory_format=torch.channels_last)
    weight = weight.to(device).to(memory_format=torch.channels_last_3d)
    return _Problem(frames, weight, spots, exact)


def _exact(frames: Tensor, weight: Tensor, spots: Tensor) -> Tensor:
    padded = F.pad(frames, (1, 1, 1, 1))
    patches = [padded[t : t + 3, :, y : y + 3, x : x + 3] for t, y, x in spots.tolist()]
    return torch.einsum("stiyx,oityx->so", torch.stack(patches).double(), weight.double())


def _try(problem: _Problem, form: Form) -> Trial:
    taps = TemporalConv(problem.weight, None, padding=1, form=form)
    on_card = problem.frames.device.type == "cuda"
    try:
        result = taps.apply(problem.frames)
        error = _error(result, problem)
        workspace = _workspace(lambda: taps.apply(problem.frames), problem) if on_card else 0.0
        seconds = _seconds(lambda: taps.apply(problem.frames), wait=on_card)
    except RuntimeError as err:
        return Trial(failure=_first_line(err))
    return Trial(error=error, workspace=workspace, seconds=seconds)


def _error(result: Tensor, problem: _Problem) -> float:
    step, row, column = problem.spots.unbind(1)
    found = result.double().cpu()[step, :, row, column]
    difference = (found - problem.exact).abs().max()
    return float(difference / problem.exact.square().mean().sqrt())


def _workspace(work: Callable[[], Tensor], problem: _Problem) -> float:
    torch.cuda.synchronize(problem.frames.device)
    torch.cuda.reset_peak_memory_stats(problem.frames.device)
    before = torch.cuda.memory_allocated(problem.frames.device)
    result = work()
    torch.cuda.synchronize(problem.frames.device)
    peak = torch.cuda.max_memory_allocated(problem.frames.device) - before
    return (peak - result.nbytes) / problem.frames.nbytes


def _seconds(work: Callable[[], object], *, wait: bool) -> float:
    """The shortest of some runs."""
    found = []
    for _ in range(_RUNS if wait else 1):
        begin = time.perf_counter()
        work()
        if wait:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return min(found)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:120] or type(error).__name__


# --- the file


def _path() -> Path:
    return cache_folder() / "convolutions.json"


def _key(device: torch.device, dtype: torch.dtype) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    backend: Any = torch.backends.cudnn  # without types
    cudnn = backend.version() if device.type == "cuda" else None
    return f"{name}, torch {torch.__version__}, cuDNN {cudnn}, {str(dtype).removeprefix('torch.')}"


def _read() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(_path().read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _remembered(key: str) -> ConvolutionChoice | None:
    entry = _read().get(key)
    if not isinstance(entry, dict) or entry.get("form") not in ("2d", "3d"):
        return None
    ratio, reason = entry.get("ratio"), entry.get("reason")
    if not isinstance(ratio, float) or not isinstance(reason, str):
        return None
    return ConvolutionChoice(form=entry["form"], reason=reason, ratio=ratio)


def _remember(key: str, choice: ConvolutionChoice) -> None:
    """Replace the file atomically; without a cache the trial is repeated at the next start."""
    entry = {"form": choice.form, "reason": choice.reason, "ratio": choice.ratio}
    path = _path()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.write_json(path, _read() | {key: entry}, indent=1)
