"""Matrix products of float16 with promoted sums, where a trial finds them right and the fastest.

GeForce GPUs add products up in half precision twice as fast as in float32, which torch's libraries
only do for whole sums. Our kernel of convolutions adds few of them at a time to a float32 sum. A
product is a convolution with one tap: tokens lie as a frame that is 16 of them wide, and its
weights are brought into the kernel's order for each call, which reads and writes them once. torch
computes the up to 15 tokens that are left over.

Tests run the kernel's source on the CPU; no GPU has run it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from engine.core import gpu_loss
from engine.core.serialization import ResultFile
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.choices import settled
from engine.ops.kernels.conv import ConvKernel, Work, find
from engine.ops.kernels.conv_tiles import DTYPE, Program, Taps
from engine.ops.linear.matmul import product
from engine.ops.trials import WORTH_IT, first_line, machine, seconds_of

logger = logging.getLogger(__name__)

RESULTS = ResultFile("products.json")
_WIDTH = 16  # tokens of a line of the frame
_LEAST_ROWS = 1024  # fewer, as of a text, are not worth bringing weights into order
_TRIAL_ROWS = 4096
_SPOTS = 48  # results that are compared with float64
_LIMIT = 2e-2  # largest error, in units of the results' RMS; as of convolutions in float16
_RUNS = 3  # of which the shortest counts

Way = Literal["kernel", "torch"]


def multiply(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, share: float = 1.0
) -> bool:
    """Write the product (x weight' + bias) * share into `out`, if the kernel is to compute it.

    The choice is made once for each kind of layer, GPU, driver and version of torch, and kept in a
    file of the cache folder and with the job, whose choice counts.

    Args:
        x: [N, in] on a GPU.
        weight: [out, in].
        bias: [out].
        out: [N, out]; not touched where the result is False.
        share: See `matmul.product`.

    Returns:
        Whether it was computed; else `matmul.product` is to do it.

    Raises:
        ChoiceMissing: The job uses the kernel, and it is not right on this device.

    Memory: a copy of the weight.
    """
    kernel = _kernel(x, weight, out)
    if kernel is None or not _is_chosen(kernel, x.device):
        return False
    _multiply(kernel, x, weight, bias, out, share)
    return True


def by_kernel(x: Tensor, weight: Tensor, out: Tensor) -> Callable[[], None] | None:
    """The product without a bias by the kernel, whatever a trial prefers; None without a kernel."""
    kernel = _kernel(x, weight, out)
    return None if kernel is None else partial(_multiply, kernel, x, weight, None, out, 1.0)


def _kernel(x: Tensor, weight: Tensor, out: Tensor) -> ConvKernel | None:
    """The kernel for a product; None where it does not exist, and for few tokens."""
    if x.device.type != "cuda" or x.dtype != DTYPE or len(x) < _LEAST_ROWS:
        return None
    outer, inner = weight.shape
    count = len(x) // _WIDTH * _WIDTH
    store = _work(x[:count], None, out[:count], 1.0).store
    kernel = find(Taps(outer, inner, 1, 1, 1), x.device, store=store)
    return kernel if kernel is not None and kernel.program.promote else None


def _multiply(
    kernel: ConvKernel, x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, share: float
) -> None:
    count = len(x) // _WIDTH * _WIDTH
    _convolve(kernel, weight, _work(x[:count], bias, out[:count], share), share)
    if count < len(x):
        product(x[count:], weight, bias, out[count:], share=share)


def _work(x: Tensor, bias: Tensor | None, out: Tensor, share: float) -> Work:
    """Tokens as frames [1, C, N / 16, 16]."""
    lines = -1, _WIDTH
    frames, into = (torch.unflatten(rows, 0, lines)[None].permute(0, 3, 1, 2) for rows in (x, out))
    return Work(frames=frames, out=into, bias=None if bias is None else bias.float() * share)


def _convolve(kernel: ConvKernel, weight: Tensor, work: Work, share: float) -> None:
    kernel.convolve(_packed(kernel.program, weight, share), work)


def _packed(program: Program, weight: Tensor, share: float) -> Tensor:
    """A weight times `share` in the kernel's order; in one pass where it fills whole tiles.

    Numbers below 2^-14 lose bits by a power of two as well, which matters less than the rounding of
    results does.
    """
    (outer, inner), across, chunk = weight.shape, program.tile.channels, program.chunk
    if outer % across or inner % chunk:
        return program.packed((weight * share)[:, :, None, None, None])
    tiled = weight.reshape(-1, across, inner // chunk, chunk).transpose(1, 2)
    into = torch.empty(tiled.shape, dtype=DTYPE, device=weight.device)
    return torch.mul(tiled, share, out=into)


# --- the choice


def _is_chosen(kernel: ConvKernel, device: torch.device) -> bool:
    """Whether the running job uses the kernel; without a job, whether it is right and faster."""
    taps = kernel.program.taps
    kind = f"{taps.inner} to {taps.outer}, promoted every {kernel.program.promote}"
    way = settled(
        device.type,
        "product",
        (DTYPE, kind),
        propose=partial(_preferred, kernel, device, kind),
        fault_of=partial(_fault_of, kernel, device),
    )
    return way == "kernel"


@cache
def _preferred(kernel: ConvKernel, device: torch.device, kind: str) -> Way:
    """The faster of two ways that are right, measured now or before."""
    key = f"{machine(device)}, {kind}"
    known = RESULTS.get(key).get("way")
    if known in ("kernel", "torch"):
        return "kernel" if known == "kernel" else "torch"
    found = _tried(kernel, device)
    is_faster = not found.fault and found.seconds < WORTH_IT * found.usual
    way: Way = "kernel" if is_faster else "torch"
    if found.fault:
        logger.warning("our kernel for products of %s %s", kind, found.fault)
    RESULTS.put(key, {"way": way, "ratio": found.seconds / found.usual if found.usual else 0.0})
    logger.info("products of %s: %s", key, way)
    return way


@cache
def _fault_of(kernel: ConvKernel, device: torch.device, way: str) -> str:
    """Why a way that a job was begun with is not right here; "" if it is."""
    if way == "torch":
        return ""
    return _tried(kernel, device).fault if way == "kernel" else "it is unknown"


class _Trial(NamedTuple):
    """A trial: seconds of the kernel and of torch, and what is wrong with the kernel."""

    seconds: float
    usual: float
    fault: str = ""


def _tried(kernel: ConvKernel, device: torch.device) -> _Trial:
    """The kernel and torch on random numbers.

    Raises:
        torch.OutOfMemoryError: There is no memory to try it.
    """
    taps, random = kernel.program.taps, torch.Generator().manual_seed(1)
    with torch.inference_mode():
        x = torch.randn(_TRIAL_ROWS, taps.inner, generator=random).to(DTYPE)
        weight = torch.randn(taps.outer, taps.inner, generator=random) / taps.inner**0.5
        weight = weight.to(DTYPE)
        rows, columns = (
            torch.randint(size, (_SPOTS,), generator=random) for size in (_TRIAL_ROWS, taps.outer)
        )
        exact = (x[rows].double() * weight[columns].double()).sum(1)
        x, weight = x.to(device), weight.to(device)
        out = torch.empty(_TRIAL_ROWS, taps.outer, dtype=DTYPE, device=device)
        work = _work(x, None, out, 1.0)
        try:
            _convolve(kernel, weight, work, 1.0)
            found = out[rows.to(device), columns.to(device)].double().cpu()
            error = float((found - exact).abs().max() / exact.square().mean().sqrt())
            if not error <= _LIMIT:  # not a number is a fault too
                return _Trial(0.0, 0.0, f"computes wrong results (error {error:.1e})")
            ours = _fastest(lambda: _convolve(kernel, weight, work, 1.0), device)
        except RuntimeError as err:
            if is_out_of_memory(err) or gpu_loss.noticed(err):  # no verdict on the kernel
                raise
            return _Trial(0.0, 0.0, f"does not run ({first_line(err)})")
        return _Trial(ours, _fastest(lambda: product(x, weight, None, out), device))


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    return min(seconds_of(work, device) for _ in range(_RUNS))
