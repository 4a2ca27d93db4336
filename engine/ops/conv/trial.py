"""Form of a convolution over time on a GPU: found by a trial of each kind of layer, and cached.

cuDNN 9.8 to 9.14 computes 3-D convolutions in half precision through a copy of the input that is
27 times as large, or not at all. Versions are no proof, so memory and result are checked.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core import gpu_loss
from engine.core.serialization import ResultFile
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.choices import settled
from engine.ops.conv.causal_conv import ConvShape
from engine.ops.conv.kernel_conv import Beside, KernelConv
from engine.ops.conv.temporal_conv import Form, TemporalConv, WinogradConv, laid_out
from engine.ops.kernels.conv import ConvKernel, find
from engine.ops.kernels.conv_tiles import DTYPE, Taps
from engine.ops.precision import current
from engine.ops.trials import WORTH_IT, first_line, machine, seconds_of

logger = logging.getLogger(__name__)

RESULTS = ResultFile("convolutions.json")
MOST_WORKSPACE = 4.0  # sizes of input, weights and result that a sound convolution may need besides
_SPOTS = 48  # output pixels that are compared with float64
_RUNS = 3  # of which the shortest counts
_STEPS = 4  # output frames, as of a slice

# Values of a frame and its pixels, at most: on a GPU, and on a CPU.
_FRAME = {"cuda": (2**21, 2**14), "cpu": (2**14, 2**9)}

# Largest error that rounding explains, in units of the result's RMS.
_LIMITS = {
    torch.float64: 1e-10,
    torch.float32: 1e-3,
    torch.float16: 2e-2,
    torch.bfloat16: 1.5e-1,
}


class LayerKind(NamedTuple):
    """Kind of a convolution over time: all but its weights and the size of its frames."""

    weight: tuple[int, ...]  # O, I, K, kh, kw
    padding: int = 1  # on each side of height and width
    stride: tuple[int, int] = (1, 1)  # over time and over space

    @property
    def text(self) -> str:
        """All of it, for the key of a result."""
        outer, inner, *kernel = self.weight
        size = "x".join(map(str, kernel))
        return f"{inner} to {outer} by {size}, padding {self.padding}, strides {self.stride}"

    def frames(self, device: torch.device) -> tuple[int, int, int, int]:
        """Shape of what the trial convolves: small, whatever the channels."""
        outer, inner, reach, *_ = self.weight
        values, pixels = _FRAME[device.type]
        side = math.isqrt(min(pixels, values // max(outer, inner)))
        return reach + self.stride[0] * (_STEPS - 1), inner, side, side


# What shows whether convolutions are right here: the widest layers of most models.
_SHOWN = {"cuda": LayerKind((256, 256, 3, 3, 3)), "cpu": LayerKind((32, 32, 3, 3, 3))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionChoice:
    """The form to use, and why."""

    form: Form | Literal["kernel"]
    reason: str  # for users: a clause without a full stop
    winograd: bool = False  # F(2, 3) is faster still
    ratio: float | None = None  # time of 3-D over that of 2-D sums; None where not compared
    is_sound: bool = True  # False when no form was right

    @property
    def way(self) -> str:
        """Name of the form, and of F(2, 3) where it is used: a key of _WAYS."""
        return f"{self.form}, F(2, 3)" if self.winograd else self.form

    @property
    def text(self) -> str:
        """One line for users."""
        compared = "" if self.ratio is None else f" (3-D takes {self.ratio:.2f} x the time of 2-D)"
        name = "kernel" if self.form == "kernel" else self.form.upper()
        return f"{name}: {self.reason}{compared}"


# Ways of a layer that a job may be begun with.
_WAYS: dict[str, dict[str, Any]] = {
    "2d": {"form": "2d"},
    "3d": {"form": "3d"},
    "kernel": {"form": "kernel"},
    "2d, F(2, 3)": {"form": "2d", "winograd": True},
    "3d, F(2, 3)": {"form": "3d", "winograd": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of one form."""

    error: float = 0.0  # largest, in units of the exact result's RMS
    workspace: float = 0.0  # most bytes besides, in sizes of input, weights and result; 0: unknown
    seconds: float = 0.0
    failure: str = ""  # the message when it did not run


@dataclass(frozen=True, slots=True)
class _Problem:
    """A layer, frames [N, I, H, W] for it, and the truth at some pixels of its result."""

    layer: LayerKind
    frames: Tensor
    weight: Tensor
    spots: Tensor  # [S, 3]: step, row, column of the result
    exact: Tensor = field(repr=False)  # [S, O] float64 on the CPU


def choose_convolution(
    device: torch.device,
    dtype: torch.dtype,
    layer: LayerKind,
    kernel: ConvKernel | None = None,
) -> ConvolutionChoice:
    """The form of a layer that is right and fastest on a GPU.

    Measured once for each kind of layer, GPU, driver, version of torch and cuDNN, dtype, and sums
    of our kernel, on four frames of at most 2^21 values, and kept in a file of the cache folder.
    What fails while measuring leads to 2-D sums, never to an exception; after a lack of memory it
    is tried again. A job keeps the form of its first frames, also after a lack of memory.

    Args:
        device: The GPU.
        dtype: Type of the frames.
        layer: Kind of the layer.
        kernel: Our kernel for it, or for equal parts of its channels; None: it is no choice.

    Raises:
        ChoiceMissing: The form that the running job uses is not right on this device.

    Memory: for a moment, the first time, for layers of SeedVR2's VAE at most 0.16 GB in half
    precision and 0.32 GB in float32, and cuDNN's workspace; on the host 0.4 GB.
    """
    own: list[ConvolutionChoice] = []

    def propose() -> str:
        own.append(_preferred(device, dtype, layer, kernel))
        return own[0].way if own[0].is_sound else ""

    way = settled(
        device.type,
        "convolution",
        (dtype, layer.text + _words(layer, kernel)),
        propose=propose,
        fault_of=lambda way: _fault_of_way(way, device, dtype, layer, kernel),
    )
    if own and way in ("", own[0].way):
        return own[0]
    return ConvolutionChoice(**_WAYS[way], reason="the job was begun with it")


def _preferred(
    device: torch.device, dtype: torch.dtype, layer: LayerKind, kernel: ConvKernel | None
) -> ConvolutionChoice:
    """The fastest form; 2-D sums for now where it cannot be measured."""
    try:
        return _choose(device, dtype, layer, current().cudnn_benchmark, kernel)
    except RuntimeError as err:
        return _untried(err)


@cache
def _choose(
    device: torch.device,
    dtype: torch.dtype,
    layer: LayerKind,
    benchmark: bool,
    kernel: ConvKernel | None,
) -> ConvolutionChoice:
    key = _key(device, dtype, layer, benchmark, kernel)
    known = _choice_of(RESULTS.get(key))
    if known is not None:
        return known
    choice = _probe(device, dtype, layer, kernel)
    if choice.is_sound:
        names = "form", "winograd", "ratio", "reason"
        RESULTS.put(key, {name: getattr(choice, name) for name in names})
    logger.info("convolutions of %s: %s", key, choice.text)
    return choice


def _key(
    device: torch.device,
    dtype: torch.dtype,
    layer: LayerKind,
    benchmark: bool,
    kernel: ConvKernel | None,
) -> str:
    """Everything that could change the result, as text."""
    kind = str(dtype).removeprefix("torch.") + ("" if benchmark else ", no benchmark")
    return f"{machine(device)}, {kind}{_words(layer, kernel)}, {layer.text}"


def _fault_of_way(
    way: str,
    device: torch.device,
    dtype: torch.dtype,
    layer: LayerKind,
    kernel: ConvKernel | None,
) -> str:
    """Why a way of a layer that a job was begun with is not right here; "" if it is.

    Raises:
        torch.OutOfMemoryError: There is no memory to try it.
    """
    if way not in _WAYS or (way == "kernel" and kernel is None):
        return "it is unknown"
    key = _key(device, dtype, layer, current().cudnn_benchmark, kernel)
    known = _choice_of(RESULTS.get(key))
    if known is not None and known.way == way:
        return ""
    with torch.inference_mode(), _as_models_do():
        problem = _problem(device, dtype, layer)
        if way == "kernel" and kernel is not None:
            found = _try_kernel(problem, kernel)
        else:
            found = _try(problem, **_WAYS[way])
    return _fault(found, _LIMITS[dtype])


def _words(layer: LayerKind, kernel: ConvKernel | None) -> str:
    """Our kernel in the key of a result."""
    if kernel is None:
        return ""
    sums = f"promoted every {kernel.program.promote}" if kernel.program.promote else "in float32"
    parts = layer.weight[0] // kernel.program.taps.outer
    return f", our kernel with sums {sums}" + (f" in {parts} parts" if parts > 1 else "")


def _choice_of(entry: dict[str, object]) -> ConvolutionChoice | None:
    match entry:
        case {
            "form": "2d" | "3d" | "kernel" as form,
            "winograd": bool(winograd),
            "reason": str(reason),
        }:
            ratio = entry.get("ratio")
            known = ratio if isinstance(ratio, float) else None
            return ConvolutionChoice(form=form, winograd=winograd, ratio=known, reason=reason)
    return None


def probe_convolution(device: torch.device | str, dtype: torch.dtype) -> ConvolutionChoice:
    """The choice for a usual layer, measured now, without the cache; some milliseconds."""
    device = torch.device(device)
    try:
        layer = _SHOWN[device.type]
        kernel = find(Taps(*layer.weight), device) if dtype == DTYPE else None
        return _probe(device, dtype, layer, kernel)
    except RuntimeError as err:
        return _untried(err)


def _untried(error: RuntimeError) -> ConvolutionChoice:
    return ConvolutionChoice(form="2d", reason=f"the self-test failed: {first_line(error)}")


def _probe(
    device: torch.device, dtype: torch.dtype, layer: LayerKind, kernel: ConvKernel | None = None
) -> ConvolutionChoice:
    with torch.inference_mode(), _as_models_do():
        problem = _problem(device, dtype, layer)
        trials = [_try(problem, form) for form in ("2d", "3d")]
        choice = decide(*trials, dtype=dtype, on_card=device.type == "cuda")
        if kernel is not None:
            ours = _try_kernel(problem, kernel)
            fault = _fault(ours, _LIMITS[dtype])
            if fault:
                logger.warning("our kernel for convolutions of %s %s", layer.text, fault)
            best = trials[choice.form == "3d"].seconds if choice.is_sound else math.inf
            if not fault and ours.seconds < WORTH_IT * best:
                reason = "our kernel is right and the fastest"
                return replace(choice, form="kernel", reason=reason, is_sound=True)
        if not choice.is_sound or layer.weight[2] != 3 or layer.stride[0] > 1:
            return choice
        is_3d = choice.form == "3d"
        pairs = _try(problem, "3d" if is_3d else "2d", winograd=True)
    faster = pairs.seconds < WORTH_IT * trials[is_3d].seconds
    return replace(choice, winograd=faster and not _fault(pairs, _LIMITS[dtype]))


def decide(two: Trial, three: Trial, *, dtype: torch.dtype, on_card: bool) -> ConvolutionChoice:
    """Weigh 2-D sums against 3-D.

    Args:
        two: Result of sums of 2-D convolutions.
        three: Result of the 3-D convolution.
        dtype: Type of the frames.
        on_card: A GPU uses the faster one. On a CPU both take the same time, so it takes
            what needs no copies: sums in place, or in half precision, where they would round too
            often, 3-D.
    """
    faults = _fault(two, _LIMITS[dtype]), _fault(three, _LIMITS[dtype])
    if all(faults):
        reason = f"neither form works: 2-D {faults[0]}; 3-D {faults[1]}"
        return ConvolutionChoice(form="2d", reason=reason, is_sound=False)
    ratio = three.seconds / two.seconds if three.seconds and two.seconds else None
    if faults[1]:
        return ConvolutionChoice(form="2d", reason=f"3-D {faults[1]}", ratio=ratio)
    if faults[0]:
        return ConvolutionChoice(form="3d", reason=f"2-D {faults[0]}", ratio=ratio)
    if not on_card and dtype.itemsize < 4:
        return ConvolutionChoice(form="3d", reason="a single rounding and no copies", ratio=ratio)
    if not on_card:
        return ConvolutionChoice(form="2d", reason="sums in place on the CPU", ratio=ratio)
    form: Form = "3d" if ratio is not None and ratio < WORTH_IT else "2d"
    return ConvolutionChoice(form=form, reason="the faster of two correct forms", ratio=ratio)


def _fault(trial: Trial, limit: float) -> str:
    if trial.failure:
        return f"does not run ({trial.failure})"
    if not trial.error <= limit:  # not a number is a fault too
        return f"computes wrong results (error {trial.error:.1e})"
    if trial.workspace > MOST_WORKSPACE:
        return f"needs {trial.workspace:.0f} times its size as workspace"
    return ""


# --- the trial


def _as_models_do() -> AbstractContextManager[None]:
    """The settings of cuDNN under which models compute; its own benchmark runs in a first call."""
    benchmark = current().cudnn_benchmark
    return torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, allow_tf32=False)


def _problem(device: torch.device, dtype: torch.dtype, layer: LayerKind) -> _Problem:
    shape, (outer, inner, *kernel) = layer.frames(device), layer.weight
    generator = torch.Generator().manual_seed(1)
    frames = torch.randn(shape, generator=generator)
    weight = torch.randn(outer, inner, *kernel, generator=generator) / inner**0.5
    frames, weight = frames.to(dtype), weight.to(dtype)
    sides = [(shape[2] + 2 * layer.padding - k) // layer.stride[1] + 1 for k in kernel[1:]]
    sizes = torch.tensor([_STEPS, *sides])
    spots = (torch.rand(_SPOTS, 3, generator=generator) * sizes).long()
    spots[0], spots[1] = 0, sizes - 1  # corners see the padding
    exact = _exact(layer, frames, weight, spots)
    frames = frames.to(device).to(memory_format=torch.channels_last)
    return _Problem(layer, frames, weight.to(device), spots, exact)


def _exact(layer: LayerKind, frames: Tensor, weight: Tensor, spots: Tensor) -> Tensor:
    padded, (over_time, over_space) = F.pad(frames, 4 * (layer.padding,)), layer.stride
    reach, height, width = weight.shape[2:]
    patches = []
    for step, row, column in spots.tolist():
        t, y, x = over_time * step, over_space * row, over_space * column
        patches.append(padded[t : t + reach, :, y : y + height, x : x + width])
    return torch.einsum("stiyx,oityx->so", torch.stack(patches).double(), weight.double())


def _try(problem: _Problem, form: Form, *, winograd: bool = False) -> Trial:
    layer = problem.layer

    def make() -> Callable[[], Tensor]:
        weight = laid_out(problem.weight, form)
        taps = TemporalConv(weight, None, padding=layer.padding, stride=layer.stride, form=form)
        conv = WinogradConv(problem.weight, taps) if winograd else taps
        return partial(conv.apply, problem.frames)

    return _tried(problem, make)


def _try_kernel(problem: _Problem, kernel: ConvKernel) -> Trial:
    layer, frames = problem.layer, Beside(problem.frames)
    shape = ConvShape(
        padding=layer.padding,
        time_stride=layer.stride[0],
        space_stride=layer.stride[1],
        past="none",
    )

    def make() -> Callable[[], Tensor]:
        weights = problem.weight.chunk(layer.weight[0] // kernel.program.taps.outer)
        parts = [KernelConv(weight, None, shape, kernel) for weight in weights]
        return lambda: torch.cat([part.run_first(frames).frames for part in parts], 1)

    return _tried(problem, make)


def _tried(problem: _Problem, make: Callable[[], Callable[[], Tensor]]) -> Trial:
    """Result of a way that `make` prepares."""
    device = problem.frames.device
    try:
        work = make()
        error = _error(work(), problem)
        workspace = _workspace(work, problem) if device.type == "cuda" else 0.0
        seconds = min(seconds_of(work, device) for _ in range(_RUNS))
    except RuntimeError as err:
        if is_out_of_memory(err) or gpu_loss.noticed(err):  # no verdict on this way
            raise
        return Trial(failure=first_line(err))
    return Trial(error=error, workspace=workspace, seconds=seconds)


def _error(result: Tensor, problem: _Problem) -> float:
    step, row, column = problem.spots.to(result.device).unbind(1)
    found = result[step, :, row, column].double().cpu()
    difference = (found - problem.exact).abs().max()
    return float(difference / problem.exact.square().mean().sqrt())


def _workspace(work: Callable[[], Tensor], problem: _Problem) -> float:
    torch.cuda.synchronize(problem.frames.device)
    torch.cuda.reset_peak_memory_stats(problem.frames.device)
    before = torch.cuda.memory_allocated(problem.frames.device)
    result = work()
    torch.cuda.synchronize(problem.frames.device)
    peak = torch.cuda.max_memory_allocated(problem.frames.device) - before
    size = problem.frames.nbytes + problem.weight.nbytes + result.nbytes
    return (peak - result.nbytes) / size
