"""Seconds of operations, passes, launches and copies on a GPU of which nothing was measured.

GPUs differ by what their matrix units, their memory and the link to main memory can do at most
(`resources/gpus.toml`). The shares of it that convolutions, products and passes reach come from an
H100 that ran Upreel and from public logs of RTX GPUs (`docs/predictions.md`); Upreel has run on
none of those. Work that no GPU was timed with has a range as wide as that ignorance: `Case`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.hardware.gpu_table import Generation, GpuSpec
from engine.models.contracts import StageWork

Case = Literal["likely", "best", "worst"]


class Pace(NamedTuple):
    """Times as fast as the same operations in half precision with sums in float32."""

    likely: float
    best: float
    worst: float

    def of(self, case: Case) -> float:
        """Pace of a case."""
        return float(getattr(self, case))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of the theoretical maximum of a GPU that kinds of work reach.

    docs/predictions.md has the source of each, and compares the sums with reports of users.

    Attributes:
        convolutions: Share of the matrix units that cuDNN's convolutions reach, in half precision
            with sums in float32.
        products: Share that large matrix products reach.
        single_head: Share that attention with one head of 512 channels reaches.
        bandwidth: Share of the memory's bandwidth that passes reach.
    """

    convolutions: float = 0.79
    products: float = 0.95
    single_head: float = 0.15
    bandwidth: float = 0.7


SHARES = Shares()
# Of the same share; on Turing large products reach less of the maximum.
OF_GENERATION: dict[Generation, float] = {"turing": 0.87, "ampere": 1, "ada": 1, "blackwell": 1}
UNCOUNTED = 1.1  # times the seconds of all counted parts is what an H100 took
LAUNCH_S = 56e-6  # of the host for a kernel

# Values that matrix units multiply in the time of one in half precision, where GeForce GPUs keep
# sums in float32 (white papers of Turing to Blackwell), and least capability; half of it on GPUs
# whose half precision has its full rate with such sums.
FORMAT_RATES = {"int8": (4.0, (7, 5)), "fp8": (2.0, (8, 9)), "nvfp4": (8.0, (12, 0))}
# Shares of that rate that products reached on the H100, compared with half precision: a layer from
# 2560 to 13,824 took 0.65 ms in bfloat16, its int8 product 0.71 and its fp8 product 0.37 ms. None
# was timed with nvfp4, which counts with the lower of the two.
FORMAT_SHARES = {"int8": 0.46, "fp8": 0.88, "nvfp4": 0.46}
# Convolutions and products of our kernel with sums in float16, where a trial prefers it: its gain
# is calculated and no GPU has run it, so that only the best case counts it.
HALF_SUMS = Pace(likely=1.0, best=1.6, worst=1.0)
# Attention by its backend, as the H100 computed windows of 463 to 2,546 tokens, compared with the
# backend that torch chooses there. Packages were not timed: no faster than torch's choice, at best
# as fast as the formats that they multiply in, at worst as torch's flash attention.
_FLASH = Pace(likely=0.62, best=1.0, worst=0.58)
ATTENTION = {
    "auto": Pace(1.0, 1.0, 1.0),
    "sdpa": Pace(1.0, 1.0, 1.0),
    "cudnn": Pace(0.97, 1.0, 0.92),
    "flash": _FLASH,
    "efficient": Pace(0.34, 0.36, 0.31),
    "math": Pace(0.035, 0.037, 0.034),
    "flash2": _FLASH,
    "flash3": Pace(1.0, 1.0, 0.58),
    "xformers": _FLASH,
    "sage2": Pace(1.0, 8 / 3, 0.58),
    "sage2-fp16": Pace(1.0, 8 / 3, 0.58),
    "sage2-fp8": Pace(1.0, 8 / 3, 0.58),
    "sage3-fp4": Pace(1.0, 8.0, 0.58),
    "sage3-fp4-fast": Pace(1.0, 8.0, 0.58),
}
_GUESSED_BEST = 0.72  # of the likely time may take what was not counted, as networks of frames
_LITE_SHARE = 0.2  # a guess
_SINGLE_SHARE = 0.5  # in float32, which the matrix units do not compute
_TF32_RATE = 0.5  # of half precision
_PINNED_SHARE, _PAGED_SHARE = 0.8, 0.3  # of the link, from pinned memory and from any other
_EXPOSED = 0.1  # of the shorter of computing and copying is not hidden by the other
_RESTORE_BYTES = 100  # moved for a pixel of the result: exact size, colours, code values
_TRANSFER_BYTES = 6  # of a pixel that goes to main memory
_HALF = ("float16", "bfloat16")


def compute_seconds(
    gpu: GpuSpec, stage: StageWork, shares: Shares = SHARES, *, case: Case = "likely"
) -> float:
    """Seconds of the operations and passes of a stage: everything that the speed test measures.

    TRAP: a likely time counts the convolutions of cuDNN. Kernels of ours with sums in float16 are
    in the best case alone: what the speed test and finished jobs measure has them in it.

    Args:
        gpu: Specification with its theoretical maxima; GPUs before Ampere do not multiply bfloat16
            in matrix units.
        stage: Its work.
        shares: Shares of those maxima that it reaches.
        case: Which of the times that are possible.
    """
    passing = stage.passed_bytes / (gpu.bandwidth * shares.bandwidth)
    if stage.kind in ("lite", "lite-plus"):
        taken = max(_lite_seconds(gpu, stage), passing)
    elif _is_half(gpu, stage.dtype):
        packing = stage.packed_bytes / (gpu.bandwidth * shares.bandwidth)
        taken = _multiplying(gpu, stage, shares, case) + passing
        if stage.half_sums and case == "best":  # a trial takes the faster one
            by_kernel = _multiplying(gpu, stage, shares, case, half_sums=True)
            taken = min(taken, by_kernel + packing + passing)
        taken = max(UNCOUNTED * taken, LAUNCH_S * stage.launches)
    else:
        by_matrices = stage.tf32 and stage.dtype == "float32" and gpu.capability >= (8, 0)
        rate = (
            gpu.half_flops * _TF32_RATE * shares.products
            if by_matrices
            else gpu.single_flops * _SINGLE_SHARE
        )
        taken = max(UNCOUNTED * (stage.operations / rate + passing), LAUNCH_S * stage.launches)
    return taken * _GUESSED_BEST if case == "best" and not stage.is_counted else taken


def _multiplying(
    gpu: GpuSpec, stage: StageWork, shares: Shares, case: Case, *, half_sums: bool = False
) -> float:
    """Seconds of convolutions and products in half precision, or in narrower formats."""
    rate = gpu.half_flops * OF_GENERATION[gpu.generation]
    pace = HALF_SUMS.of(case) if half_sums and gpu.is_geforce else 1.0
    convolutions = stage.operations - stage.products
    if stage.kind == "vae":
        single = stage.products / (rate * shares.single_head)
        return convolutions / (rate * shares.convolutions * pace) + single
    wide = stage.products - stage.narrow - stage.attended
    counted = convolutions / shares.convolutions + wide / shares.products
    narrow = stage.narrow / format_pace(gpu, stage.narrow_format).of(case)
    attended = stage.attended / ATTENTION[stage.attention].of(case)
    return (counted / pace + (narrow + attended) / shares.products) / rate


def format_pace(gpu: GpuSpec, kind: str) -> Pace:
    """Pace of matrix products in a format; as half precision where the GPU has none of it."""
    times, least = FORMAT_RATES.get(kind, (1.0, (0, 0)))
    if kind not in FORMAT_RATES or gpu.capability < least:
        return Pace(1.0, 1.0, 1.0)
    times = times if gpu.is_geforce else times / 2
    return Pace(likely=FORMAT_SHARES[kind] * times, best=times, worst=min(1.0, times))


def _lite_seconds(gpu: GpuSpec, stage: StageWork) -> float:
    """Seconds of the operations; its passes take longer where channels are few."""
    is_half = _is_half(gpu, stage.dtype)
    rate = gpu.half_flops * _LITE_SHARE if is_half else gpu.single_flops * _SINGLE_SHARE
    return stage.operations / rate


def _is_half(gpu: GpuSpec, dtype: str) -> bool:
    """Whether the matrix units compute in a type."""
    return dtype in _HALF and not (dtype == "bfloat16" and gpu.capability < (8, 0))


# --- copies


def copied(gpu: GpuSpec, stage: StageWork, computing: float) -> float:
    """Seconds of a stage with what it copies: weights meanwhile, carries before and after."""
    taken = computing
    if stage.pinned_bytes or stage.paged_bytes:
        copying = copy_seconds(gpu, stage.pinned_bytes, stage.paged_bytes)
        taken = with_copying(taken, copying) if stage.hides_copies else taken + copying
    taken += copy_seconds(gpu, stage.parked_pinned_bytes, stage.parked_bytes)
    return taken + stage.moved_bytes / (gpu.bandwidth * SHARES.bandwidth)


def copy_seconds(gpu: GpuSpec, pinned_bytes: float, paged_bytes: float) -> float:
    """Seconds of copying between the GPU and pinned main memory, and any other."""
    link = gpu.link_bandwidth
    return pinned_bytes / (link * _PINNED_SHARE) + paged_bytes / (link * _PAGED_SHARE)


def with_copying(computing: float, copying: float) -> float:
    """Seconds of a stage whose weights are copied while it computes; most of it hides."""
    return max(computing, copying) + _EXPOSED * min(computing, copying)


def restore_seconds(gpu: GpuSpec, pixels: float) -> float:
    """Seconds to resize, colour-convert and download n pixels of the result."""
    moving = pixels * _RESTORE_BYTES / (gpu.bandwidth * SHARES.bandwidth)
    return moving + pixels * _TRANSFER_BYTES / (gpu.link_bandwidth * _PAGED_SHARE)
